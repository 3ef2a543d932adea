"""The edit that a check is of, the vector that it is made of, and what it does to activations alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.edits.scope import flatten
from covec.models.plan import Pass, Plan
from covec.worlds.toys import WIDTH as WIDTH  # of the toy model's sites, and so of the vector


def planted(width: int = WIDTH, size: float = 1.0) -> ConceptVector:
    """The vector of which edits are made, calibrated, of a model whose activations are `size` times as large.

    Its class means are so near to one another that the toy model's tokens lie on both sides of both.
    """
    direction, across = torch.randn(2, width, generator=torch.Generator().manual_seed(100))
    positive = 0.1 * nn.functional.normalize(direction, dim=0) + 0.005 * across
    return ConceptVector.from_direction(
        "planted", "resid.0", size * direction, size * positive, -size * positive, calibration=(4.0, 0.5)
    )


@dataclass(frozen=True)
class Subject:
    """The edit under test: a function that makes it of a concept vector, and of a strength where it takes one."""

    name: str
    make: Callable[..., Any]

    @property
    def has_strength(self) -> bool:
        """Whether there are several strengths of it."""
        return "strength" in inspect.signature(self.make).parameters

    def edits(self, vector: ConceptVector | None = None, **options: Any) -> tuple[Edit, ...]:
        """The edits that it makes of `vector`."""
        return flatten([self.make(vector or planted(), **options)])

    def apply(self, h: Tensor, vector: ConceptVector | None = None, **options: Any) -> Tensor:
        """`h` after the edits, as the scope would apply them to every token."""
        return applied(self.edits(vector, **options), h)


def applied(edits: tuple[Edit, ...], h: Float[Tensor, "rows tokens d"]) -> Float[Tensor, "rows tokens d"]:
    """`h` after `edits`, at every token."""
    now = Pass(Plan(()), h.shape[0], 0, h.shape[1], h.device)
    for edit in edits:
        h = edit.prepare(h.device, h.dtype).apply(h, now)
    return h
