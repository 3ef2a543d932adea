from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from covec.checks.planted import draw
from covec.find._rows import Rows
from covec.find.logistic import RIDGES, Logistic
from covec.statistics.auroc import auroc


def test_grid() -> None:
    assert len(RIDGES) == 7
    assert RIDGES[0] == pytest.approx(1e-3)
    assert RIDGES[-1] == pytest.approx(100)


def test_exact_by_symmetry() -> None:
    found = Logistic(ridges=(0.1,)).fit([[2.0, 1.0], [2.0, -1.0], [0.0, 1.0], [0.0, -1.0]], [1, 1, 0, 0])
    torch.testing.assert_close(found.direction_, torch.tensor([1.0, 0.0]))
    assert (found.intercept_, found.scale_) == pytest.approx((-1, 2))


@pytest.mark.parametrize(("n", "d"), [(300, 20), (80, 120)])
def test_it_agrees_with_scikit_learn_at_the_chosen_ridge(n: int, d: int) -> None:
    world = draw(n, d, effect=1, seed=0)
    found = Logistic().fit(world.X, world.y)
    scaler = StandardScaler().fit(world.X.double())
    peer = LogisticRegression(C=1 / (n * found.ridge_), tol=1e-8, max_iter=10_000)
    wanted = peer.fit(scaler.transform(world.X.double()), world.y).coef_[0] / scaler.scale_
    assert found.direction_.double().numpy() @ wanted / np.linalg.norm(wanted) > 0.99999


def test_its_ridge_is_as_good_as_that_of_a_loop_of_fits() -> None:
    """Two sites x 7 ridges x 5 folds of the usual size, against scikit-learn's loop."""
    X = torch.stack([draw(480, 576, effect=1, seed=seed, shared=0, decay=1).X for seed in range(2)])
    y = np.arange(480) % 2 == 0
    fits = Logistic().fit_many(X, y)
    differences = []
    for site, cell in enumerate(X):
        rows = Rows(cell, y)
        Z, positive, folds = StandardScaler().fit_transform(rows.X), rows.positive.numpy(), rows.folds().numpy()
        areas = []
        for ridge in RIDGES:
            outputs = np.empty(480)
            for fold in range(5):
                peer = LogisticRegression(C=1 / (480 * ridge), max_iter=1000)
                peer.fit(Z[folds != fold], positive[folds != fold])
                outputs[folds == fold] = peer.decision_function(Z[folds == fold])
            areas.append(auroc(outputs, positive))
        chosen = min(range(7), key=lambda index: abs(RIDGES[index] - float(fits.details["ridge"][site])))
        differences.append(max(areas) - areas[chosen])
    assert max(differences) < 0.001
