"""Many tests at once: Holm's correction, and the step-down maximum where one permutation serves all of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from covec.errors import ExamplesError
from covec.statistics.permutation import p_value


def holm(p: ArrayLike) -> Float[np.ndarray, "k"]:
    """p-values `[k]` corrected for their number, whatever their dependence.

    Raises
    ------
    ExamplesError
        A p-value is not between 0 and 1, or there is none.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1 or not len(p) or not ((p >= 0) & (p <= 1)).all():
        raise ExamplesError("p-values to correct are numbers between 0 and 1, one row of at least one")
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1)
    return corrected


def step_down_maximum(observed: ArrayLike, null: ArrayLike) -> Float[np.ndarray, "cells"]:
    """p-values of cells corrected by the maximum over them, stepping down from the highest cell.

    Each cell is judged by the maximum of its null over itself and all lower cells, so that cells which move together
    cost little; the smallest corrected p-value is that of the maximum over all cells.

    Parameters
    ----------
    observed
        Statistic of each cell `[cells]`, on one scale, high where there is an effect.
    null
        The same under the same permutations for all cells `[permutations, cells]`.

    Raises
    ------
    ExamplesError
        Shapes do not match, there is no cell or permutation, or a value is NaN.

    References
    ----------
    Westfall and Young, Resampling-based multiple testing (1993), algorithm 4.1 (maxT).
    """
    observed, null = np.asarray(observed, dtype=np.float64), np.asarray(null, dtype=np.float64)
    if observed.ndim != 1 or null.ndim != 2 or null.shape[1] != len(observed) or not null.size:
        raise ExamplesError(f"cells {observed.shape} and null {null.shape}: pass [cells] and [permutations, cells]")
    if np.isnan(observed).any() or np.isnan(null).any():
        raise ExamplesError("a cell's statistic is NaN: look for NaN or inf in the activations")
    upwards = np.argsort(observed)
    maxima = np.maximum.accumulate(null[:, upwards], axis=1)
    corrected = np.empty_like(observed)
    corrected[upwards[::-1]] = np.maximum.accumulate(p_value(observed[upwards], maxima)[::-1])
    return corrected
