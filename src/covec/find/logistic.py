"""Logistic regression: the standard linear probe.

Alain and Bengio, "Understanding intermediate layers using linear classifier probes", arXiv:1610.01644.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.find._solvers import LOGISTIC, fit_convex
from covec.registry import method

RIDGES = tuple(10.0 ** (power * 5 / 6 - 3) for power in range(7))  # 0.001 to 100


@method("logistic", verb="find", card="scav")
class Logistic(Finder):
    """L2-regularised logistic regression on standardised features.

    Of seven ridges it takes the one with the highest AUROC over grouped five-fold cross-validation, then fits all
    rows; `raptor` is the same regression with a finer grid, chosen by accuracy. scikit-learn's C is 1 / (n * ridge).

    Parameters
    ----------
    ridges
        Candidates, per row and in units of a feature's variance; one alone is taken as it is.
    """

    details = ("ridge",)

    def __init__(self, ridges: Sequence[float] = RIDGES) -> None:
        self.ridges = ridges

    def fit_rows(self, rows: Rows) -> Self:
        self.direction_, self.ridge_ = fit_convex(rows, LOGISTIC, self.ridges)
        return self
