"""RAPTOR: one well-tuned knob is enough.

"RAPTOR: Ridge-Adaptive Logistic Probes", arXiv:2602.00158.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from torch import Tensor

from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.find._solvers import LOGISTIC, fit_convex
from covec.registry import method

RIDGES = tuple(10.0 ** (power * 2 / 3 - 4) for power in range(13))


@method("raptor", verb="find", card="raptor")
class Raptor(Finder):
    """Logistic regression on standardised features whose ridge is chosen by validation accuracy.

    Thirteen ridges from 1e-4 to 1e4; equal accuracies go to the larger ridge, which is the more stable one. Accuracy
    is taken over grouped five-fold cross-validation, for one small validation set is too noisy to choose by; the
    probe is then fitted on all rows. `logistic` is the same regression chosen by AUROC over seven ridges.

    Parameters
    ----------
    ridges
        Candidates, per row and in units of a feature's variance; one alone is taken as it is.
    """

    details = ("ridge",)

    def __init__(self, ridges: Sequence[float] = RIDGES) -> None:
        self.ridges = ridges

    def fit_rows(self, rows: Rows) -> Self:
        self.direction_, self.ridge_ = fit_convex(rows, LOGISTIC, self.ridges, _accuracy)
        return self


def _accuracy(outputs: Tensor, positive: Tensor) -> Tensor:
    return ((outputs > 0) == positive).double().mean(1)
