"""Holm and the step-down maximum: hand-worked cases, laws, family-wise level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from covec.errors import CovecError
from covec.statistics.multiplicity import holm, step_down_maximum
from covec.statistics.permutation import p_value


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.01]) == pytest.approx([0.01])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])


@settings(max_examples=40)
@given(arrays(float, st.integers(1, 12), elements=st.floats(0, 1)))
def test_holm_lies_between_raw_and_bonferroni(p):
    corrected = holm(p)
    assert (corrected >= p).all()
    assert (corrected <= np.minimum(p * len(p), 1) + 1e-12).all()
    assert (np.diff(corrected[np.argsort(p)]) >= 0).all()


def test_step_down_by_hand():
    null = np.array([[0.5, 0.6, 0.4], [0.7, 0.5, 0.9], [0.4, 0.4, 0.4]])
    # 0.8: maxima over all cells .6 .9 .4; 0.65: over cells 1 and 2, .6 .9 .4; 0.3: over cell 2 alone, .4 .9 .4
    assert step_down_maximum([0.8, 0.65, 0.3], null) == pytest.approx([2 / 4, 2 / 4, 4 / 4])
    # Stepping down judges 0.65 without the cell above it, whose null is the highest.
    assert step_down_maximum([0.95, 0.65], null[:, [2, 1]]) == pytest.approx([1 / 4, 1 / 4])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_step_down_laws(seed):
    rng = np.random.default_rng(seed)
    observed, null = rng.normal(size=6).round(1), rng.normal(size=(30, 6)).round(1)
    corrected = step_down_maximum(observed, null)
    assert corrected.min() == pytest.approx(p_value(observed.max(), null.max(1)))
    assert (corrected >= p_value(observed, null) - 1e-12).all()
    assert (corrected <= p_value(observed, null.max(1, keepdims=True)) + 1e-12).all()
    order = rng.permutation(6)
    untied = observed + np.arange(6) * 1e-3
    assert step_down_maximum(untied[order], null[:, order]) == pytest.approx(step_down_maximum(untied, null)[order])


def test_family_wise_level():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(200, 100, 1))
    draws = 0.7 * shared + 0.7 * rng.normal(size=(200, 100, 20))  # 20 cells that move together
    false = sum(step_down_maximum(draw[0], draw[1:]).min() <= 0.05 for draw in draws)
    assert false <= binom.ppf(0.99, 200, 0.05)


def test_bad_input_is_refused():
    for p in ([], [0.5, 1.5], [np.nan], [[0.5]]):
        with pytest.raises(CovecError, match="between 0 and 1"):
            holm(p)
    for observed, null in (([0.5], [0.5]), ([0.5], [[0.5, 0.6]]), ([0.5], np.empty((0, 1))), ([np.nan], [[0.5]])):
        with pytest.raises(CovecError):
            step_down_maximum(observed, null)
