"""Figures with their 95% intervals: an AUROC, an accuracy, an F1, and the paired difference of two AUROCs or F1.

All are conditional on the fitted vector: they say how a figure would vary over other test rows, not over other
training rows. Rows of one group are not independent, so where rows share groups the groups are resampled. Where that
says nothing (under 20 groups; a figure that no draw changes, such as an AUROC of 1) the closed form counts each group
as one row, the widest interval that the data allow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from covec.statistics.auroc import auroc, checked_scores, f1
from covec.statistics.bootstrap import Statistic, cluster_bootstrap, weighted_auroc
from covec.statistics.delong import auroc_interval, delong, newcombe
from covec.statistics.figure import Figure
from covec.statistics.groups import Groups, group_codes
from covec.statistics.proportions import difference_interval, wilson

Codes = Int[np.ndarray, "n"]  # the number of each row's group

CONDITIONAL = "conditional on the fitted vector"
BOOTSTRAP_GROUPS = 20  # fewer say too little of how groups differ


def auroc_figure(
    scores: ArrayLike, labels: ArrayLike, groups: Groups = None, null: float | None = None, *, seed: int = 0
) -> Figure:
    """AUROC of `scores [n]` for `labels [n]`, with the interval that the data ask for.

    Parameters
    ----------
    groups
        A group a row; None, as a whole or for a row, where rows are independent.
    null
        What the AUROC would be by chance, to be shown beside it.
    seed
        Of the bootstrap.

    Raises
    ------
    ExamplesError
        Shapes differ, a score is not finite, or only one class has rows.
    """
    scores, labels = checked_scores(scores, labels, one_row=True)
    return _figure(
        auroc(scores, labels),
        lambda weights: weighted_auroc(scores, labels, weights),
        lambda codes: _auroc_interval(scores, labels, codes),
        group_codes(groups, len(labels)),
        null,
        seed,
        share=True,
    )


def auroc_difference(
    scores: ArrayLike, baseline: ArrayLike, labels: ArrayLike, groups: Groups = None, *, seed: int = 0
) -> Figure:
    """AUROC of `scores [n]` minus that of `baseline [n]` on the same rows; arguments and errors of `auroc_figure`."""
    scores, labels = checked_scores(scores, labels, one_row=True)
    baseline, _ = checked_scores(baseline, labels, one_row=True)
    (first, second), covariance = delong(np.stack([scores, baseline]), labels)
    spread = np.sqrt(covariance[0, 0] * covariance[1, 1])
    correlation = covariance[0, 1] / spread if spread > 0 else 0.0

    def statistic(weights: Float[np.ndarray, "draws n"]) -> Float[np.ndarray, "draws"]:
        return weighted_auroc(scores, labels, weights) - weighted_auroc(baseline, labels, weights)

    def closed_form(codes: Codes) -> tuple[float, float, str]:
        *one, how = _auroc_interval(scores, labels, codes)
        *other, how_other = _auroc_interval(baseline, labels, codes)
        names = how if how == how_other else f"{how} and {how_other}"
        return *difference_interval((first, *one), (second, *other), correlation), f"paired {names}"

    return _figure(first - second, statistic, closed_form, group_codes(groups, len(labels)), 0.0, seed)


def accuracy_figure(
    scores: ArrayLike,
    labels: ArrayLike,
    threshold: float = 0.0,
    groups: Groups = None,
    null: float | None = None,
    *,
    seed: int = 0,
) -> Figure:
    """Accuracy of calling `scores > threshold` positive; the other arguments and the errors of `auroc_figure`."""
    scores, labels = checked_scores(scores, labels, one_row=True)
    right = (scores > threshold) == labels
    return _figure(
        right.mean(),
        lambda weights: weights @ right / weights.sum(1),
        lambda codes: (*wilson(right.mean(), codes.max() + 1), "Wilson"),
        group_codes(groups, len(labels)),
        null,
        seed,
        share=True,
    )


def f1_figure(
    fires: ArrayLike, labels: ArrayLike, groups: Groups = None, null: float | None = None, *, seed: int = 0
) -> Figure:
    """F1 of decisions `fires [n]`, true or false; the other arguments and the errors of `auroc_figure`."""
    called, labels = checked_scores(fires, labels, one_row=True)
    return _figure(
        f1(called, labels),
        lambda weights: _weighted_f1(called, labels, weights),
        lambda codes: _f1_interval(called, labels, codes),
        group_codes(groups, len(labels)),
        null,
        seed,
        share=True,
    )


def f1_difference(
    fires: ArrayLike, baseline: ArrayLike, labels: ArrayLike, groups: Groups = None, *, seed: int = 0
) -> Figure:
    """F1 of `fires [n]` minus that of `baseline [n]` on the same rows; arguments and errors of `f1_figure`."""
    called, labels = checked_scores(fires, labels, one_row=True)
    other, _ = checked_scores(baseline, labels, one_row=True)
    first, second = f1(called, labels), f1(other, labels)
    right, other_right = (called == labels).astype(float), (other == labels).astype(float)
    spread = float(right.std() * other_right.std())
    correlation = float((right * other_right).mean() - right.mean() * other_right.mean()) / spread if spread else 0.0

    def closed_form(codes: Codes) -> tuple[float, float, str]:
        (low, high, how), (other_low, other_high, _) = (_f1_interval(one, labels, codes) for one in (called, other))
        return *difference_interval((first, low, high), (second, other_low, other_high), correlation), f"paired {how}"

    return _figure(
        first - second,
        lambda weights: _weighted_f1(called, labels, weights) - _weighted_f1(other, labels, weights),
        closed_form,
        group_codes(groups, len(labels)),
        0.0,
        seed,
    )


def widened(figure: Figure, factor: float, *, share: bool = True) -> Figure:
    """`figure` with its interval `factor` times as wide, on the logit scale where it is a `share` strictly within 0, 1.

    For out-of-fold figures: their intervals are those of one fitted vector, while every fold has a vector of its own.
    """

    def end(end: float | None) -> float | None:
        if end is None:
            return None
        if share and min(figure.value, end) > 0 and max(figure.value, end) < 1:
            return float(expit(logit(figure.value) + factor * (logit(end) - logit(figure.value))))
        return float(np.clip(figure.value + factor * (end - figure.value), 0.0 if share else -1.0, 1.0))

    how = figure.how.replace(CONDITIONAL, f"widened {factor:.1f} times, as every fold has a vector of its own")
    return replace(figure, low=end(figure.low), high=end(figure.high), how=how)


def _figure(
    value: float,
    statistic: Statistic,
    closed_form: Callable[[Codes], tuple[float, float, str]],
    codes: Codes,
    null: float | None,
    seed: int,
    share: bool = False,
) -> Figure:
    """`value` with the interval of `statistic` over resampled groups, or the `closed_form` where that will not do."""
    n, count = len(codes), int(codes.max()) + 1
    low = high = value
    if BOOTSTRAP_GROUPS <= count < n:
        low, high = cluster_bootstrap(value, statistic, codes, share=share, seed=seed)
        how = f"cluster bootstrap of {count} groups"
    if low == high:
        low, high, how = closed_form(codes)
        how += f", each of {count} groups as one row" if count < n else ""
    how += f", {CONDITIONAL}"
    return Figure(value, min(low, value), max(high, value), null, n, how)


def _auroc_interval(
    scores: Float[np.ndarray, "n"], labels: Bool[np.ndarray, "n"], codes: Codes
) -> tuple[float, float, str]:
    if codes.max() + 1 == len(labels):
        return auroc_interval(scores, labels)
    positives, negatives = len(np.unique(codes[labels])), len(np.unique(codes[~labels]))
    return *newcombe(auroc(scores, labels), positives, negatives), "Newcombe"


def _weighted_f1(
    called: Float[np.ndarray, "n"], labels: Bool[np.ndarray, "n"], weights: Float[np.ndarray, "draws n"]
) -> Float[np.ndarray, "draws"]:
    with np.errstate(invalid="ignore"):  # a draw without a positive that calls none has no F1
        return 2 * (weights @ (called * labels)) / (weights @ called + weights @ labels)


def _f1_interval(
    called: Float[np.ndarray, "n"], labels: Bool[np.ndarray, "n"], codes: Codes
) -> tuple[float, float, str]:
    """F1 is 2 J / (1 + J), where J is the share of found positives among the rows that are positive or called so."""
    asked = (called > 0) | labels
    found, count = (called * labels).sum() / asked.sum(), len(np.unique(codes[asked]))
    low, high = (2 * end / (1 + end) for end in wilson(float(found), count))
    return low, high, "Wilson of the Jaccard index"
