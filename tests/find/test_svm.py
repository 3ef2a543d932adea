from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from covec.checks.planted import draw
from covec.find.svm import Svm


def test_exact_by_symmetry() -> None:
    found = Svm(ridges=(0.1,)).fit([[2.0, 1.0], [2.0, -1.0], [0.0, 1.0], [0.0, -1.0]], [1, 1, 0, 0])
    torch.testing.assert_close(found.direction_, torch.tensor([1.0, 0.0]))
    assert (found.intercept_, found.scale_) == pytest.approx((-1, 2))


@pytest.mark.parametrize(("n", "d"), [(300, 20), (80, 120)])
def test_it_agrees_with_scikit_learn_at_the_chosen_ridge(n: int, d: int) -> None:
    world = draw(n, d, effect=1, seed=0)
    found = Svm().fit(world.X, world.y)
    scaler = StandardScaler().fit(world.X.double())
    peer = LinearSVC(C=1 / (n * found.ridge_), dual=False, tol=1e-10, max_iter=100_000, intercept_scaling=300)
    wanted = peer.fit(scaler.transform(world.X.double()), world.y).coef_[0] / scaler.scale_
    assert found.direction_.double().numpy() @ wanted / np.linalg.norm(wanted) > 0.9999


def test_rows_beyond_the_margin_do_not_move_it() -> None:
    world = draw(100, 5, effect=6, seed=1)
    found = Svm(ridges=(1e-4,)).fit(world.X, world.y)
    scores = found.decision_function(world.X)
    far = scores > np.quantile(scores, 0.9)
    moved = world.X + 5 * torch.from_numpy(far)[:, None] * found.direction_
    again = Svm(ridges=(1e-4,)).fit(moved, world.y)
    assert again.direction_ @ found.direction_ > 0.98


def test_it_points_to_the_concept_whatever_the_order_of_labels() -> None:
    world = draw(60, 20, effect=3, seed=2)
    found, mirrored = (Svm(ridges=(1.0,)).fit(world.X, labels) for labels in (world.y, ~world.y))
    assert found.direction_ @ mirrored.direction_ == pytest.approx(-1, abs=1e-5)
