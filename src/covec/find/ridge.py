"""Ridge regression on the labels.

Hoerl and Kennard, "Ridge Regression", Technometrics 12 (1970); the strength by the exact formula for left-out blocks,
the PRESS of Allen (1974) for more than one row at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dposv
from torch import Tensor

from covec.errors import ExamplesError
from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.find._solvers import Spectrum, areas, best
from covec.registry import method

RIDGES = tuple(10.0**power for power in range(-3, 4))


@method("ridge", verb="find")
class Ridge(Finder):
    """Least squares on labels +-1 with an L2 penalty, on standardised features.

    The ridge, in units of a feature's variance, is the one with the highest AUROC over grouped five-fold
    cross-validation, which one eigendecomposition gives exactly for all folds and ridges.

    Parameters
    ----------
    ridges
        Candidates; one alone is taken as it is.
    """

    closed_form = True
    details = ("ridge",)

    def __init__(self, ridges: Sequence[float] = RIDGES) -> None:
        self.ridges = ridges

    def fit_rows(self, rows: Rows) -> Self:
        spectrum, target = rows.spectrum, rows.signs - rows.signs.mean()
        folds = rows.folds() if len(self.ridges) > 1 else None
        self.ridge_ = max(self.ridges)
        if folds is not None:
            outputs = held_out(spectrum, target, folds, self.ridges)
            self.ridge_ = self.ridges[best(areas(outputs, rows.positive), self.ridges)]
        weights = spectrum.coordinates.T @ target / (spectrum.variances + self.ridge_)
        self.direction_ = spectrum.direction(weights)
        return self


def held_out(
    spectrum: Spectrum, target: Float[Tensor, "n"], folds: Int[Tensor, "n"], ridges: Sequence[float]
) -> Float[Tensor, "ridges n"]:
    """What each ridge predicts for every row when the row's fold is left out.

    With the hat matrix H of the fit on all rows, the residuals of block B, had it been left out, are
    (I - H_BB)^-1 (y - H y)_B. The total penalty n * ridge is that of the full fit in every fold. In NumPy and SciPy,
    as the factorisation is: half of a symmetric product is half of the work.

    Raises
    ------
    ExamplesError
        A ridge is so weak that the equations have no stable solution.
    """
    coordinates, wanted, n = spectrum.coordinates.numpy(), target.numpy(), len(target)
    shrunken = 1 / (n * (spectrum.variances.numpy() + np.reshape(ridges, (-1, 1))))
    residual = wanted - (shrunken * (wanted @ coordinates)) @ coordinates.T
    predicted = np.empty_like(residual)
    for fold in range(int(folds.max()) + 1):
        block = np.flatnonzero(folds.numpy() == fold)
        rows = coordinates[block]
        for row, roots in enumerate(np.sqrt(shrunken)):
            kept = dsyrk(-1.0, (rows * roots).T, trans=1) - 1 / n  # right in its upper half, which is all that is read
            kept.flat[:: len(block) + 1] += 1
            _, left_out, failed = dposv(kept, residual[row, block])
            if failed:
                raise ExamplesError(f"a ridge of {ridges[row]:g} is too weak to solve for these rows: give larger ones")
            predicted[row, block] = wanted[block] - left_out
    return torch.from_numpy(predicted)
