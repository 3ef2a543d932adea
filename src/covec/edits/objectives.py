"""What edits are trained for: the next token, a teacher, a reward, or velocities.

The blocks below the lowest edit run once a text; every step runs those above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from covec.activations.answers import Answered
from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.edits.scope import check, flatten, hooks
from covec.edits.trainable import TrainableEdit
from covec.errors import ExamplesError, ModelError
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.sites import Site
from covec.models.text import TextModel


@dataclass(frozen=True)
class Said:
    """What a model says under edits: logits of the tokens that are to come, which those are, and of which row each."""

    batch: Batch
    logits: Float[Tensor, "m v"]
    wanted: Int[Tensor, "m"]
    row: Int[Tensor, "m"]

    @property
    def losses(self) -> Float[Tensor, "m"]:
        """Nats of each."""
        return cross_entropy(self.logits, self.wanted, reduction="none")


class Reading:
    """Answers read again and again, under edits that change from step to step.

    Parameters
    ----------
    answered
        Prompts with their answers.
    own
        Further edits of every row, which act before those in training.
    """

    def __init__(self, answered: Answered, own: Sequence[Any] | None = None) -> None:
        if own is not None and len(own) != len(answered):
            raise ExamplesError(f"{len(own)} lists of edits for {len(answered)} prompts: give one list each")
        self.answered, self.model = answered, answered.model
        self.own = [flatten([row]) for row in own] if own is not None else [()] * len(answered)
        self._split: Split | None = None
        self._below: dict[int, Tensor] = {}

    def read(self, edits: Sequence[Any], rows: Sequence[int]) -> Said:
        """What the model says of the answers of `rows`."""
        given = flatten(edits)
        split = self._prepared(given)
        each = [(*self.own[row], *given) for row in rows]
        batch = pad(self.answered.tokens, rows, pad_id=self.model.pad_id, masked=False, device=self.model.device)
        with hooks(self.model, flatten(each)):
            last = split.decode(batch, self._stream(rows, batch), edits=each)
        places = [(place, layout.last, layout.length) for place, layout in enumerate(batch.layouts)]
        logits = split.logits(torch.cat([last[place, first:end] for place, first, end in places])).float()
        wanted = torch.tensor([token for row in rows for token in self.answered.answers[row]], device=logits.device)
        row = torch.tensor([place for place, first, end in places for _ in range(first, end)], device=logits.device)
        return Said(batch, logits, wanted, row)

    def _prepared(self, edits: tuple[Edit, ...]) -> Split:
        """The model, split below the lowest edit; the first time, all that is below runs."""
        if self._split is None:
            model = self.model
            if not model.generates:
                raise ModelError(f"{model.name} does not continue texts, and edits are trained by what it says next")
            model.check_settled()
            every = (*edits, *flatten(self.own))
            check(model, every)
            top = min((_block(model, site) for edit in every for site in _sites(edit)), default=0) - 1
            self._split = Split(model, Site("resid", top) if top >= 0 else "embed")
            tokens = self.answered.tokens
            for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
                batch = pad(tokens, rows, pad_id=model.pad_id, masked=False, device=model.device)
                if (hidden := self._split.encode(batch)) is not None:
                    self._below |= {row: hidden[place, : len(tokens[row].ids)] for place, row in enumerate(rows)}
        return self._split

    def _stream(self, rows: Sequence[int], batch: Batch) -> Float[Tensor, "rows tokens d"] | None:
        if not self._below:
            return None
        kept = [self._below[row] for row in rows]
        whole = kept[0].new_zeros(*batch.ids.shape, kept[0].shape[-1])
        for place, one in enumerate(kept):
            whole[place, : len(one)] = one
        return whole


def _sites(edit: Edit) -> tuple[Site, ...]:
    return (edit.site,) if edit.gate is None else (edit.site, edit.gate.site)


def _block(model: TextModel, site: Site) -> int:
    """The first block of which a site's module is a part; 0 where it is a part of none."""
    module = model.anatomy.tap(site).module
    return next((place for place, block in enumerate(model.anatomy.blocks) if module in set(block.modules())), 0)


class _Rows:
    """Which rows a step takes: all in a random order, and again in another."""

    def __init__(self, count: int, at_once: int | None, seed: int) -> None:
        if not count:
            raise ExamplesError("there is nothing to train on: give one row at least")
        self.count, self.seed = count, seed
        self.at_once = count if at_once is None else min(at_once, count)

    def of(self, step: int) -> list[int]:
        per_round = self.count // self.at_once
        order = np.random.default_rng([self.seed, step // per_round]).permutation(self.count)
        first = step % per_round * self.at_once
        return [int(row) for row in order[first : first + self.at_once]]


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class NextToken:
    """Mean nats a token of the answers.

    Parameters
    ----------
    answered
        Prompts with their answers, or whole texts (`Answered.whole`).
    own
        Further edits of every row, such as a vector that is put there.
    rows
        How many a step takes; all of them where None.
    """

    def __init__(
        self, answered: Answered, *, own: Sequence[Any] | None = None, rows: int | None = 8, seed: int = 0
    ) -> None:
        self.reading, self.rows = Reading(answered, own), _Rows(len(answered), rows, seed)
        self.digest = _digest("next token", answered.tokens, answered.answers, self.reading.own, rows, seed)

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> Tensor:
        said = self.reading.read(edits, self.rows.of(step))
        return said.losses.mean() + sum(edit.loss(said.batch, said.logits) for edit in edits)
