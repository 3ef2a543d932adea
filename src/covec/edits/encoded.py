"""Batches whose lower blocks have run: edits at a site, and gradients with respect to it, run only the blocks above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.errors import ModelError
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.plan import Pass, Plan
from covec.models.positions import Position, mask
from covec.models.tokens import Tokenized


@dataclass(frozen=True)
class Encoded:
    """A batch, the stream that its lower blocks gave (None where the whole body runs), and the tokens to change."""

    split: Split
    batch: Batch
    hidden: Float[Tensor, "rows tokens d"] | None
    chosen: Bool[Tensor, "rows tokens"]

    def decode(self, edit: Edit | None = None) -> Float[Tensor, "rows tokens d"]:
        """The body's last hidden states, with `edit` at the site on the chosen tokens."""
        visit = None if edit is None else lambda h: self.edited(edit, h)
        return self.split.decode(self.batch, self.hidden, visit)

    def edited(self, edit: Edit, h: Float[Tensor, "rows tokens d"]) -> Float[Tensor, "rows tokens d"]:
        """Activations at the site, with `edit` on the chosen tokens; one behind a gate or a schedule is refused."""
        if edit.gate is not None or edit.schedule is not None:
            raise ModelError(
                f"the edit at {edit.site} acts behind a gate or a schedule, which this measure does not follow: give "
                "it without, or measure within model.edit(...)"
            )
        changed = edit.prepare(h.device, h.dtype).apply(h, Pass(Plan(()), h.shape[0], 0, h.shape[1], h.device))
        return torch.where(self.chosen[..., None], changed, h)


def encoded(split: Split, tokens: Sequence[Tokenized], position: Position) -> list[Encoded]:
    """The inputs in batches, each with the tokens of `position` to change."""
    model, batches = split.model, []
    for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
        batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
        batches.append(Encoded(split, batch, split.encode(batch), _selected(batch, position)))
    return batches


def _selected(batch: Batch, position: Position) -> Bool[Tensor, "rows tokens"]:
    """The tokens of a batch that `position` selects."""
    chosen = np.zeros(batch.ids.shape, dtype=bool)
    for place, layout in enumerate(batch.layouts):
        chosen[place, : layout.length] = mask(position, layout)
    return torch.from_numpy(chosen).to(batch.ids.device)
