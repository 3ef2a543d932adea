"""Several concepts as axes, each with two poles: their vectors, a pooled one, and what each reads of the others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import clone
from torch import Tensor

from covec.concepts.bank import Bank
from covec.concepts.vector import ConceptVector
from covec.errors import ExamplesError
from covec.find._finder import Finder
from covec.find._rows import Units, as_cells, two_classes
from covec.models.sites import Site
from covec.statistics.figure import Figure
from covec.statistics.intervals import auroc_figure

POOLED = "pooled"


@dataclass(frozen=True)
class Confounds:
    """What the vector of each axis reads of every axis.

    Attributes
    ----------
    areas
        AUROC of the rows of one axis (inner name) along the vector of another (outer name), and along the pooled one.
    cosines
        Between the vectors of the axes, in the order of the names.
    """

    areas: Mapping[str, Mapping[str, Figure]]
    cosines: Float[np.ndarray, "a a"]

    @property
    def names(self) -> tuple[str, ...]:
        """The axes."""
        return tuple(self.areas[POOLED])

    @property
    def own(self) -> float:
        """Mean AUROC of the axes along their own vectors."""
        return float(np.mean([self.areas[name][name].value for name in self.names]))

    @property
    def others(self) -> float:
        """Mean AUROC along the vectors of other axes, read from whichever end tells more."""
        return float(np.mean([self._told(one, other) for one in self.names for other in self.names if one != other]))

    def selectivity(self, vector: str) -> float:
        """Largest less mean AUROC along a vector, over the axes, read from whichever end tells more."""
        found = [self._told(vector, axis) for axis in self.names]
        return float(np.max(found) - np.mean(found))

    def _told(self, vector: str, axis: str) -> float:
        area = self.areas[vector][axis].value
        return max(area, 1 - area)

    def __str__(self) -> str:
        width = max(map(len, self.areas)) + 2
        lines = ["".join([" " * width, *(name.rjust(width) for name in self.names)])]
        for vector, row in self.areas.items():
            lines.append(vector.ljust(width) + "".join(f"{row[axis].value:.2f}".rjust(width) for axis in self.names))
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Axes:
    """Fitted finders of the axes by name, and the one of all rows pooled."""

    finders: Mapping[str, Finder]
    pooled: Finder

    @property
    def directions(self) -> Float[Tensor, "a d"]:
        """Unit directions, one an axis."""
        return torch.stack([finder.direction_ for finder in self.finders.values()])

    def bank(self, site: str | Site, **others: Any) -> Bank:
        """The axes as concept vectors read at `site`; further fields as in `ConceptVector`."""
        return Bank(
            [
                ConceptVector.from_direction(
                    name, site, finder.direction_, finder.mean_positive_, finder.mean_negative_, **others
                )
                for name, finder in self.finders.items()
            ]
        )

    def confounds(
        self, X: Float[Tensor, "n d"], y: Any, axis: Sequence[Hashable], groups: Units | None = None
    ) -> Confounds:
        """What each vector reads of the rows of every axis, which it had better not have been fitted to."""
        X, (_, positive) = as_cells(X, 2), two_classes(y)
        rows = _rows_of(axis, len(X))
        if missing := [name for name in self.finders if name not in rows]:
            raise ExamplesError(f"there are no rows of the axis {missing[0]!r} to read")
        areas = {}
        for vector, finder in {**self.finders, POOLED: self.pooled}.items():
            scores = finder.decision_function(X)
            areas[vector] = {
                name: auroc_figure(
                    scores[rows[name]],
                    positive[rows[name]],
                    None if groups is None else [groups[row] for row in rows[name]],
                    0.5,
                )
                for name in self.finders
            }
        return Confounds(areas, (self.directions @ self.directions.T).numpy())


def fit_axes(
    finder: Finder, X: Float[Tensor, "n d"], y: Any, axis: Sequence[Hashable], *, pairs: Units | None = None
) -> Axes:
    """Fit `finder` to the rows of each axis, and once to all rows pooled.

    Parameters
    ----------
    finder
        Unfitted; it stays as it is.
    y
        Which pole each row shows [n], of its own axis.
    axis
        The axis of each row [n].
    pairs
        Pair id of each row [n].

    Raises
    ------
    ExamplesError
        There is one axis only, or the rows of one cannot be fitted.
    """
    X, (_, positive) = as_cells(X, 2), two_classes(y)
    rows = _rows_of(axis, len(X))
    if len(rows) < 2:
        raise ExamplesError("there is one axis only: give the axis of each row, two different ones at least")
    if POOLED in rows:
        raise ExamplesError(f"an axis is called {POOLED!r}, which is what stands for all of them: rename it")
    named = None if pairs is None else list(pairs)

    def fitted(chosen: np.ndarray) -> Finder:
        own = {} if named is None else {"pairs": [named[row] for row in chosen]}
        one: Finder = clone(finder).fit(X[torch.from_numpy(chosen)], positive[chosen], **own)
        return one

    return Axes({name: fitted(chosen) for name, chosen in rows.items()}, fitted(np.arange(len(X))))


def _rows_of(axis: Sequence[Hashable], n: int) -> dict[str, np.ndarray]:
    if len(axis) != n:
        raise ExamplesError(f"{len(axis)} axes for {n} rows; give one a row")
    names = np.array([str(name) for name in axis])
    return {str(name): np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
