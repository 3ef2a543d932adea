"""F1: its best threshold, its interval, and the paired difference of two."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.statistics.auroc import best_f1_threshold, f1
from covec.statistics.intervals import f1_difference, f1_figure

LABELS = st.lists(st.booleans(), min_size=4, max_size=30).filter(lambda one: any(one) and not all(one))


@given(LABELS, st.integers(0, 1000))
def test_no_threshold_has_a_higher_f1(labels, seed):
    scores = np.random.default_rng(seed).integers(-3, 4, len(labels)).astype(float)
    best = f1(scores, labels, best_f1_threshold(scores, labels))
    assert best == max(f1(scores, labels, threshold) for threshold in np.arange(-3.5, 4))


@given(LABELS, st.integers(0, 1000))
def test_the_interval_holds_the_value(labels, seed):
    fires = np.random.default_rng(seed).random(len(labels)) < 0.5
    figure = f1_figure(fires, labels)
    assert 0 <= figure.low <= figure.value == f1(fires, labels, 0.5) <= figure.high <= 1


def test_the_interval_covers_at_its_level():
    rng, hits = np.random.default_rng(0), 0
    wide = rng.random(200_000) < 0.5
    truth = f1(np.where(rng.random(200_000) < 0.8, wide, ~wide), wide, 0.5)
    for _ in range(300):
        labels = rng.random(120) < 0.5
        figure = f1_figure(np.where(rng.random(120) < 0.8, labels, ~labels), labels)
        hits += figure.low <= truth <= figure.high
    assert hits >= 0.92 * 300


def test_groups_widen_the_interval():
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.random(40) < 0.5, 5)
    fires = np.repeat(rng.random(40) < 0.8, 5) == labels
    alone, together = f1_figure(fires, labels), f1_figure(fires, labels, np.repeat(np.arange(40), 5).tolist())
    assert together.high - together.low > alone.high - alone.low


def test_a_perfect_figure_keeps_an_interval():
    labels = np.arange(30) % 2 == 0
    figure = f1_figure(labels, labels)
    assert figure.value == figure.high == 1
    assert 0.7 < figure.low < 1


@pytest.mark.parametrize("groups", [None, (np.arange(200) // 4).tolist()])
def test_the_difference_is_paired(groups):
    rng = np.random.default_rng(0)
    labels = rng.random(200) < 0.5
    fires = np.where(rng.random(200) < 0.8, labels, ~labels)
    none = f1_difference(fires, fires, labels, groups)
    assert none.value == 0
    one_more = fires.copy()
    one_more[:40] = labels[:40]
    gain = f1_difference(one_more, fires, labels, groups)
    own = f1_figure(fires, labels, groups)
    assert gain.low > 0, "all rows that differ are won"
    assert gain.high - gain.low < own.high - own.low
    back = f1_difference(fires, one_more, labels, groups)
    assert back.value == -gain.value


def test_other_shapes_are_refused():
    with pytest.raises(ExamplesError):
        f1_figure([True, False], [True, False, True])
    with pytest.raises(ExamplesError):
        f1_difference([True, False], [True], [True, False])
