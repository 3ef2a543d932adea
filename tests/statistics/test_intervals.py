"""Figures: which interval is chosen, how often it covers the truth, what it refuses."""

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom, norm

from covec.errors import CovecError
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.statistics.intervals import accuracy_figure, auroc_difference, auroc_figure, widened


def _draw(rng, groups, rows, effect, spread=1.0):
    """Scores of `groups` single-label groups that share a random shift, their labels, the group ids."""
    codes = np.repeat(np.arange(groups), rows)
    labels = codes % 2 == 0
    scores = effect * labels + spread * rng.normal(size=groups)[codes] + rng.normal(size=len(codes))
    return scores, labels, [f"g{code}" for code in codes]


def test_method_follows_the_data():
    scores, labels, groups = _draw(np.random.default_rng(0), 40, 3, 1.0)
    few = [f"g{int(group[1:]) % 12}" for group in groups]
    ending = "conditional on the fitted vector"
    assert auroc_figure(scores, labels).how == f"logit-DeLong, {ending}"
    assert auroc_figure(scores, labels, range(120)).how == f"logit-DeLong, {ending}"
    assert auroc_figure(labels, labels).how == f"Newcombe, {ending}"
    assert auroc_figure(scores, labels, groups).how == f"cluster bootstrap of 40 groups, {ending}"
    assert auroc_figure(scores, labels, few).how == f"Newcombe, each of 12 groups as one row, {ending}"
    assert auroc_figure(labels, labels, groups).how == f"Newcombe, each of 40 groups as one row, {ending}"
    pairs, halves = np.repeat(range(12), 2), np.tile([True, False], 12)
    assert auroc_figure(scores[:24], halves, pairs).how == f"Newcombe, each of 12 groups as one row, {ending}"
    assert accuracy_figure(scores, labels, 0.5).how == f"Wilson, {ending}"
    assert accuracy_figure(scores, labels, 0.5, groups).how == f"cluster bootstrap of 40 groups, {ending}"
    assert accuracy_figure(labels, labels, 0.5, groups).how == f"Wilson, each of 40 groups as one row, {ending}"


def test_figures_carry_value_null_and_n():
    scores, labels, groups = _draw(np.random.default_rng(1), 40, 3, 1.0)
    for figure in (auroc_figure(scores, labels, groups, 0.52), auroc_figure(scores, labels, null=0.52)):
        assert figure.value == auroc(scores, labels)
        assert (figure.null, figure.n) == (0.52, 120)
        assert figure.low < figure.value < figure.high
    assert accuracy_figure(scores, labels, 0.3).value == ((scores > 0.3) == labels).mean()
    assert auroc_figure(scores, labels, groups, seed=3) == auroc_figure(scores, labels, groups, seed=3)


@pytest.mark.parametrize(("groups", "rows", "effect"), [(40, 1, 1.0), (40, 1, 4.0), (24, 4, 2.5), (12, 4, 1.0)])
def test_interval_covers_the_true_auroc(groups, rows, effect):
    """Misses of a 95% interval over 200 data sets stay within the binomial 99% limit of 8%."""
    rng, truth = np.random.default_rng(0), norm.cdf(effect / 2)
    figures = [auroc_figure(*_draw(rng, groups, rows, effect)) for _ in range(200)]
    misses = sum(not figure.low <= truth <= figure.high for figure in figures)
    assert misses <= binom.ppf(0.99, 200, 0.08)


@pytest.mark.parametrize(("positives", "negatives", "effect"), [(5, 95, 1.0), (10, 190, 2.0)])
def test_interval_covers_the_true_auroc_where_one_class_is_small(positives, negatives, effect):
    rng, truth = np.random.default_rng(0), norm.cdf(effect / np.sqrt(2))
    labels = np.repeat([True, False], [positives, negatives])
    figures = [auroc_figure(rng.normal(size=len(labels)) + effect * labels, labels) for _ in range(400)]
    misses = sum(not figure.low <= truth <= figure.high for figure in figures)
    assert misses <= binom.ppf(0.99, 400, 0.05)


def test_a_widened_interval_stays_around_its_value_and_within_its_bounds():
    figure = Figure(0.9, 0.8, 0.96, 0.5, 40, "logit-DeLong, conditional on the fitted vector")
    wide = widened(figure, 2.0)
    assert logit(0.9) - logit(wide.low) == pytest.approx(2 * (logit(0.9) - logit(0.8)))
    assert logit(wide.high) - logit(0.9) == pytest.approx(2 * (logit(0.96) - logit(0.9)))
    assert wide.how == "logit-DeLong, widened 2.0 times, as every fold has a vector of its own"
    assert (wide.value, wide.null, wide.n) == (0.9, 0.5, 40)
    assert widened(Figure(1.0, 0.6, 1.0), 3.0).low == 0.0
    difference = widened(Figure(0.2, -0.1, 0.5), 2.0, share=False)
    assert (difference.low, difference.high) == pytest.approx((-0.4, 0.8))


def test_rows_of_a_group_are_not_independent():
    """The same data without their groups: the interval misses far more often than it should."""
    rng, truth = np.random.default_rng(0), norm.cdf(1.0 / np.sqrt(2 * (1 + 3.0**2)))
    figures = [auroc_figure(*_draw(rng, 24, 6, 1.0, 3.0)[:2]) for _ in range(200)]
    assert sum(not figure.low <= truth <= figure.high for figure in figures) > 60


def test_paired_difference_gains_from_the_pairing():
    rng = np.random.default_rng(2)
    scores, labels, groups = _draw(rng, 60, 2, 1.5)
    near, far = scores + 0.3 * rng.normal(size=120), rng.permutation(scores)
    difference = auroc_difference(scores, near, labels)
    assert difference.value == pytest.approx(auroc(scores, labels) - auroc(near, labels))
    assert difference.how == "paired logit-DeLong, conditional on the fitted vector"
    assert difference.low < 0 < difference.high
    assert auroc_difference(scores, far, labels).low > 0
    alone = auroc_figure(scores, labels)
    assert difference.high - difference.low < 0.5 * (alone.high - alone.low)
    opposite = auroc_difference(near, scores, labels)
    assert (opposite.low, opposite.high) == pytest.approx((-difference.high, -difference.low))
    grouped = auroc_difference(scores, near, labels, groups)
    assert grouped.low < grouped.value < grouped.high
    assert "cluster bootstrap of 60 groups" in grouped.how


def test_a_perfect_score_does_not_beat_a_nearly_perfect_one():
    labels = np.arange(40) % 2 == 0
    almost = labels.astype(float)
    almost[0] = -1
    difference = auroc_difference(labels, almost, labels)
    assert difference.low < 0 < difference.value
    assert difference.how.startswith("paired Newcombe and logit-DeLong")


@pytest.mark.parametrize("make", [auroc_figure, accuracy_figure, lambda s, y, **k: auroc_difference(s, s, y, **k)])
def test_bad_input_is_refused(make):
    for scores, labels in (
        ([0.0, 1.0], [True, True]),
        ([0.0, np.nan], [True, False]),
        ([0.0, 1.0, 2.0], [True, False]),
        (np.zeros((2, 2)), [True, False]),
    ):
        with pytest.raises(CovecError):
            make(scores, labels)
    with pytest.raises(CovecError, match="1 groups for 2 rows"):
        make([0.0, 1.0], [True, False], groups=["a"])
