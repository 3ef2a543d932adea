"""A flow: activations follow a velocity that depends on where they are, on the time, and on the words for a concept.

FLAS, "Beyond Steering Vector: Flow-based Activation Steering for Inference-Time Intervention", arXiv:2605.05892, with
one block and without its self-attention. Velocities are in units of the usual activation. The concept's words bring
their own order, so that no positions are added to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity, pad, rms_norm, silu

from covec.edits.trainable import TrainableEdit, usual_sizes
from covec.errors import ExamplesError
from covec.models.plan import Pass
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input

FEATURES, GATE = 128, 0.1  # features of the time; what each part is multiplied by at first
DIVERSITY = 0.1  # weight of the likeness of different concepts' velocities
_SQUARE = ("query", "key", "value", "output", "widen", "select", "narrow")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Flow(TrainableEdit):
    """h follows the velocity for `time`, in `steps` steps of Euler's.

    Parameters
    ----------
    words
        Encoded words of each concept [c, k, d], filled up with zeros; `counts` says how many each has.
    concepts
        The concept of each row of a training; else all rows follow the first one.
    unit
        How large an activation's entries usually are.
    time
        How long to follow the flow: its strength, negative for the way back.
    """

    trained: ClassVar[tuple[str, ...]] = (*_SQUARE, "time_in", "time_out", "gates")

    query: Float[Tensor, "d d"]
    key: Float[Tensor, "d d"]
    value: Float[Tensor, "d d"]
    output: Float[Tensor, "d d"]
    widen: Float[Tensor, "d d"]
    select: Float[Tensor, "d d"]
    narrow: Float[Tensor, "d d"]
    time_in: Float[Tensor, "d features"]
    time_out: Float[Tensor, "d d"]
    gates: Float[Tensor, "2 d"]
    words: Float[Tensor, "c k d"]
    counts: tuple[int, ...]
    concepts: tuple[int, ...] = ()
    unit: float = 1.0
    time: float = 1.0
    steps: int = 3
    seen: list[Tensor] = field(default_factory=list)  # in training, the last velocities of the last pass

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = h.to(torch.promote_types(h.dtype, torch.float32))
        which = [self.concepts[row] for row in context.plan.inputs] if self.concepts else [0] * len(h)
        x, velocity = wide / self.unit, torch.zeros_like(wide)
        for step in range(self.steps):
            velocity = self.velocity(x, step * self.time / self.steps, which)
            x = x + self.time / self.steps * velocity
        if self.concepts:
            text = torch.from_numpy(context.indices() >= 0).to(velocity)[..., None]
            self.seen[:] = [(velocity * text).sum(1) / text.sum(1)]
        return (wide + (x * self.unit - wide)).to(h.dtype) if self.time else h

    def velocity(
        self, x: Float[Tensor, "rows tokens d"], time: float | Tensor, which: Sequence[int]
    ) -> Float[Tensor, "rows tokens d"]:
        """How activations in units of the usual one move at a time, one number or one a row, by each row's concept."""
        moved = x + self._time(x, time)
        moved = moved + self.gates[0].to(x) * _norm(self._attend(_norm(moved), which))
        inner = _norm(moved)
        wide = silu(inner @ self.select.to(x).T) * (inner @ self.widen.to(x).T)
        return moved + self.gates[1].to(x) * _norm(wide @ self.narrow.to(x).T) - x

    def loss(self, batch: object, outputs: Tensor) -> Tensor:
        """How alike the velocities of different concepts are, so that no flow serves all."""
        if not self.seen:
            return outputs.new_zeros(())
        (mean,) = self.seen
        rows = getattr(batch, "rows", ())
        which = torch.tensor([self.concepts[row] for row in rows], device=mean.device)
        apart = which[:, None] != which[None, :]
        if not bool(apart.any()):
            return outputs.new_zeros(())
        return DIVERSITY * cosine_similarity(mean[:, None], mean[None, :], dim=-1)[apart].mean()

    def _time(self, x: Tensor, time: float | Tensor) -> Tensor:
        """What the time adds: the same to all tokens of a row."""
        moments = torch.as_tensor(time, dtype=x.dtype, device=x.device).reshape(-1, 1, 1)
        rates = torch.exp(-math.log(1e4) * torch.arange(FEATURES // 2, device=x.device, dtype=x.dtype) * 2 / FEATURES)
        angles = 100 * moments * rates
        features = torch.cat([angles.sin(), angles.cos()], -1)
        return silu(features @ self.time_in.to(x).T) @ self.time_out.to(x).T

    def _attend(self, x: Tensor, which: Sequence[int]) -> Tensor:
        """What each token takes from the words of its row's concept."""
        place = torch.tensor(which, device=x.device)
        words = self.words.to(x)[place]
        counts = torch.tensor(self.counts, device=x.device)[place]
        there = torch.arange(words.shape[1], device=x.device)[None, None, None] < counts[:, None, None, None]
        heads = max(1, x.shape[-1] // 64)
        query, key, value = (
            (given @ weight.to(x).T).unflatten(-1, (heads, -1)).transpose(1, 2)
            for given, weight in ((x, self.query), (words, self.key), (words, self.value))
        )
        scores = _norm(query) @ _norm(key).transpose(-1, -2) / math.sqrt(query.shape[-1])
        found = scores.masked_fill(~there, -torch.inf).softmax(-1) @ value
        return found.transpose(1, 2).flatten(-2) @ self.output.to(x).T


def _norm(x: Tensor) -> Tensor:
    return rms_norm(x, x.shape[-1:], eps=1e-6)


def flow(
    model: TextModel,
    site: str | Site,
    concepts: Sequence[str],
    texts: Sequence[Input],
    *,
    seed: int = 0,
    **others: object,
) -> Flow:
    """A flow that hardly moves anything yet, for the words of some concepts.

    Parameters
    ----------
    texts
        A few of those at hand: how large activations usually are is measured on them.
    """
    ((address, (unit, width)),) = usual_sizes(model, site, texts).items()
    words, counts = encoded_words(model, concepts)
    made = {**start(width, seed), "fingerprint": model.fingerprint, **others}
    return Flow(site=address, words=words, counts=counts, unit=unit, **made)


def start(width: int, seed: int = 0) -> dict[str, Any]:
    """The tensors of a flow before training."""
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(width, width, generator=generator) / math.sqrt(width) for name in _SQUARE}
    weights["time_in"] = torch.randn(width, FEATURES, generator=generator) / math.sqrt(FEATURES)
    return {**weights, "time_out": torch.zeros(width, width), "gates": torch.full((2, width), GATE)}


def encoded_words(model: TextModel, concepts: Sequence[str]) -> tuple[Float[Tensor, "c k d"], tuple[int, ...]]:
    """Each concept's words as the stream after the model's second block, every token of unit size; and their numbers.

    Raises
    ------
    ExamplesError
        A concept has no words.
    """
    if not concepts or any(not one.strip() for one in concepts):
        raise ExamplesError("a flow is told its concept in words: give some for each")
    site = Site("resid", min(1, model.blocks - 1))
    rows = model.capture(list(concepts), site, "all/none")
    assert rows.offsets is not None  # of a position that takes several tokens
    each = rows[site].split(rows.offsets.diff().tolist())
    longest = max(map(len, each))
    return torch.stack([pad(_norm(one), (0, 0, 0, longest - len(one))) for one in each]), tuple(map(len, each))
