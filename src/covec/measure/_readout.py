"""The readout of an input: how much likelier words of positive continuations come next than words of negative ones.

Readout of x: mean log-probability, as the token after x, of the tokens of positive continuations minus that of the
negative ones. Everything below the site runs once; edits at the site, and gradients with respect to it, run only the
blocks above. Why the tokens are not scored one after another: docs/decisions/0002-readout.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.edits.encoded import encoded
from covec.errors import ExamplesError
from covec.models.batching import Batch
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized

LONGEST, END = 96, 8  # tokens of an input that are read at most, and how many of them from its end


@dataclass(frozen=True)
class Continuation:
    """A text that may follow an input, and whether it shows the concept."""

    text: str
    positive: bool
    source: object = None  # the input it was made from, which is never continued by itself


@dataclass(frozen=True)
class Linear:
    """The readout's first-order response to changes at the site: `gradients` and `activations` a token [tokens, d].

    `values` are the readouts themselves [inputs], nothing changed.
    """

    values: Float[np.ndarray, "inputs"]
    gradients: Float[Tensor, "tokens d"]
    activations: Float[Tensor, "tokens d"]
    inputs: np.ndarray  # the input of each token

    def add(self, shifts: Float[Tensor, "k d"]) -> Float[np.ndarray, "k inputs"]:
        """Change of every input's readout when each shift is added."""
        return self._by_input(self.gradients @ shifts.T)

    def ablate(self, directions: Float[Tensor, "k d"], targets: Float[Tensor, "k"]) -> Float[np.ndarray, "k inputs"]:
        """Change of every input's readout when the coordinate along each direction is set to its target."""
        return self._by_input((self.gradients @ directions.T) * (targets - self.activations @ directions.T))

    def _by_input(self, changes: Tensor) -> np.ndarray:
        total = torch.zeros(len(self.values), changes.shape[1], dtype=torch.float64)
        total.index_add_(0, torch.from_numpy(self.inputs), changes.double())
        return total.T.numpy()


class Readout:
    """Readouts of `inputs` in `model`, with changes at `site` on the tokens of `position`.

    Parameters
    ----------
    continuations
        Texts of both classes.
    after
        What stands between an input and its continuation, such as a line break.
    """

    def __init__(
        self,
        model: TextModel,
        site: str | Site,
        position: Position,
        inputs: Sequence[Input],
        continuations: Sequence[Continuation],
        *,
        after: str = "",
    ) -> None:
        if not len(inputs):
            raise ExamplesError("there is nothing to continue: give one input at least")
        self.split, self.count = Split(model, site), len(inputs)
        read = model.tokenize([given + after if isinstance(given, str) else given for given in inputs], reply=True)
        self._weights = _weights(model, inputs, continuations)
        self._batches = encoded(self.split, [_cut(item) for item in read], position)

    def values(self, edit: Edit | None = None) -> Float[np.ndarray, "inputs"]:
        """The readout of every input, under `edit` at the site."""
        found = np.zeros(self.count)
        with torch.no_grad():
            for one in self._batches:
                found[list(one.batch.rows)] = self._read(one.batch, one.decode(edit)).double().cpu()
        return found

    def linear(self) -> Linear:
        """The first-order response of every readout, from one backward pass through the upper blocks."""
        gradients, activations, inputs, values = [], [], [], np.zeros(self.count)
        for one in self._batches:
            leaves: list[Tensor] = []

            def leaf(h: Tensor, leaves: list[Tensor] = leaves) -> Tensor:
                leaves.append(h.detach().requires_grad_())
                return leaves[0]

            with torch.enable_grad():
                read = self._read(one.batch, self.split.decode(one.batch, one.hidden, leaf))
                (found,) = torch.autograd.grad(read.sum(), leaves)
            values[list(one.batch.rows)] = read.detach().double().cpu()
            gradients.append(found[one.chosen].float().cpu())
            activations.append(leaves[0].detach()[one.chosen].float().cpu())
            inputs.append(np.repeat(one.batch.rows, one.chosen.sum(1).cpu().numpy()))
        return Linear(values, torch.cat(gradients), torch.cat(activations), np.concatenate(inputs))

    def _read(self, batch: Batch, last: Tensor) -> Float[Tensor, "rows"]:
        ends = torch.tensor([layout.length - 1 for layout in batch.layouts], device=last.device)
        logits = self.split.logits(last[torch.arange(len(ends), device=last.device), ends]).float()
        weights = torch.stack([self._weights[row] for row in batch.rows]).to(logits)
        return (logits.log_softmax(1)[:, : weights.shape[1]] * weights).sum(1)


def _cut(item: Tokenized) -> Tokenized:
    """The input's first tokens and its end, where a line break or the header of a reply stands."""
    if len(item.ids) <= LONGEST:
        return item
    keep = [*range(LONGEST - END), *range(len(item.ids) - END, len(item.ids))]
    layout = replace(item.layout, special=item.layout.special[keep], prompt=LONGEST, last=LONGEST - 1)
    return replace(item, ids=tuple(item.ids[place] for place in keep), layout=layout)


def _weights(
    model: TextModel, inputs: Sequence[Input], continuations: Sequence[Continuation]
) -> list[Float[Tensor, "vocabulary"]]:
    """For each input, every next token's weight: its share of positive continuations minus that of negative ones."""
    written = [model.tokenizer(one.text, add_special_tokens=False, verbose=False)["input_ids"] for one in continuations]
    size = max(len(model.tokenizer), 1 + max((max(ids) for ids in written if ids), default=0))

    def share(positive: bool, left_out: object) -> Tensor:
        ids = [
            token
            for one, tokens in zip(continuations, written, strict=True)
            if one.positive is positive and (one.source is None or one.source != left_out)
            for token in tokens
        ]
        if not ids:
            raise ExamplesError("continuations of both labels are needed: give more, or more test rows")
        return torch.bincount(torch.tensor(ids), minlength=size).float() / len(ids)

    sources = [one.source for one in continuations if one.source is not None]
    usual = share(True, None) - share(False, None)
    return [share(True, own) - share(False, own) if own in sources else usual for own in inputs]
