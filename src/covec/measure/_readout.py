"""The readout of an input: how much likelier the model goes on with positive than with negative continuations.

Readout of x: mean log-probability a token, given x, of positive continuations minus that of negative ones. Everything
below the site runs once; edits at the site, and gradients with respect to it, run only the blocks above.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.positions import Layout, Position, mask
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized


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
        Each input is continued by `each` positive and `each` negative ones.
    turns
        Where in the rotation of continuations each input begins; inputs to be compared should have the same turns, so
        that what a continuation does by itself cancels. In order where None.
    longest
        Tokens after which an input, and a continuation, are cut.
    """

    def __init__(
        self,
        model: TextModel,
        site: object,
        position: Position,
        inputs: Sequence[Input],
        continuations: Sequence[Continuation],
        *,
        each: int = 1,
        turns: Sequence[int] | None = None,
        longest: tuple[int, int] = (48, 16),
    ) -> None:
        self.split = Split(model, site)  # type: ignore[arg-type]
        self.position, self.count = position, len(inputs)
        self._sequences = list(
            _continued(model, inputs, continuations, each, range(self.count) if turns is None else turns, longest)
        )
        tokens = [sequence.tokens for sequence in self._sequences]
        self._batches: list[tuple[Batch, Tensor | None, Tensor]] = []
        for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET):
            batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
            chosen = np.zeros(batch.ids.shape, dtype=bool)
            for place, layout in enumerate(batch.layouts):
                chosen[place, : layout.length] = mask(position, layout)
            keep = torch.from_numpy(chosen).to(model.device)
            self._batches.append((batch, self.split.encode(batch), keep))

    @property
    def tokens(self) -> int:
        """Tokens of one evaluation."""
        return sum(len(sequence.tokens.ids) for sequence in self._sequences)

    def values(self, edit: Edit | None = None) -> Float[np.ndarray, "inputs"]:
        """The readout of every input, under `edit` at the site."""
        total = np.zeros(self.count)
        with torch.no_grad():
            for batch, hidden, keep in self._batches:
                parts = self._likelihoods(batch, self._decoded(batch, hidden, keep, edit))
                np.add.at(total, self._inputs(batch), parts.double().cpu().numpy())
        return total

    def linear(self) -> Linear:
        """The first-order response of every readout, from one backward pass through the upper blocks."""
        gradients, activations, inputs, values = [], [], [], np.zeros(self.count)
        for batch, hidden, keep in self._batches:
            leaves: list[Tensor] = []

            def leaf(h: Tensor, leaves: list[Tensor] = leaves) -> Tensor:
                leaves.append(h.detach().requires_grad_())
                return leaves[0]

            with torch.enable_grad():
                parts = self._likelihoods(batch, self.split.decode(batch, hidden, leaf))
                (found,) = torch.autograd.grad(parts.sum(), leaves)
            np.add.at(values, self._inputs(batch), parts.detach().double().cpu().numpy())
            gradients.append(found[keep].float().cpu())
            activations.append(leaves[0].detach()[keep].float().cpu())
            inputs.append(np.repeat(self._inputs(batch), keep.sum(1).cpu().numpy()))
        return Linear(values, torch.cat(gradients), torch.cat(activations), np.concatenate(inputs))

    def _decoded(self, batch: Batch, hidden: Tensor | None, keep: Tensor, edit: Edit | None) -> Tensor:
        if edit is None:
            return self.split.decode(batch, hidden)
        return self.split.decode(batch, hidden, lambda h: edited(edit, h, keep))

    def _inputs(self, batch: Batch) -> np.ndarray:
        return np.array([self._sequences[row].input for row in batch.rows])

    def _likelihoods(self, batch: Batch, last: Tensor) -> Float[Tensor, "rows"]:
        """Each row's signed part of its input's readout."""
        rows, columns, weights = [], [], []
        for place, row in enumerate(batch.rows):
            sequence = self._sequences[row]
            written = range(sequence.start, len(sequence.tokens.ids))
            rows += [place] * len(written)
            columns += list(written)
            weights += [sequence.weight / len(written)] * len(written)
        where, when = torch.tensor(rows, device=last.device), torch.tensor(columns, device=last.device)
        logits = self.split.logits(last[where, when - 1]).float()
        chosen = logits.gather(1, batch.ids[where, when][:, None])[:, 0] - logits.logsumexp(1)
        parts = torch.zeros(len(batch.rows), device=last.device)
        return parts.index_add(0, where, chosen * torch.tensor(weights, device=last.device))


def edited(edit: Edit, h: Tensor, keep: Tensor) -> Tensor:
    """`h` [rows, tokens, d] with `edit` applied where `keep` [rows, tokens] says."""
    changed = edit.prepare(h.device, h.dtype).apply(h, None)  # type: ignore[arg-type]
    return torch.where(keep[..., None], changed, h)


@dataclass(frozen=True)
class _Sequence:
    tokens: Tokenized
    start: int  # first token of the continuation
    input: int
    weight: float


def _continued(
    model: TextModel,
    inputs: Sequence[Input],
    continuations: Sequence[Continuation],
    each: int,
    turns: Sequence[int],
    longest: tuple[int, int],
) -> Iterator[_Sequence]:
    read = model.tokenize(inputs, reply=True)
    written = [
        tuple(model.tokenizer(item.text, add_special_tokens=False)["input_ids"])[: longest[1]] for item in continuations
    ]
    for index, item in enumerate(read):
        for sign in (True, False):
            places = [place for place, one in enumerate(continuations) if one.positive is sign and written[place]]
            rotated = [places[(turns[index] * each + turn) % len(places)] for turn in range(len(places))]
            chosen = [place for place in rotated if continuations[place].source != inputs[index]][:each]
            for place in chosen:
                yield _joined(item, written[place], index, (1 if sign else -1) / len(chosen), longest[0])


def _joined(item: Tokenized, written: tuple[int, ...], index: int, weight: float, longest: int) -> _Sequence:
    ids = item.ids[:longest]
    special = np.concatenate([item.layout.special[: len(ids)], np.zeros(len(written), dtype=bool)])
    layout = Layout(special, len(ids), len(ids) - 1)
    return _Sequence(Tokenized((*ids, *written), (), layout, item.text), len(ids), index, weight)
