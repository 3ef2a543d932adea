"""The mean of independent repeats, such as concepts of a bench."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t

from covec.statistics.figure import Figure


def mean_figure(values: ArrayLike, how: str, *, null: float | None = None) -> Figure:
    """Mean of independent repeats with its 95% interval (Student's t); no interval for one repeat."""
    found = np.asarray(values, dtype=float).ravel()
    middle = float(found.mean())
    if len(found) < 2:
        return Figure(middle, null=null, n=len(found), how=how)
    half = float(t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return Figure(middle, middle - half, middle + half, null, len(found), how)
