"""Stability is high where the concept is clear and near nothing for shuffled labels."""

import numpy as np
import torch

from covec.find.mean_difference import MeanDifference
from covec.measure.stability import stability


def rows(gap, seed=0, n=120, d=32):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2 == 0
    found = rng.normal(size=(n, d))
    found[labels, 0] += gap
    return torch.from_numpy(found).float(), labels, [f"row {row}" for row in range(n)]


def test_a_clear_concept_is_stable_and_its_null_is_not():
    X, labels, units = rows(4.0)
    found = stability(MeanDifference, X, labels, units=units)
    assert found.value > 0.85
    assert abs(found.null) < 0.4
    assert found.low <= found.value <= found.high


def test_no_concept_is_not_stable():
    X, labels, units = rows(0.0)
    assert abs(stability(MeanDifference, X, labels, units=units, with_null=False).value) < 0.3


def test_the_same_seed_gives_the_same_figure():
    X, labels, units = rows(1.0)
    assert stability(MeanDifference, X, labels, units=units) == stability(MeanDifference, X, labels, units=units)
