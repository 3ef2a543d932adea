"""Closed-form intervals of AUROCs: DeLong's covariance, on the logit scale, and Newcombe's where that has no width."""

from __future__ import annotations

from math import sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import rankdata

from covec.statistics.auroc import checked_scores
from covec.statistics.proportions import Z

ENOUGH = 20  # rows of a class that tell a variance


def delong(scores: ArrayLike, labels: ArrayLike) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m m"]]:
    """AUROCs `[m]` of several scores `[m, n]` of the same rows, and their covariance `[m, m]`.

    The covariance is NaN where a class has one row.

    Raises
    ------
    ExamplesError
        Shapes differ, a score is not finite, or only one class has rows.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988); by ranks as in Sun and Xu, IEEE Signal Processing
    Letters 21 (2014).
    """
    scores, labels = checked_scores(np.atleast_2d(np.asarray(scores)), labels)
    ranks = rankdata(scores, axis=-1)
    positives, negatives = int(labels.sum()), int((~labels).sum())
    # The share of the other class that each row is placed above (positives) or below (negatives).
    above = (ranks[:, labels] - rankdata(scores[:, labels], axis=-1)) / negatives
    below = 1 - (ranks[:, ~labels] - rankdata(scores[:, ~labels], axis=-1)) / positives
    if min(positives, negatives) == 1:
        return above.mean(-1), np.full((len(scores), len(scores)), np.nan)
    covariance = np.cov(above) / positives + np.cov(below) / negatives
    return above.mean(-1), np.atleast_2d(covariance)


def auroc_interval(scores: ArrayLike, labels: ArrayLike) -> tuple[float, float, str]:
    """95% interval of the AUROC of `scores [n]`, and its name.

    DeLong's variance on the logit scale keeps the ends within 0 and 1. From fewer than twenty rows of a class it comes
    out too small (ten with 190 others are covered in 90%), and at 0 and 1, or where all scores are equal, it is 0:
    there Newcombe's interval stands in.
    """
    (area,), ((variance,),) = delong(scores, labels)
    positives = int(np.sum(labels))
    negatives = np.size(labels) - positives
    if min(positives, negatives) < ENOUGH or not variance > 0:
        return *newcombe(area, positives, negatives), "Newcombe"
    spread = Z * sqrt(variance) / (area * (1 - area))
    return float(expit(logit(area) - spread)), float(expit(logit(area) + spread)), "logit-DeLong"


def newcombe(area: float, positives: int, negatives: int) -> tuple[float, float]:
    """95% score interval of an AUROC from itself and the class sizes alone.

    The ends are the areas whose own standard error, as of exponential scores in classes of equal size, puts the
    estimate at 1.96 of them.

    References
    ----------
    Newcombe, Confidence intervals for an effect size measure based on the Mann-Whitney statistic, part 2, Statistics
    in Medicine 25 (2006), method 5.
    """
    middle = (positives + negatives) / 2 - 1

    def excess(theta: float) -> float:
        """Squared distance from the estimate, less that of 1.96 standard errors."""
        shape = 1 + middle * (1 - theta) / (2 - theta) + middle * theta / (1 + theta)
        return (area - theta) ** 2 - Z**2 * theta * (1 - theta) * shape / (positives * negatives)

    edge = 1e-12  # at 0 and 1 the standard error vanishes: an estimate there is a root itself, and not the one sought
    low = brentq(excess, 0.0, min(area, 1 - edge)) if area > 0 else 0.0
    high = brentq(excess, max(area, edge), 1.0) if area < 1 else 1.0
    return float(low), float(high)
