"""What the laws share: prompts of unequal length, edits drawn at random, and an observer of passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from comparing import close as close
from comparing import hooks as hooks
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add, Edit
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

PROMPTS = (
    "x y",
    "The hotel was clean.",
    "A dull film: two hours that I shall never get back!",
    "Der Zug nach Köln fährt um acht Uhr ab. Water boils at 100 degrees; ice melts at 0.",
    "yes, yes",
    "The hotel and the people were kind; the film was dull",
    "0 1 2 3 4 5 6 7 8 9",
    "ice melts",
)
CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Is the hotel clean?"}]


@lru_cache(maxsize=64)
def spread(model: TextModel, site: str = "resid.1") -> float:
    """How far activations at `site` lie from their mean, content alone."""
    rows = model.capture(PROMPTS[:3], site, "content/none")[site]
    return float((rows - rows.mean(0)).norm(dim=1).mean())


def add(model: TextModel, position: str = "content", site: str = "resid.1", size: float = 1.0) -> Add:
    """A random shift of `size` times the spread of the activations."""
    shift = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    shift = shift / shift.norm() * spread(model, site) * size
    return Add(site=Site.parse(site), shift=shift, position=Position.parse(position))


def vector(model: TextModel, site: str = "resid.1", **others: Any) -> ConceptVector:
    """The difference between two halves of the prompts."""
    rows = model.capture(PROMPTS, site, "mean")[site]
    positive, negative = rows[:4].mean(0), rows[4:].mean(0)
    made = {"model": model.describe(), **others}
    return ConceptVector.from_direction("half", site, positive - negative, positive, negative, **made)


@dataclass(frozen=True, eq=False, kw_only=True)
class Seen(Edit):
    """Changes nothing; keeps what it sees of every pass: token indices in the unpadded text, input numbers, states."""

    observes: ClassVar[bool] = True

    passes: list[tuple[np.ndarray, list[int], Tensor]] = field(default_factory=list)

    def apply(self, h: Tensor, context: Any) -> Tensor:
        inputs = context.plan.inputs or range(len(context.plan.layouts))
        self.passes.append((context.indices(), [inputs[context.row(row)] for row in range(context.rows)], h.clone()))
        return h

    def rows(self) -> Iterator[tuple[int, int, Tensor]]:
        """The number of the input, the token's index and its state, padding left out."""
        for indices, inputs, hidden in self.passes:
            for row, number in enumerate(inputs):
                for column in np.flatnonzero(indices[row] >= 0):
                    yield number, int(indices[row, column]), hidden[row, column]
