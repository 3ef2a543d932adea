"""Mean ranks, Friedman's test and Nemenyi's critical difference, against the example of Demšar (2006)."""

import numpy as np
import pytest

from covec.errors import ExamplesError
from covec.statistics.ranks import mean_ranks

# Table 6 of the paper: AUC of four classifiers on 14 data sets.
DEMSAR = np.array([
    [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
    [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
    [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
    [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
    [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
])  # fmt: skip


def test_the_papers_example():
    ranks = mean_ranks(DEMSAR)
    np.testing.assert_allclose(ranks.mean, [3.143, 2.000, 2.893, 1.964], atol=0.001)
    assert ranks.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=0.002)
    assert ranks.p is not None
    assert 0.01 < ranks.p < 0.05
    assert ranks.n == 14


def test_more_data_sets_tell_finer_differences():
    few, many = mean_ranks(DEMSAR[:4]), mean_ranks(np.tile(DEMSAR, (4, 1)))
    assert few.critical_difference > mean_ranks(DEMSAR).critical_difference > many.critical_difference


def test_methods_that_are_alike_share_their_ranks():
    ranks = mean_ranks(np.ones((5, 3)))
    np.testing.assert_allclose(ranks.mean, 2)
    assert ranks.p is None


def test_one_data_set_says_nothing_of_differences():
    ranks = mean_ranks([[0.9, 0.8, 0.7]])
    np.testing.assert_allclose(ranks.mean, [1, 2, 3])
    assert ranks.critical_difference is None


@pytest.mark.parametrize("values", [[], [[]], [0.5, 0.6], [[0.5, float("nan")]]])
def test_what_cannot_be_ranked_is_refused(values):
    with pytest.raises(ExamplesError, match="cannot be ranked"):
        mean_ranks(values)
