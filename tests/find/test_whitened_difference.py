from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import oas
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from covec.checks.planted import draw
from covec.find.ridge import Ridge
from covec.find.whitened_difference import WhitenedDifference, shrinkage


@pytest.mark.parametrize(("n", "d"), [(200, 12), (40, 90)])
def test_shrinkage_is_scikit_learns(n: int, d: int) -> None:
    X = StandardScaler().fit_transform(draw(n, d, effect=1, seed=0).X.double())
    covariance, wanted = oas(X, assume_centered=True)
    assert shrinkage(torch.from_numpy(X.T @ X / n), n) == pytest.approx(wanted)
    assert covariance.shape == (d, d)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(3, 30), d=st.integers(1, 12), seed=st.integers(0, 10_000))
def test_shrinkage_is_a_share(n: int, d: int, seed: int) -> None:
    X = torch.from_numpy(np.random.default_rng(seed).standard_normal((n, d)))
    assert 0 < shrinkage(X.T @ X / n, n) <= 1


@pytest.mark.parametrize(("n", "d"), [(200, 12), (40, 90)])
def test_it_is_on_the_path_of_ridge(n: int, d: int) -> None:
    world = draw(n, d, effect=1, seed=1)
    found = WhitenedDifference().fit(world.X, world.y)
    ridge = Ridge(ridges=(found.shrinkage_ / (1 - found.shrinkage_),)).fit(world.X, world.y)
    assert found.direction_.double() @ ridge.direction_.double() > 1 - 1e-6


@pytest.mark.parametrize(("n", "d"), [(200, 12), (40, 90)])
def test_it_agrees_with_shrunken_discriminant_analysis(n: int, d: int) -> None:
    """Within-class and total covariance lead to one direction when shrunken by the same amount."""
    world = draw(n, d, effect=1, seed=2)
    found = WhitenedDifference().fit(world.X, world.y)
    scaler = StandardScaler().fit(world.X.double())
    Z = scaler.transform(world.X.double())
    within = np.concatenate([Z[world.y] - Z[world.y].mean(0), Z[~world.y] - Z[~world.y].mean(0)]).var(0).mean()
    odds = found.shrinkage_ / (1 - found.shrinkage_) / within
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=odds / (1 + odds)).fit(Z, world.y)
    wanted = peer.coef_[0] / scaler.scale_
    assert found.direction_.double().numpy() @ wanted / np.linalg.norm(wanted) > 0.9999


def test_without_correlation_it_divides_by_the_variances() -> None:
    """Exact: four corners of a rectangle, moved by a step a class."""
    corners = torch.tensor([[1.0, 10.0], [1.0, -10.0], [-1.0, 10.0], [-1.0, -10.0]])
    step = torch.tensor([0.1, 1.0])
    found = WhitenedDifference().fit(torch.cat([corners + step, corners - step]), [1] * 4 + [0] * 4)
    torch.testing.assert_close(found.direction_, torch.tensor([10.0, 1.0]) / 101**0.5)
