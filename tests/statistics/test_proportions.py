"""Wilson's interval and paired differences: scipy, published examples, limits."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import binomtest

from covec.statistics.proportions import Z, difference_interval, wilson


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 20), (1, 29), (15, 148), (81, 263), (10, 10)])
def test_wilson_agrees_with_scipy(hits, n):
    interval = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits / n, n) == pytest.approx((interval.low, interval.high), abs=1e-12)


def _paired_outcomes(both, first_only, second_only, neither):
    first = [1] * (both + first_only) + [0] * (second_only + neither)
    second = [1] * both + [0] * first_only + [1] * second_only + [0] * neither
    return np.array(first, dtype=bool), np.array(second, dtype=bool)


def _correlation(first, second):
    """Newcombe's phi of his method 10, with its continuity correction."""
    n, a, b, both = len(first), int(first.sum()), int(second.sum()), int((first & second).sum())
    determinant = float(n * both - a * b)
    if determinant > 0:
        determinant = max(determinant - n / 2, 0.0)
    return determinant / sqrt(a * (n - a) * b * (n - b))


@pytest.mark.parametrize(
    ("table", "low", "high", "digits"),
    [
        # Newcombe, Statistics in Medicine 17 (1998) 2635, table II, method 10.
        ((36, 12, 2, 0), 0.0569, 0.3404, 4),
        # Fagerland, Lydersen and Laake, Statistics in Medicine 33 (2014) 2850: airway hyper-responsiveness.
        ((1, 1, 7, 12), -0.507, -0.026, 3),
    ],
)
def test_paired_difference_agrees_with_published_examples(table, low, high, digits):
    first, second = _paired_outcomes(*table)
    shares = [(hits.mean(), *wilson(hits.mean(), len(hits))) for hits in (first, second)]
    assert difference_interval(*shares, _correlation(first, second)) == pytest.approx(
        (low, high), abs=0.6 * 10**-digits
    )


def test_symmetric_intervals_give_the_textbook_difference():
    first, second, correlation = (0.7, 0.7 - 0.2 * Z, 0.7 + 0.2 * Z), (0.4, 0.4 - 0.1 * Z, 0.4 + 0.1 * Z), 0.3
    error = sqrt(0.2**2 + 0.1**2 - 2 * correlation * 0.2 * 0.1)
    assert difference_interval(first, second, correlation) == pytest.approx((0.3 - Z * error, 0.3 + Z * error))
