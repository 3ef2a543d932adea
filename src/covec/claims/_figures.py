"""Figures of a claim: means over repeats, and rules in words beside what they come to."""

from __future__ import annotations

from covec.claims import SHOWN, ClaimFigure
from covec.statistics.figure import Figure
from covec.statistics.means import mean_figure as mean_figure


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
    return ClaimFigure(name, figure, baseline, SHOWN, True)


def _value(baseline: Figure | float) -> float:
    return baseline.value if isinstance(baseline, Figure) else float(baseline)
