"""How far an edit moves what the model says on neutral text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.concepts.packaged import neutral_texts
from covec.edits.algebra import Add, Edit
from covec.edits.encoded import Encoded, encoded
from covec.edits.passes import passes
from covec.errors import ExamplesError
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

_STEPS = 8  # of the search for an amount
_TEXTS, _PROMPT = 24, 6  # neutral texts that drift is measured on, and tokens of each that are its prompt


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


class Drift:
    """Kullback-Leibler divergence a token, from the unedited model to edited ones, while neutral text is written.

    Unlike `Divergence` it takes any number of edits, at any sites and positions. The first tokens of each text are its
    prompt and the rest is read as if the edited model had written it, so that edits of `generated` tokens, of the
    prompt and of all can be compared: the divergence is a mean over what is predicted from the prompt's last token on.

    Parameters
    ----------
    texts
        Texts that lean nowhere; the first of those that come with covec unless given.
    batch_tokens
        Padded tokens a forward pass.
    """

    def __init__(
        self, model: TextModel, texts: Sequence[str] | None = None, *, batch_tokens: int = TOKEN_BUDGET
    ) -> None:
        if texts is not None and not len(texts):
            raise ExamplesError("there is no text to measure a drift on: give one at least")
        self.model, self._batch_tokens = model, batch_tokens
        self._head = Split(model, "embed")
        self._tokens = tuple(model.tokenize(neutral_texts()[:_TEXTS] if texts is None else texts, offsets=False))
        self.prompt = max(1, min(_PROMPT, min(len(item.ids) for item in self._tokens) // 2))
        self._plain = dict(self._read([()]))
        self.count = sum(len(hidden) for hidden in self._plain.values())

    def values(self, edits: Sequence[Any], *, force: bool = False) -> Float[np.ndarray, "k"]:
        """Nats a token under each of `k` edits or lists of them; infinite where the model's logits are no numbers."""
        total, current = np.zeros(len(edits)), -1
        for (text, place), hidden in self._read(edits, force=force):
            if text != current:  # the edits of one text come in turn
                current, before = text, self._likely(self._plain[text, 0])
            total[place] += float((before.exp() * (before - self._likely(hidden))).sum())
        return np.where(np.isnan(total), np.inf, np.maximum(0.0, total / self.count))

    def _likely(self, hidden: Float[Tensor, "tokens d"]) -> Float[Tensor, "tokens vocabulary"]:
        with torch.no_grad():
            return self._head.logits(hidden).float().log_softmax(1)

    def value(self, edits: Any, *, force: bool = False) -> float:
        """Nats a token under one edit, or all of a list at once."""
        return float(self.values([edits], force=force)[0])

    def _read(self, edits: Sequence[Any], *, force: bool = False) -> Iterator[tuple[tuple[int, int], Tensor]]:
        """For each text and edit, the last hidden states from the prompt's last token on [tokens, d]."""
        count = len(edits)
        rows, each = [item for item in self._tokens for _ in edits], [*edits] * len(self._tokens)
        for batch, hidden in passes(
            self.model, rows, each, prompt=self.prompt, force=force, batch_tokens=self._batch_tokens
        ):
            for row, states in zip(batch.rows, hidden, strict=True):
                yield divmod(row, count), states[self.prompt - 1 : len(rows[row].ids)]
