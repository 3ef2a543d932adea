"""Figures of what a vector is worth and what it does: against its baselines, against strength, against its nulls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from covec.report.svg import FONT, colour, drawing, inline, name_above, name_below
from covec.report.words import number
from covec.statistics.figure import Figure
from covec.studies.result import Study


def forest(study: Study) -> Markup:
    """The test AUROC with its interval, above everything it has to beat."""
    rows: list[tuple[str, Figure, str]] = [
        ("this vector", study.test["auroc"], "accent"),
        ("counting words", study.bag_of_words["auroc"], "muted"),
        ("surface cues", study.cue, "muted"),
        ("random directions", study.random_direction, "muted"),
    ]
    if others := [figure for figure in study.wrong_concepts.values() if not np.isnan(figure.value)]:
        rows.append(("best other concept", max(others, key=lambda figure: figure.value), "muted"))
    rows = [row for row in rows if not np.isnan(row[1].value)]
    with drawing(44 + 38 * len(rows), left=124, top=6) as (figure, (axis,)):
        axis.axvline(0.5, color=colour("chance"), linewidth=1, dashes=(4, 3))
        for at, (_, value, ink) in enumerate(rows):
            low = value.value if value.low is None else value.low
            high = value.value if value.high is None else value.high
            axis.plot([low, high], [at, at], color=colour(ink), linewidth=2, solid_capstyle="butt")
            axis.plot(value.value, at, "D" if ink == "accent" else "o", markersize=7, color=colour(ink))
            text = axis.annotate(
                number(value.value), (value.value, at), (0, 9), textcoords="offset points", ha="center"
            )
            text.set(fontsize=FONT, color=colour("ink" if ink == "accent" else "muted"))
            text.set_bbox({"facecolor": colour("surface"), "edgecolor": "none", "pad": 1})
        ends = [end for _, value, _ in rows for end in (value.value, value.low) if end is not None]
        axis.set(xlim=(min(0.4, min(ends, default=0.4) - 0.02), 1.02), ylim=(len(rows) - 0.5, -0.7))
        axis.set_yticks(range(len(rows)), [name for name, _, _ in rows])
        axis.grid(visible=False)
        name_below(axis, "AUROC on test rows")
        label = "AUROC on test rows. " + "; ".join(f"{name} {value}" for name, value, _ in rows)
        return inline(figure, label)


def steering_curve(study: Study) -> Markup:
    """The readout against the strength, over what that costs in divergence on neutral text."""
    used = study.used
    curve = sorted(used.curve, key=lambda point: point["strength"])
    strength, readout, kl = (np.array([_get(point, key) for point in curve]) for key in ("strength", "readout", "kl"))
    low, high = (np.array([_get(point, key) for point in curve]) for key in ("low", "high"))
    with drawing(330, rows=(2.4, 1.0), left=52) as (figure, (upper, lower)):
        rest = float(np.interp(0.0, strength, readout))
        for slope in used.add_nulls:
            upper.plot([-1, 1], [rest - slope, rest + slope], color=colour("other"), linewidth=0.8)
        upper.fill_between(strength, low, high, color=colour("accent"), alpha=0.16, linewidth=0)
        upper.plot(strength, readout, color=colour("accent"), linewidth=2.2)
        for side, ink in ((strength < 0, "less"), (strength == 0, "accent"), (strength > 0, "more")):
            upper.plot(strength[side], readout[side], "o", markersize=6, color=colour(ink))
        upper.axvline(0, color=colour("rule"), linewidth=0.8)
        name_above(upper, "readout, nats a token")
        upper.tick_params(labelbottom=False)
        lower.plot(strength, kl, color=colour("muted"), linewidth=1.8, marker="o", markersize=3.5)
        lower.set(ylim=(0, _headroom(kl)))
        name_above(lower, "KL, nats a token")
        name_below(lower, "strength")
        lower.set_xlim(upper.get_xlim())
        label = (
            f"Readout against strength: {number(readout[0])} at {number(strength[0])}, {number(rest)} at 0, "
            f"{number(readout[-1])} at {number(strength[-1])}; "
            f"KL on neutral text reaches {number(np.nanmax(kl, initial=0.0))} a token."
        )
        return inline(figure, label)


def strips(study: Study) -> Markup:
    """Effects of adding and of ablating, each beside those of the shuffled-label vectors."""
    used = study.used
    listed = [("add", used.add, used.add_nulls), ("ablate", used.ablate, used.ablate_nulls)]
    rows = [(name, figure, nulls) for name, figure, nulls in listed if figure is not None]
    label = "Effects beside those of shuffled-label vectors."
    with drawing(44 + 140 * len(rows), rows=(1.0,) * len(rows), left=60, top=10) as (figure, axes):
        for axis, (name, value, nulls) in zip(axes, rows, strict=True):
            _strip(axis, value, nulls)
            axis.set_yticks([0], [name])
            label += f" {name}: {value}, largest null {number(max(nulls, default=None))}."
        name_below(axes[-1], "change of the readout, nats a token")
        return inline(figure, label)


def _strip(axis: Axes, value: Figure, nulls: Sequence[float]) -> None:
    spread = np.random.default_rng(0).uniform(-0.32, 0.32, len(nulls))
    axis.axvline(0, color=colour("chance"), linewidth=1, dashes=(4, 3))
    axis.plot(nulls, spread, "o", markersize=5, markerfacecolor="none", markeredgecolor=colour("muted"), alpha=0.8)
    if value.low is not None and value.high is not None:
        axis.plot([value.low, value.high], [0, 0], color=colour("accent"), linewidth=2, solid_capstyle="butt")
    axis.plot(value.value, 0, "D", markersize=8, color=colour("accent"))
    axis.set(ylim=(-0.6, 0.6))
    axis.margins(x=0.08)
    axis.locator_params(axis="x", nbins=5)  # effects may be of any size, and so their labels of any length
    axis.grid(visible=False)


def _get(point: dict[str, float], key: str) -> float:
    value = point.get(key)
    return np.nan if value is None else float(value)


def _headroom(values: np.ndarray) -> float:
    return float(np.nanmax(values, initial=0.0)) * 1.15 or 1.0
