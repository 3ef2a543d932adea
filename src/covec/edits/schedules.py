"""When an edit acts, and how much of it: schedules over the tokens of a text, and a gate for where a model is unsure.

Positions say which tokens an edit may touch, and a gate asks a detector. A schedule weighs what the edit does to each
token by where that token stands: nothing at 0, all of it at 1, half of the way at 0.5. All of these go with every edit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.errors import ModelError
from covec.models.plan import Pass, begin_pass, passing, planned
from covec.models.sites import Site
from covec.models.text import TextModel

_ROWS = 512  # tokens whose logits are in memory at once


class Schedule:
    """How much of an edit acts on every token of a pass, by where it stands: never by what it says.

    Steps count from the prompt's last token, which is step 0 and says the first new token; the first new token is step
    1, and the prompt's other tokens stand below 0.
    """

    def weigh(self, steps: np.ndarray, indices: np.ndarray) -> Float[np.ndarray, "rows columns"]:
        """Weights of tokens at these steps and absolute indices [rows, columns]."""
        raise NotImplementedError

    def weights(self, now: Pass) -> Float[Tensor, "rows columns"]:
        """Weights of the tokens of a pass."""
        indices = now.indices()
        ends = np.array([now.plan.layouts[now.row(row)].length - 1 for row in range(now.rows)])
        return torch.from_numpy(self.weigh(indices - ends[:, None], indices)).to(now.device, torch.float32)


@dataclass(frozen=True)
class Steps(Schedule):
    """Only from step `first` to step `last` of a generation, both included; to the end where `last` is None."""

    first: int = 0
    last: int | None = None

    def __post_init__(self) -> None:
        if self.first < 0 or (self.last is not None and self.last < self.first):
            raise ModelError(
                f"steps go from 0 on, and from a first to a last one, not from {self.first} to {self.last}"
            )

    def weigh(self, steps: np.ndarray, indices: np.ndarray) -> Float[np.ndarray, "rows columns"]:
        return ((steps >= self.first) & (steps <= (math.inf if self.last is None else self.last))).astype(float)


@dataclass(frozen=True)
class Ramp(Schedule):
    """Weights on straight lines through `points` of (place, weight), and level before the first and after the last.

    A place is a step of the generation, or with `by="index"` a token's index in the text.
    """

    points: tuple[tuple[float, float], ...]
    by: str = "step"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple((float(place), float(weight)) for place, weight in self.points))
        places = [place for place, _ in self.points]
        if self.by not in ("step", "index"):
            raise ModelError(f"a ramp goes by step or by index, not by {self.by!r}")
        if not places or any(one >= other for one, other in pairwise(places)):
            raise ModelError(f"a ramp needs points at rising places, such as ((0, 1.0), (20, 0.0)), not {self.points}")
        if not all(math.isfinite(number) for point in self.points for number in point):
            raise ModelError(f"the points of a ramp are finite numbers, not {self.points}")

    def weigh(self, steps: np.ndarray, indices: np.ndarray) -> Float[np.ndarray, "rows columns"]:
        places, weights = zip(*self.points, strict=True)
        return np.interp(steps if self.by == "step" else indices, places, weights)


@dataclass(frozen=True)
class Unsure:
    """A gate that opens where the likeliest next token, as the head reads the stream at `site`, is not likely.

    What the head reads there is a first opinion, of which later blocks make the model's last one. It is what is known
    before the edit acts, and depends on nothing but the text: with and without the cache, alone and in a batch, the
    gate opens at the same tokens. The site must not come after the edit's own.
    """

    site: Site
    below: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "site", Site.parse(self.site))
        if not 0 < self.below <= 1:
            raise ModelError(f"a gate opens below a probability between 0 and 1, not {self.below}")

    def bind(self, model: TextModel, device: torch.device) -> Callable[[Tensor], Tensor]:
        """Where the gate is open [rows, tokens], of activations at its site."""
        if not model.has_head:
            raise ModelError(f"{model.name} has no language head, and nothing to be unsure of: leave the gate out")
        split, norm = Split(model, "embed"), model.anatomy.taps.get(Site("final"))

        def fires(h: Float[Tensor, "rows tokens d"]) -> Tensor:
            rows = h.reshape(-1, h.shape[-1])
            with passing(), planned(None), torch.no_grad():
                begin_pass(None)  # what the norm and the head do here is no part of the pass, and is not edited
                likely = [self._likeliest(split, norm, part) for part in rows.split(_ROWS)]
            return (torch.cat(likely) if likely else rows.new_zeros(0)).reshape(h.shape[:-1]) < self.below

        return fires

    def _likeliest(self, split: Split, norm: Any, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
        read = rows if norm is None else norm.module(rows)
        return split.logits(read).float().softmax(1).amax(1)


def scheduled(edits: Any, schedule: Schedule | None = None, **where: Any) -> tuple[Any, ...]:
    """The same edits under a schedule; `where` are other fields, such as `gate` and `position`."""
    if isinstance(edits, tuple | list):
        return tuple(one for each in edits for one in scheduled(each, schedule, **where))
    return (replace(edits, schedule=schedule, **where),)
