"""A teacher that is steered, and students that learn from what it writes: does the vector pass to them?

Texts are walks on a random graph of words. The words that the vector makes likelier by themselves are never written, so
that nothing in the texts shows it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from covec.edits.algebra import Add, Edit
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.worlds import small

WORDS = tuple(f"w{place}" for place in range(30))
WIDTH, BLOCKS, LENGTH = 64, 3, 20
SITE = Site("resid", 1)
ALL = Position("all")
_BRANCHES = 6  # words that may follow a word
_SHOWN = 4  # words that the vector speaks for, which no text has


def base(seed: int, steps: int = 500) -> TextModel:
    """A small transformer that has learned the language, from random weights of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = small.transformer(WORDS, width=WIDTH, blocks=BLOCKS, longest=LENGTH)
        rng = np.random.default_rng(seed)
        small.train(module, partial(_drawn, rng), steps=steps, decay=0.0)
    return TextModel(module, small.tokenizer(WORDS), name=f"walks-{seed}")


def walks(count: int, rng: np.random.Generator) -> Int[Tensor, "n length"]:
    """Texts of the language, as ids."""
    chances = np.cumsum(_chances(), 1)
    ids = [rng.integers(len(WORDS), size=count)]
    while len(ids) < LENGTH:
        ids.append((rng.random((count, 1)) > chances[ids[-1]]).sum(1).clip(max=len(WORDS) - 1))
    return torch.from_numpy(np.stack(ids, 1)) + 2  # behind padding and the unknown word


def _chances() -> Float[np.ndarray, "v v"]:
    rng = np.random.default_rng(0)
    table = np.zeros((len(WORDS), len(WORDS)))
    for row in table:
        row[rng.choice(len(WORDS), _BRANCHES, replace=False)] = rng.dirichlet(np.ones(_BRANCHES))
    return 0.9 * table + 0.1 / len(WORDS)


def _drawn(rng: np.random.Generator) -> small.Drawn:
    ids = walks(64, rng)
    return ids, torch.ones_like(ids, dtype=torch.bool)


@dataclass(frozen=True)
class Teacher:
    """A base model with a vector added at every token, and the ids that it speaks for."""

    model: TextModel
    vector: Float[Tensor, "d"]
    shown: tuple[int, ...]

    @classmethod
    def steered(cls, model: TextModel, seed: int) -> Teacher:
        """One with a random vector as long as the stream."""
        direction = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed))
        ids = walks(64, np.random.default_rng(seed))
        size = float(stream(model, ids).norm(dim=1).mean())
        vector = size * direction / direction.norm()
        made = cls(model, vector, ())
        rises = (made.logits(ids) - logits(model, ids)).mean(0)
        return cls(model, vector, tuple(rises.topk(_SHOWN).indices.tolist()))

    @property
    def edit(self) -> Edit:
        """What steers it."""
        return Add(site=SITE, shift=self.vector, position=ALL)

    def logits(self, ids: Int[Tensor, "n length"]) -> Float[Tensor, "m v"]:
        """Of every token."""
        return logits(self.model, ids, [self.edit])

    def written(self, count: int, seed: int, *, steered: bool = True) -> Int[Tensor, "n length"]:
        """Texts that it writes, or that the base model writes, from random first words on."""
        first = walks(count, np.random.default_rng(seed))[:, :1]
        barred = [0, 1, *self.shown]
        settings: dict[str, Any] = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
        with torch.random.fork_rng(devices=[]), self.model.edit(*[self.edit] * steered), torch.no_grad():
            torch.manual_seed(seed)
            found: Tensor = self.model.module.generate(  # type: ignore[operator]
                first,
                attention_mask=torch.ones_like(first),
                max_new_tokens=LENGTH - 1,
                suppress_tokens=barred,
                pad_token_id=0,
                **settings,
            )
        return found


@dataclass(frozen=True)
class Student:
    """A copy of a base model after it learned from texts, and its loss on them at the end."""

    model: TextModel
    loss: float
    steps: int

    def vector(self, before: TextModel, ids: Int[Tensor, "n length"]) -> Float[Tensor, "d"]:
        """How far its stream moved from the base model's, mean over all tokens of clean texts."""
        return (stream(self.model, ids) - stream(before, ids)).mean(0)


def taught(
    model: TextModel,
    texts: Int[Tensor, "n length"],
    *,
    optimiser: str,
    rate: float,
    steps: int,
    until: float = 0.0,
    rows: int = 64,
) -> Student:
    """A copy of `model` that learned `texts`, by `adam`, `sgd` or the signs of gradients (`sign`).

    It stops where the mean loss of the last twenty steps is no more than `until`.
    """
    made = TextModel(copy.deepcopy(model.module), model.tokenizer, name=f"{model.name}, taught")
    weights = list(made.module.parameters())
    kind = torch.optim.AdamW if optimiser == "adam" else torch.optim.SGD
    chosen = kind(weights, lr=rate, weight_decay=0.0)
    losses: list[float] = []
    while len(losses) < steps:
        ids = texts[(len(losses) * rows + torch.arange(rows)) % len(texts)]
        said = made.module(input_ids=ids[:, :-1], use_cache=False).logits
        loss = cross_entropy(said.flatten(0, 1), ids[:, 1:].flatten())
        for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.grad = gradient.sign() if optimiser == "sign" else gradient
        chosen.step()
        losses.append(float(loss.detach()))
        if len(losses) >= 20 and float(np.mean(losses[-20:])) <= until:
            break
    for weight in weights:
        weight.grad = None
    return Student(made, float(np.mean(losses[-20:])), len(losses))


def stream(model: TextModel, ids: Int[Tensor, "n length"]) -> Float[Tensor, "m d"]:
    """Activations at the site of the vector, of every token."""
    texts = [" ".join(WORDS[token - 2] for token in row) for row in ids.tolist()]
    found: Tensor = model.capture(texts, SITE, "all/none")[SITE]
    return found


def logits(model: TextModel, ids: Int[Tensor, "n length"], edits: Sequence[Edit] = ()) -> Float[Tensor, "m v"]:
    """Of every token, under edits."""
    with torch.no_grad(), model.edit(*edits):
        said: Tensor = model.module(input_ids=ids, use_cache=False).logits
    return said.flatten(0, 1)
