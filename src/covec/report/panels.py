"""The cells of a sweep, sorted into panels that can be drawn over the layers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from covec.models.positions import Position
from covec.models.sites import Site
from covec.studies.result import Cell

_STREAM = ("embed", "resid", "final")
_TITLES = {
    "resid": "Residual stream",
    "attn": "Attention output",
    "mlp": "MLP output",
    "mixer": "Mixer output",
    "neuron": "MLP neurons",
    "head": "Best attention head of each block",
    "key": "Best key head of each block",
    "value": "Best value head of each block",
    "block": "Block output",
    "module": "Modules",
}


@dataclass(frozen=True)
class Panel:
    """The cells of one kind of site at one position; where several heads share a block, the best of them."""

    kind: str
    position: Position
    columns: tuple[str, ...]  # blocks, or names where sites have none
    finders: tuple[str, ...]  # the best of all panels first, so that rows can be compared across
    cells: dict[tuple[str, str], Cell]  # by finder and column

    @property
    def title(self) -> str:
        """The kind of its sites, in words."""
        return _TITLES[self.kind]

    @property
    def best(self) -> Cell:
        """Its best cell."""
        return max(self.cells.values(), key=merit)

    def row(self, finder: str) -> list[Cell | None]:
        """A finder's cells, one a column."""
        return [self.cells.get((finder, column)) for column in self.columns]

    def null(self, column: str) -> float:
        """The largest 95% point under permuted labels that is known in a column; NaN where none is."""
        nulls = [cell.auroc.null for (_, place), cell in self.cells.items() if place == column]
        return max((null for null in nulls if null is not None), default=math.nan)

    def place(self, cell: Cell) -> tuple[int, int] | None:
        """Row and column of a cell; None where it is not shown here."""
        column = _column(cell.site)
        if self.cells.get((cell.finder, column)) != cell:
            return None
        return self.finders.index(cell.finder), self.columns.index(column)


def panels(cells: Iterable[Cell]) -> list[Panel]:
    """Sort the cells of a sweep into panels, in the order in which they come."""
    cells = list(cells)
    finders = tuple(dict.fromkeys(cell.finder for cell in sorted(cells, key=merit, reverse=True)))
    groups: dict[tuple[str, Position], list[Cell]] = {}
    for cell in cells:
        kind = "resid" if cell.site.kind in _STREAM else cell.site.kind
        groups.setdefault((kind, cell.position), []).append(cell)
    return [_panel(kind, position, group, finders) for (kind, position), group in groups.items()]


def merit(cell: Cell) -> tuple[float, float]:
    """What cells are ordered by; a figure that could not be had comes last."""
    auroc, accuracy = (-math.inf if math.isnan(value) else value for value in (cell.auroc.value, cell.accuracy))
    return auroc, accuracy


def _panel(kind: str, position: Position, group: list[Cell], finders: Sequence[str]) -> Panel:
    ascending = sorted(group, key=merit)
    best = {(cell.finder, _column(cell.site)): cell for cell in ascending}
    here = {cell.finder for cell in group}
    columns = dict.fromkeys(_column(site) for site in sorted({cell.site for cell in group}, key=depth))
    return Panel(kind, position, tuple(columns), tuple(name for name in finders if name in here), best)


def depth(site: Site) -> tuple[int, int, str]:
    """What sites are ordered by: from the model's input to its output."""
    return {"embed": -1, "final": 10**6}.get(site.kind, site.block), site.head, site.path


def _column(site: Site) -> str:
    return {"embed": "in", "final": "out"}.get(site.kind, str(site.block) if site.block >= 0 else str(site))
