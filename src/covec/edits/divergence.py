"""How far an edit moves what the model says on neutral text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.edits.encoded import Encoded, encoded
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel


class Divergence:
    """Kullback-Leibler divergence a token, from the unedited model to the edited one, over `texts`.

    `count` is the number of tokens it is a mean of: those the edit may touch.
    """

    def __init__(self, model: TextModel, site: str | Site, texts: Sequence[str]) -> None:
        self._split = Split(model, site)
        self._batches = encoded(self._split, model.tokenize(texts), Position("content"))
        self._before = [self._likely(one, None) for one in self._batches]
        self.count = sum(map(len, self._before))

    def value(self, edit: Edit) -> float:
        """Nats a token."""
        total = 0.0
        for one, before in zip(self._batches, self._before, strict=True):
            total += float((before.exp() * (before - self._likely(one, edit))).sum())
        return max(0.0, total / self.count)

    def _likely(self, one: Encoded, edit: Edit | None) -> Float[Tensor, "chosen vocabulary"]:
        """Log-probabilities of what comes after each chosen token."""
        with torch.no_grad():
            return self._split.logits(one.decode(edit)[one.chosen]).float().log_softmax(1)
