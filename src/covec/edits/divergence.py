"""How far an edit moves what the model says on neutral text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Add, Edit
from covec.edits.encoded import Encoded, encoded
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

_STEPS = 8  # of the search for an amount


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

    def amount(self, direction: Float[Tensor, "d"], nats: float, *, most: float) -> float:
        """How far along a unit `direction` moves what the model says by `nats` a token, to a tenth of them.

        The mean of both ways; never further than `most`, where a direction moves less. For small shifts the divergence
        grows with the square of the shift, and every step follows that rule.
        """
        amount = most / 8
        for _ in range(_STEPS):
            shift = amount * direction
            found = sum(self.value(Add(site=self._split.site, shift=sign * shift)) for sign in (1, -1)) / 2
            if abs(found - nats) <= nats / 10 or (amount == most and found < nats):
                break
            amount = min(most, amount * float(np.clip(np.sqrt(nats / max(found, 1e-12)), 0.25, 4.0)))
        return amount

    def _likely(self, one: Encoded, edit: Edit | None) -> Float[Tensor, "chosen vocabulary"]:
        """Log-probabilities of what comes after each chosen token."""
        with torch.no_grad():
            return self._split.logits(one.decode(edit)[one.chosen]).float().log_softmax(1)
