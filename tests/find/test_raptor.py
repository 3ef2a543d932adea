from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from covec.checks.planted import draw
from covec.find._rows import Rows
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.raptor import RIDGES, Raptor


def test_grid() -> None:
    assert len(RIDGES) == 13
    assert RIDGES[0] == pytest.approx(1e-4)
    assert RIDGES[-1] == pytest.approx(1e4)
    assert np.ptp(np.diff(np.log(RIDGES))) < 1e-12


def test_the_ridge_of_the_best_accuracy_is_taken_and_the_larger_of_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covec.find._solvers.CHOOSING", 1e-6)  # as exact as the peer
    world = draw(90, 40, effect=2, seed=0)
    rows = Rows(world.X, world.y)
    Z, positive, folds = rows.spectrum.standardised.numpy(), rows.positive.numpy(), rows.folds().numpy()
    shares = []
    for ridge in RIDGES:
        right = np.empty(90, dtype=bool)
        for fold in range(5):
            peer = LogisticRegression(C=1 / (90 * ridge), tol=1e-8, max_iter=10_000)
            peer.fit(Z[folds != fold], positive[folds != fold])
            right[folds == fold] = peer.predict(Z[folds == fold]) == positive[folds == fold]
        shares.append(right.mean())
    chosen = RIDGES.index(Raptor().fit(world.X, world.y).ridge_)
    assert shares[chosen] == max(shares)
    assert max(shares[chosen + 1 :]) < max(shares)


def test_on_easy_concepts_it_takes_the_largest_ridge_that_errs_in_nothing() -> None:
    world = draw(60, 10, effect=30, seed=1)
    assert Raptor().fit(world.X, world.y).ridge_ > 10


def test_at_one_ridge_it_is_logistic_regression() -> None:
    world = draw(60, 90, effect=1, seed=2)
    for ridge in (1e-2, 10.0):
        found, wanted = (finder(ridges=(ridge,)).fit(world.X, world.y) for finder in (Raptor, Logistic))
        assert found.direction_ @ wanted.direction_ == pytest.approx(1, abs=1e-6)


def test_it_is_in_the_space_of_the_rows() -> None:
    """Step 4 of the card: weights are divided by the deviations, or steering goes wrong."""
    world = draw(200, 8, effect=2, seed=3)
    X, stretch = world.X.double().numpy(), np.geomspace(1, 50, 8)
    plain = Raptor(ridges=(0.1,)).fit(X, world.y).direction_.double().numpy()
    found = Raptor(ridges=(0.1,)).fit(X * stretch, world.y).direction_.double().numpy()
    np.testing.assert_allclose(found, plain / stretch / np.linalg.norm(plain / stretch), atol=1e-5)


def test_a_very_strong_ridge_is_the_difference_of_standardised_means() -> None:
    world = draw(60, 90, effect=1, seed=4)
    limit = MeanDifference().fit(world.X / world.X.std(0, unbiased=False) ** 2, world.y).direction_
    assert Raptor(ridges=(1e6,)).fit(world.X, world.y).direction_ @ limit > 1 - 1e-5
