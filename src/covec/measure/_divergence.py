"""How far an edit moves what the model says on neutral text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.measure._readout import edited, selected
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.positions import Position
from covec.models.text import TextModel


class Divergence:
    """Kullback-Leibler divergence a token, from the unedited model to the edited one, over `texts`.

    `count` is the number of tokens it is a mean of: those the edit may touch.
    """

    def __init__(self, model: TextModel, site: object, texts: Sequence[str]) -> None:
        self._split = Split(model, site)  # type: ignore[arg-type]
        tokens = model.tokenize(texts)
        position = Position("content")
        self._batches: list[tuple[Batch, Tensor | None, Tensor, Tensor]] = []
        for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
            batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
            keep = selected(batch, position)
            hidden = self._split.encode(batch)
            with torch.no_grad():
                before = self._split.logits(self._split.decode(batch, hidden)[keep]).float().log_softmax(1)
            self._batches.append((batch, hidden, keep, before))
        self.count = sum(len(before) for *_, before in self._batches)

    def value(self, edit: Edit) -> float:
        """Nats a token."""
        total = 0.0
        with torch.no_grad():
            for batch, hidden, keep, before in self._batches:
                last = self._split.decode(batch, hidden, lambda h, keep=keep: edited(edit, h, keep))  # type: ignore[misc]
                after = self._split.logits(last[keep]).float().log_softmax(1)
                total += float((before.exp() * (before - after)).sum())
        return max(0.0, total / self.count)
