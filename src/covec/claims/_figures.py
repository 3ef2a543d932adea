"""Figures of a claim: means over repeats, and rules in words beside what they come to."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t

from covec.claims import ClaimFigure
from covec.statistics.figure import Figure


def mean_figure(values: ArrayLike, how: str, *, null: float | None = None) -> Figure:
    """Mean of independent repeats with its 95% interval (Student's t); no interval for one repeat."""
    found = np.asarray(values, dtype=float).ravel()
    middle = float(found.mean())
    if len(found) < 2:
        return Figure(middle, null=null, n=len(found), how=how)
    half = float(t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found)))
    return Figure(middle, middle - half, middle + half, null, len(found), how)


def at_least(name: str, figure: Figure, baseline: Figure | float, slack: float = 0.0) -> ClaimFigure:
    """`figure` is at least `baseline`, up to `slack`."""
    rule = "at least the baseline" + (f" - {slack:g}" if slack else "")
    return ClaimFigure(name, figure, baseline, rule, figure.value >= _value(baseline) - slack)


def above(name: str, figure: Figure, baseline: Figure | float, margin: float = 0.0) -> ClaimFigure:
    """`figure` is above `baseline`, by at least `margin` where one is given."""
    rule = f"at least the baseline + {margin:g}" if margin else "above the baseline"
    gain = figure.value - _value(baseline)
    return ClaimFigure(name, figure, baseline, rule, gain >= margin if margin else gain > 0)


def shown(name: str, figure: Figure, baseline: Figure | float | None = None) -> ClaimFigure:
    """A control or a description: no rule rests on it."""
    return ClaimFigure(name, figure, baseline, "shown, no rule", True)


def _value(baseline: Figure | float) -> float:
    return baseline.value if isinstance(baseline, Figure) else float(baseline)
