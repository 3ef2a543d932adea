"""Methods compared over several data sets: mean ranks, whether they differ at all, and how much is needed to say so.

Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, Journal of Machine Learning Research 7 (2006).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from covec.errors import ExamplesError

LEVEL = 0.05


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of k methods over n data sets, 1 being the best.

    `critical_difference` is Nemenyi's: mean ranks nearer than that do not differ at 5%. `p` is Friedman's, of all
    methods being alike. Both are None where there are too few data sets or methods to say.
    """

    mean: Float[np.ndarray, "k"]
    critical_difference: float | None
    p: float | None
    n: int


def mean_ranks(values: ArrayLike) -> Ranks:
    """Rank the methods on every data set by `values [n, k]`, higher being better, ties sharing their mean.

    Raises
    ------
    ExamplesError
        There is no data set or no method, or a value is not finite.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 2 or 0 in found.shape or not np.isfinite(found).all():
        raise ExamplesError(f"values of shape {found.shape} cannot be ranked: give finite ones, [data sets, methods]")
    n, k = found.shape
    ranks = rankdata(-found, axis=1).mean(0)
    if n < 2 or k < 2:
        return Ranks(ranks, None, None, n)
    critical = float(studentized_range.ppf(1 - LEVEL, k, np.inf)) / sqrt(2) * sqrt(k * (k + 1) / (6 * n))
    alike = (found == found[:, :1]).all()  # nothing to test: Friedman's statistic divides by the spread of the ranks
    p = None if k < 3 or alike else float(friedmanchisquare(*found.T).pvalue)
    return Ranks(ranks, critical, p, n)
