"""DeLong's covariance and the AUROC intervals: pROC's own figures, the definition, laws at the bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import CovecError
from covec.statistics.delong import auroc_interval, delong, newcombe
from covec.statistics.proportions import Z

# Turck et al., Intensive Care Medicine 36 (2010): outcome after aneurysmal subarachnoid haemorrhage, as `wfns s100b`
# with s100b in hundredths; 41 patients of poor outcome and 72 of good.
POOR = """3 13 2 10 4 16 5 12 5 44 5 71 5 49 2 7 5 33 2 9 1 7 2 41 5 35 4 48 4 96 2 25 5 86 5 52 5 207 2 7 5 77 2 30 5 3
2 9 4 23 5 70 4 27 4 71 1 8 4 26 4 13 2 10 2 11 5 22 5 56 2 14 2 58 5 32 5 82 5 74 5 44"""
GOOD = """1 13 1 14 1 10 1 4 5 47 1 18 2 10 2 10 1 4 2 8 2 4 1 9 1 11 1 7 2 17 1 7 2 11 1 13 1 19 3 5 4 16 1 14 4 34 1 9
5 50 5 46 1 16 1 7 2 43 4 45 1 11 1 8 2 9 2 8 1 6 2 13 1 10 2 14 2 15 1 6 1 5 1 9 1 4 2 9 1 8 2 16 1 9 1 8 3 33 2 11
4 28 2 7 1 10 4 32 1 7 1 5 5 24 4 38 2 10 2 15 1 8 1 14 1 10 3 7 1 4 2 19 2 15 4 47 4 17 1 15 1 50 1 48"""


def _patients():
    poor, good = (np.array(text.split(), dtype=float).reshape(-1, 2) for text in (POOR, GOOD))
    return np.concatenate([poor, good]).T, np.arange(len(poor) + len(good)) < len(poor)


def test_agrees_with_proc():
    """Values that pROC 1.18 gives for var(roc) and roc.test(wfns, s100b, method="delong")."""
    scores, labels = _patients()
    areas, covariance = delong(scores, labels)
    assert areas[0] == pytest.approx(0.823678861788618)
    assert np.diag(covariance) == pytest.approx([0.00146991470882363, 0.00266868245717244])
    difference, error = areas[0] - areas[1], np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    assert difference / error == pytest.approx(2.20898359144091)
    assert [difference - Z * error, difference + Z * error] == pytest.approx([0.0104061769564846, 0.174214419249478])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.integers(2, 12))
def test_covariance_is_that_of_the_definition(seed, positives, negatives):
    labels = np.arange(positives + negatives) < positives
    scores = np.random.default_rng(seed).integers(0, 6, size=(2, len(labels)))
    above = np.sign(scores[:, labels][:, :, None] - scores[:, ~labels][:, None, :]) / 2 + 0.5  # [2, p, n]
    expected = np.cov(above.mean(2)) / above.shape[1] + np.cov(above.mean(1)) / above.shape[2]
    areas, covariance = delong(scores, labels)
    assert areas == pytest.approx(above.mean((1, 2)))
    assert covariance == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.integers(1, 200), st.integers(1, 200))
def test_newcombe_ends_are_where_the_estimate_is_just_credible(area, positives, negatives):
    area = round(area * 2 * positives * negatives) / (2 * positives * negatives)
    middle = (positives + negatives) / 2 - 1
    low, high = newcombe(area, positives, negatives)
    assert 0 <= low <= area <= high <= 1
    for end in {low, high} - {0.0, 1.0}:
        shape = 1 + middle * (1 - end) / (2 - end) + middle * end / (1 + end)
        error = np.sqrt(end * (1 - end) * shape / (positives * negatives))
        assert abs(area - end) == pytest.approx(Z * error, rel=1e-3, abs=1e-6)
    assert newcombe(1 - area, negatives, positives) == pytest.approx((1 - high, 1 - low), abs=1e-6)


def test_more_rows_narrow_the_interval_at_one():
    lows = [newcombe(1.0, n, n) for n in (5, 50, 500)]
    assert all(high == 1 for _, high in lows)
    assert 0.6 < lows[0][0] < lows[1][0] < lows[2][0] < 1


@pytest.mark.parametrize(
    ("scores", "labels", "area", "how"),
    [
        ([1, 2, 3, 4], [0, 0, 1, 1], 1.0, "Newcombe"),
        ([1, 2, 3, 4], [1, 1, 0, 0], 0.0, "Newcombe"),
        ([1, 1, 1, 1], [0, 0, 1, 1], 0.5, "Newcombe"),  # DeLong's variance of ties is 0
        ([1, 2, 3, 4], [0, 0, 1, 0], 2 / 3, "Newcombe"),  # one positive has no variance
        ([1, 2, 3, 4, 5], [0, 1, 0, 1, 1], 5 / 6, "Newcombe"),  # so few have too small a one
        ([*range(20), *range(10, 30)], [0] * 20 + [1] * 20, 0.875, "logit-DeLong"),
    ],
)
def test_every_auroc_has_an_interval_with_width(scores, labels, area, how):
    low, high, name = auroc_interval(scores, labels)
    assert 0 <= low <= area <= high <= 1
    assert high - low > 0.1
    assert name == how


def test_bad_input_is_refused():
    for scores, labels in (([1.0, np.nan], [0, 1]), ([1.0, 2.0], [1, 1]), ([1.0, 2.0, 3.0], [0, 1])):
        with pytest.raises(CovecError):
            delong(scores, labels)
        with pytest.raises(CovecError):
            auroc_interval(scores, labels)
