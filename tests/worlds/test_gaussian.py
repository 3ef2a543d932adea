"""The Gaussian teacher: labels follow its direction as often as its slope says."""

import numpy as np
import pytest
import torch

from covec.worlds.gaussian import Teacher


def test_labels_follow_the_logistic_law():
    rng = np.random.default_rng(0)
    teacher = Teacher.draw(20, 4.0, rng)
    X, y = teacher.sample(40_000, rng)
    assert float(teacher.direction.norm()) == pytest.approx(1)
    projected = (X.double() @ teacher.direction).numpy()
    near = np.abs(projected - 0.25) < 0.05
    assert y[near].mean() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.03)
    assert np.abs(np.cov(X.numpy().T) - np.eye(20)).max() < 0.05


def test_overlap_is_a_cosine():
    teacher = Teacher(torch.tensor([0.6, 0.8], dtype=torch.float64), 1.0)
    assert teacher.overlap(torch.tensor([3.0, 4.0])) == pytest.approx(1)
    assert teacher.overlap(torch.tensor([-8.0, 6.0])) == pytest.approx(0)
