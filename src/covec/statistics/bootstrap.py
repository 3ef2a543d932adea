"""The cluster bootstrap: whole groups are drawn again, because rows of one group are not independent."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit, logit
from scipy.stats import t

_BLOCK = 2_000_000  # weights held at a time, so that memory does not grow with the number of draws

Statistic = Callable[[Float[np.ndarray, "draws n"]], Float[np.ndarray, "draws"]]


def cluster_bootstrap(
    value: float,
    statistic: Statistic,
    groups: Int[np.ndarray, "n"],
    *,
    share: bool = False,
    draws: int = 1000,
    seed: int = 0,
) -> tuple[float, float]:
    """95% interval of `value` from its standard error over draws of whole groups with replacement.

    Parameters
    ----------
    value
        The statistic of the rows as they are.
    statistic
        Takes how often each row is drawn, `[draws, n]`, and gives its value in each draw, NaN where it has none
        (such draws are left out).
    groups
        Number from 0 of each row's group.
    share
        The value lies between 0 and 1, and so the interval is made on the logit scale.

    Notes
    -----
    A t interval covers better than percentiles of the draws, which are too narrow for few groups and lean the wrong
    way near 1 (Hesterberg, What teachers should know about the bootstrap, The American Statistician 69, 2015).
    """
    count = int(groups.max()) + 1
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // len(groups))
    values = []
    for start in range(0, draws, block):
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=min(block, draws - start))
        values.append(statistic(drawn[:, groups].astype(np.float64)))
    # Resampled groups vary around their own mean: too little by this factor.
    error = float(np.nanstd(np.concatenate(values))) * sqrt(count / (count - 1))
    reach = float(t.ppf(0.975, count - 1)) * error
    if not share or error == 0:
        return value - reach, value + reach
    middle, reach = logit(value), reach / (value * (1 - value))
    return float(expit(middle - reach)), float(expit(middle + reach))


def weighted_auroc(
    scores: Float[np.ndarray, "n"], labels: Bool[np.ndarray, "n"], weights: Float[np.ndarray, "draws n"]
) -> Float[np.ndarray, "draws"]:
    """AUROC where row i counts `weights[:, i]` times; NaN where a class has no weight."""
    order = np.argsort(scores, kind="stable")
    levels = np.flatnonzero(np.append(True, np.diff(scores[order]) > 0))  # where a new score begins: ties are one level
    weights, labels = weights[:, order], labels[order]
    positives = np.add.reduceat(weights * labels, levels, axis=1)
    negatives = np.add.reduceat(weights * ~labels, levels, axis=1)
    below = np.cumsum(negatives, axis=1) - negatives / 2
    with np.errstate(invalid="ignore"):
        return (positives * below).sum(1) / (positives.sum(1) * negatives.sum(1))
