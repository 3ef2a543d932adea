"""The null of a nested cross-validation: as wide as what such a cross-validation really finds in noise."""

import numpy as np
import pytest
from scipy.stats import binom

from covec.statistics.auroc import auroc
from covec.statistics.nested_null import nested_null
from covec.statistics.permutation import Exchange, null_aurocs, p_value


def noise(rng, cells=3, rows=50, width=40):
    labels = np.arange(rows) % 2 == 0
    folds = np.arange(rows) // 2 % 5
    return rng.normal(size=(cells, rows, width)), labels, folds


def by_hand(cells, labels, folds):
    """Out-of-fold scores of the difference of means at the cell that the other folds choose, with loops and fits."""

    def scores(cell, known, of):
        rows = cells[cell] - cells[cell].mean(0)
        direction = rows[known & labels].mean(0) - rows[known & ~labels].mean(0)
        return rows[of] @ direction

    pooled = np.zeros(len(labels))
    for fold in range(5):
        rest, areas = folds != fold, []
        for cell in range(len(cells)):
            inner = np.zeros(len(labels))
            for other in set(range(5)) - {fold}:
                inner[folds == other] = scores(cell, rest & (folds != other), folds == other)
            areas.append(auroc(inner[rest], labels[rest]))
        best = int(np.argmax(areas))
        known = scores(best, rest, rest)
        pooled[~rest] = (scores(best, rest, ~rest) - known.mean()) / known.std()
    return pooled


@pytest.mark.parametrize("width", [12, 80])
def test_every_permutation_is_a_nested_cross_validation(width):
    cells, labels, folds = noise(np.random.default_rng(0), width=width)
    permuted = Exchange.of(labels, folds=folds.tolist()).permuted(6, np.random.default_rng(3))
    expected = [auroc(by_hand(cells, one, folds), one) for one in permuted]
    np.testing.assert_allclose(nested_null(cells, labels, folds, permutations=6, seed=3), expected, atol=0.003)


def test_noise_is_significant_no_more_often_than_the_level_says():
    """Permuting the labels of finished scores would call it so three times as often."""
    whole, finished = [], []
    for seed in range(200):
        cells, labels, folds = noise(np.random.default_rng(seed), cells=2)
        scores = by_hand(cells, labels, folds)
        observed = float(auroc(scores, labels))
        whole.append(p_value(observed, nested_null(cells, labels, folds, permutations=99, seed=seed)))
        exchange = Exchange.of(labels, folds=folds.tolist())
        finished.append(p_value(observed, null_aurocs(scores, exchange, 99, seed=seed)))
    limit = binom.ppf(0.99, 200, 0.05)
    assert np.sum(np.array(whole) <= 0.05) <= limit
    assert np.sum(np.array(finished) <= 0.05) > limit


def test_a_planted_direction_is_significant():
    cells, labels, folds = noise(np.random.default_rng(1))
    cells[1, labels, 0] += 3
    assert p_value(float(auroc(by_hand(cells, labels, folds), labels)), nested_null(cells, labels, folds)) == 0.001
