"""The rules of claims hold where their words say so, and means come with their intervals."""

import pytest
from scipy import stats

from covec.claims._figures import above, at_least, mean_figure, shown
from covec.statistics.figure import Figure


def test_a_mean_has_the_interval_of_students_t():
    values = [0.2, 0.5, 0.4, 0.7]
    figure = mean_figure(values, "four repeats", null=0.5)
    low, high = stats.t.interval(0.95, 3, loc=0.45, scale=stats.sem(values))
    assert (figure.value, figure.low, figure.high) == pytest.approx((0.45, low, high))
    assert (figure.null, figure.n, figure.how) == (0.5, 4, "four repeats")


def test_one_repeat_has_no_interval():
    assert mean_figure([0.3], "once") == Figure(0.3, n=1, how="once")


@pytest.mark.parametrize(
    ("made", "rule", "holds"),
    [
        (at_least("a", Figure(0.9), 0.9), "at least the baseline", True),
        (at_least("a", Figure(0.89), 0.9), "at least the baseline", False),
        (at_least("a", Figure(0.89), Figure(0.9), 0.02), "at least the baseline - 0.02", True),
        (above("a", Figure(0.9), 0.9), "above the baseline", False),
        (above("a", Figure(0.91), Figure(0.9)), "above the baseline", True),
        (above("a", Figure(0.94), 0.9, 0.05), "at least the baseline + 0.05", False),
        (above("a", Figure(0.96), 0.9, 0.05), "at least the baseline + 0.05", True),
        (shown("a", Figure(0.1), Figure(0.9)), "shown, no rule", True),
    ],
)
def test_a_rule_holds_where_its_words_say_so(made, rule, holds):
    assert (made.rule, made.holds) == (rule, holds)


@pytest.mark.parametrize("rule", [at_least, above])
def test_what_could_not_be_measured_holds_no_rule(rule):
    assert not rule("a", Figure(float("nan")), 0.5).holds
