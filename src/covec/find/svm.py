"""Linear support vector machine: the classic concept activation vector.

Kim et al., "Interpretability Beyond Feature Attribution: Quantitative Testing with Concept Activation Vectors (TCAV)",
arXiv:1711.11279, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.find._solvers import SQUARED_HINGE, fit_convex
from covec.registry import method

RIDGES = (0.1, 1.0, 10.0, 100.0)


@method("svm", verb="find", card="tcav")
class Svm(Finder):
    """The normal of a linear support vector machine (squared hinge, L2), pointing to the concept's side.

    Features are standardised; the ridge with the highest AUROC over grouped five-fold cross-validation is taken,
    then all rows are fitted. scikit-learn's C (`LinearSVC`) is 1 / (n * ridge).

    Parameters
    ----------
    ridges
        Candidates, per row and in units of a feature's variance; one alone is taken as it is.
    """

    details = ("ridge",)

    def __init__(self, ridges: Sequence[float] = RIDGES) -> None:
        self.ridges = ridges

    def fit_rows(self, rows: Rows) -> Self:
        self.direction_, self.ridge_ = fit_convex(rows, SQUARED_HINGE, self.ridges)
        return self
