from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge as Peer
from sklearn.preprocessing import StandardScaler

from covec.checks.planted import draw
from covec.errors import ExamplesError
from covec.find._rows import Rows
from covec.find._solvers import areas
from covec.find.mean_difference import MeanDifference
from covec.find.ridge import RIDGES, Ridge, held_out


def test_exact_in_one_dimension() -> None:
    found = Ridge(ridges=(1.0,)).fit([[3.0], [1.0], [0.0], [-2.0]], [1, 1, 0, 0])
    assert found.direction_.tolist() == [1]
    assert (found.intercept_, found.scale_) == (-0.5, 3)


@pytest.mark.parametrize(("n", "d"), [(200, 12), (40, 90)])
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 1e3])
def test_it_agrees_with_scikit_learn(n: int, d: int, ridge: float) -> None:
    world = draw(n, d, effect=1, seed=0)
    scaler = StandardScaler().fit(world.X.double())
    peer = Peer(alpha=n * ridge).fit(scaler.transform(world.X.double()), np.where(world.y, 1, -1))
    wanted = peer.coef_ / scaler.scale_
    found = Ridge(ridges=(ridge,)).fit(world.X, world.y)
    assert found.direction_.double().numpy() @ wanted / np.linalg.norm(wanted) > 1 - 1e-6


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(2, 60))
def test_held_out_predictions_are_those_of_refits(seed: int, d: int) -> None:
    world = draw(40, d, effect=1, seed=seed)
    rows, ridges = Rows(world.X, world.y), (1e-3, 0.1, 10.0)
    folds, target = rows.folds(), rows.signs - rows.signs.mean()
    found, Z = held_out(rows.spectrum, target, folds, ridges), rows.spectrum.standardised.numpy()
    for ridge, outputs in zip(ridges, found.numpy(), strict=True):
        for fold in range(5):
            unseen = (folds == fold).numpy()
            refit = Peer(alpha=40 * ridge).fit(Z[~unseen], target.numpy()[~unseen])
            np.testing.assert_allclose(outputs[unseen], refit.predict(Z[unseen]), atol=1e-6)


def test_the_ridge_of_the_highest_held_out_auroc_is_taken() -> None:
    world = draw(80, 60, effect=2, seed=1)
    rows = Rows(world.X, world.y)
    outputs = held_out(rows.spectrum, rows.signs - rows.signs.mean(), rows.folds(), RIDGES)
    found = areas(outputs, rows.positive)
    chosen = RIDGES.index(Ridge().fit(world.X, world.y).ridge_)
    assert found[chosen] == found.max()
    assert all(found[chosen + 1 :] < found.max())


def test_a_strong_ridge_is_the_difference_of_standardised_means() -> None:
    world = draw(60, 90, effect=1, seed=2)
    deviation = world.X.std(0, unbiased=False)
    limit = MeanDifference().fit(world.X / deviation**2, world.y).direction_
    assert Ridge(ridges=(1e9,)).fit(world.X, world.y).direction_ @ limit > 1 - 1e-5


def test_unbalanced_classes_keep_the_sign() -> None:
    world = draw(200, 6, effect=3, seed=3)
    kept = world.y | (np.arange(200) < 20)
    found = Ridge().fit(world.X[kept], world.y[kept])
    assert found.direction_ @ torch.as_tensor(world.direction).float() > 0
    assert found.predict(world.X[kept]).mean() > 0.8


def test_a_ridge_that_is_none_is_refused_where_rows_are_few() -> None:
    world = draw(40, 90, effect=1, seed=0)
    with pytest.raises(ExamplesError, match="a ridge of 0 is too weak"):
        Ridge(ridges=(0.0, 1.0)).fit(world.X, world.y)
