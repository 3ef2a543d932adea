"""The sweep in pictures: curves and heat maps over the layers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from covec.report.panels import Panel
from covec.report.svg import colour, drawing, inline, name_above, name_below
from covec.report.words import number
from covec.statistics.figure import Figure
from covec.studies.result import Cell, Study

LEVELS = 10  # of the heat map: one for each 0.05 of AUROC above chance


def layer_curves(panel: Panel, study: Study, low: float) -> Markup:
    """AUROC over the layers: the selected finder with its intervals, the others behind it, and what chance reaches.

    `low` is where the axis begins, the same for all panels of a study (`floor`).
    """
    selected, test = study.selected, study.test["auroc"]
    finder = selected.finder if selected.finder in panel.finders else panel.finders[0]
    row, x = panel.row(finder), np.arange(len(panel.columns))
    titles = {f"other{index}": name for index, name in enumerate(panel.finders) if name != finder}
    label = f"Validation AUROC over the layers, {_subject(panel)}."
    with drawing(262) as (figure, (axis,)):
        _chance_band(axis, panel, low)
        for gid, name in titles.items():
            axis.plot(x, _values(panel.row(name)), color=colour("other"), linewidth=1, gid=gid)
        _band(axis, x, row)
        axis.plot(
            x, _values(row), color=colour("accent"), linewidth=2.2, marker="o" if len(x) < 3 else "", markersize=4
        )
        if (place := panel.place(selected)) is not None:
            _mark(axis, place[1], selected.auroc.value, test)
            label += f" Selected: {finder} at {selected.site}, {number(selected.auroc.value)}; on test rows {test}."
        axis.set(ylim=(low, 1.02), xlim=(-0.6, len(x) - 0.4))
        name_above(axis, "AUROC")
        _layer_ticks(axis, panel)
        return inline(figure, label, titles)


def heat_map(panel: Panel, study: Study) -> Markup:
    """AUROC of every finder at every layer; the number appears over each cell."""
    titles = {}
    with drawing(46 + 21 * len(panel.finders), left=126, top=6) as (figure, (axis,)):
        for row, finder in enumerate(panel.finders):
            for column, cell in enumerate(panel.row(finder)):
                if cell is not None and not np.isnan(cell.auroc.value):
                    gid = f"cell{row}-{column}"
                    titles[gid] = f"{finder}, {cell.site}: {number(cell.auroc.value, 3)}"
                    shade = colour(f"heat-{level(cell.auroc.value)}")
                    axis.add_artist(_box(row, column, facecolor=shade, linewidth=0, gid=gid))
        if (place := panel.place(study.selected)) is not None:
            for edge, width in (("surface", 4.0), ("ink", 1.8)):
                axis.add_artist(_box(*place, fill=False, edgecolor=colour(edge), linewidth=width))
        axis.set(xlim=(-0.6, len(panel.columns) - 0.4), ylim=(len(panel.finders) - 0.4, -0.6))
        axis.set_yticks(range(len(panel.finders)), panel.finders)
        axis.grid(visible=False)
        _layer_ticks(axis, panel)
        best = panel.best
        label = (
            f"Heat map of validation AUROC, {_subject(panel)}. The best is {best.finder} at {best.site}, {best.auroc}."
        )
        return inline(figure, label, titles)


def level(auroc: float) -> int:
    """Which of the heat map's colours an AUROC has."""
    return int(np.clip((auroc - 0.5) / 0.5 * LEVELS, 0, LEVELS - 1))


def floor(cells: Iterable[Cell]) -> float:
    """Where the axis of all curves begins: a little under chance, or under the worst cell."""
    worst = min((cell.auroc.value for cell in cells if not np.isnan(cell.auroc.value)), default=0.5)
    return float(max(0.0, min(0.44, np.floor(worst * 20) / 20 - 0.01)))


def _subject(panel: Panel) -> str:
    return f"{panel.title[0].lower()}{panel.title[1:]} at {panel.position}"


def _values(row: list[Cell | None]) -> list[float]:
    return [np.nan if cell is None else cell.auroc.value for cell in row]


def _band(axis: Axes, x: np.ndarray, row: list[Cell | None]) -> None:
    figures = [Figure(np.nan) if cell is None else cell.auroc for cell in row]
    low, high = (
        np.array([np.nan if end is None else end for end in ends])
        for ends in zip(*((figure.low, figure.high) for figure in figures), strict=True)
    )
    if len(x) < 3:
        axis.vlines(x, low, high, color=colour("accent"), linewidth=1.5, alpha=0.5)
    else:
        axis.fill_between(x, low, high, color=colour("accent"), alpha=0.16, linewidth=0)


def _chance_band(axis: Axes, panel: Panel, low: float) -> None:
    nulls = np.array([panel.null(column) for column in panel.columns])
    axis.axhline(0.5, color=colour("chance"), linewidth=1, dashes=(4, 3))
    if np.isfinite(nulls).any():
        edges = np.repeat(np.arange(len(nulls)), 2) + np.tile([-0.5, 0.5], len(nulls))
        axis.fill_between(edges, low, np.repeat(nulls, 2), color=colour("chance"), alpha=0.18, linewidth=0)


def _mark(axis: Axes, column: int, value: float, test: Figure) -> None:
    """The selected cell as a ring, the test figure over the same block as a diamond with its interval."""
    (ring,) = axis.plot([column], [value], "o", markersize=9, markerfacecolor="none")
    ring.set(markeredgecolor=colour("ink"), markeredgewidth=1.6)
    if test.low is not None and test.high is not None:
        axis.plot([column, column], [test.low, test.high], color=colour("test"), linewidth=1.6, solid_capstyle="butt")
    axis.plot([column], [test.value], "D", markersize=6, color=colour("test"), markeredgecolor=colour("surface"))


def _box(row: int, column: int, **style: object) -> Rectangle:
    box = Rectangle((column - 0.5, row - 0.5), 1.01, 0.92, clip_on=False)
    box.set(**style)
    return box


def _layer_ticks(axis: Axes, panel: Panel) -> None:
    columns = panel.columns
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 10**6) if len(columns) / step <= 9)
    named = all(column.isdecimal() or column in ("in", "out") for column in columns)
    if named:
        shown = [at for at, column in enumerate(columns) if not column.isdecimal() or int(column) % step == 0]
    else:
        shown = list(range(0, len(columns), step))
    axis.set_xticks(shown, [columns[at] if named else str(at) for at in shown])
    name_below(axis, "block" if named else "module")
