"""Histograms of groups, and Jensen-Shannon distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from covec.statistics.densities import BINS, Densities, jensen_shannon


def test_of_two_groups_it_is_scipy_s():
    shares = np.random.default_rng(0).dirichlet(np.ones(9), (2, 5))
    assert jensen_shannon(shares) == pytest.approx([jensenshannon(*pair, base=2) for pair in shares.swapaxes(0, 1)])


def test_exact():
    assert jensen_shannon(np.array([[[1.0, 0.0]], [[0.0, 1.0]]])) == pytest.approx([1.0])
    assert jensen_shannon(np.eye(5)) == pytest.approx(1.0)
    assert jensen_shannon(np.full((3, 4), 0.25)) == pytest.approx(0.0)


def test_groups_apart_and_groups_alike():
    rng = np.random.default_rng(0)
    groups = np.arange(600) % 3
    values = np.stack([rng.standard_normal(600), rng.standard_normal(600) + 20 * groups], 1)
    found = Densities.of(values, groups)
    alike, apart = found.distance()
    assert alike < 0.35
    assert apart > 0.99
    assert found.against_rest()[:, 1] == pytest.approx(1.0, abs=0.01)
    assert found.shares.sum(2) == pytest.approx(1.0)


def test_exact_zeros_are_a_bin_of_their_own():
    values = np.array([[0.0], [0.0], [0.5], [0.0], [2.0], [3.0]])
    found = Densities.of(values, np.array([0, 0, 0, 1, 1, 1]))
    assert found.shares[:, 0, BINS] == pytest.approx([2 / 3, 1 / 3], abs=1e-4)
    assert (found.low[0], found.low[0] + BINS * found.step[0]) == (0.5, 3.0)


def test_units_that_never_fire_tell_nothing():
    assert Densities.of(np.zeros((8, 2)), np.arange(8) % 2).distance() == pytest.approx([0.0, 0.0])


def test_posterior_is_one_where_only_one_group_is_and_even_where_none_is():
    values = np.concatenate([np.linspace(0.1, 1, 50), np.linspace(9, 10, 50)])[:, None]
    found = Densities.of(values, np.repeat([0, 1], 50)).posterior(0)[0]
    assert found[0] > 0.99
    assert found[-1] < 0.01
    assert found[BINS // 2] == pytest.approx(0.5, abs=0.01)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.floats(0.01, 1000), groups=st.integers(2, 5))
def test_neither_the_unit_of_measure_nor_the_order_matters(seed, factor, groups):
    rng = np.random.default_rng(seed)
    which = np.arange(60) % groups
    values = np.round(rng.standard_normal((60, 3)) + which[:, None], 3) + 0.37
    found = Densities.of(values, which).distance()
    order = rng.permutation(60)
    assert Densities.of(values[order], which[order]).distance() == pytest.approx(found)
    assert ((found >= 0) & (found <= 1)).all()
    assert Densities.of(values * factor, which).distance() == pytest.approx(found, abs=0.05)  # at edges of bins


def test_many_rows_are_sorted_in_parts(monkeypatch):
    rng = np.random.default_rng(1)
    values, groups = rng.standard_normal((100, 4)), np.arange(100) % 2
    whole = Densities.of(values, groups).shares
    monkeypatch.setattr("covec.statistics.densities._AT_ONCE", 30)
    assert Densities.of(values, groups).shares == pytest.approx(whole)
