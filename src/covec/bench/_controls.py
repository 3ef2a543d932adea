"""Vectors that know nothing of a concept: what a method has to beat to have shown anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from jaxtyping import Float
from torch import Tensor

from covec.find._finder import Finder, Fits
from covec.find._rows import Labels, Rows, Units, as_cells


class RandomDirection(Finder):
    """An isotropic direction, turned to the side of the positives.

    Parameters
    ----------
    seed
        Of the draw; every site has the same one.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit_rows(self, rows: Rows) -> Self:
        generator = torch.Generator().manual_seed(self.seed)
        self.direction_ = torch.randn(rows.X.shape[1], generator=generator, dtype=torch.float64)
        return self


class WrongConcept(Finder):
    """The difference of means of another concept, turned to the side of this one's positives.

    Parameters
    ----------
    directions
        Those of the other concept, one a site [s, d].
    """

    def __init__(self, directions: Float[Tensor, "s d"]) -> None:
        self.directions = directions

    def fit_many(
        self,
        X: Float[Tensor, "s n d"],
        y: Any,
        *,
        groups: Units | None = None,
        pairs: Units | None = None,
        **columns: Sequence[Any],
    ) -> Fits:
        X = as_cells(X, 3)
        return self._completed(X, Labels.of(y, X.shape[1], groups, pairs), self.directions)
