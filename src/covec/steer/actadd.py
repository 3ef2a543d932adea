"""ActAdd: the difference between two prompts, token by token, added to the first tokens of any text.

Turner et al., "Activation Addition: Steering Language Models Without Optimization", arXiv:2308.10248.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.capture import capture_tokens
from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector, Part
from covec.edits.algebra import Add, Edit
from covec.errors import CovecError, ExamplesError
from covec.models.positions import Layout, Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

ALL = Position("all")


@method(
    "actadd",
    verb="steer",
    needs="model",
    card="actadd",
    cannot={
        "strength moves what is written": "one pair of texts is all it knows, and their other words move what is said",
        "what no layer reads moves little": "the same: what the other words move, these layers read",
    },
)
class ActAdd(Steering):
    """One pair of prompts gives a vector a token; they are added at one block, at the front of a text, once.

    With h+ and h- the stream before block l for both prompts, the shorter padded with spaces, h+ - h- [k, d] is added
    to the tokens `start` to `start + k - 1` of the text. Later tokens see it through attention alone. `vectors` are a
    bank with one for each of these tokens; where both prompts are the same so far there is none.

    The prompts are read behind the token with which the model's texts begin, as in the paper, also where the tokenizer
    puts none: a text's first token is an attention sink, and nothing is ever added there.

    Parameters
    ----------
    pair
        The prompt with the concept and the one without, such as `(" weddings", " ")`; the first positive and the first
        negative of the examples (those of the first pair, where they are pairs) unless given.
    block
        The block before which the difference is read and added; a third of the depth unless given, and 1 at least.
    start
        The first token that is changed, 1 or later.
    """

    def __init__(self, pair: tuple[str, str] | None = None, block: int | None = None, start: int = 1) -> None:
        self.pair, self.block, self.start = pair, block, start

    def fit(self, model: TextModel, examples: Examples | None = None, *, progress: Progress = silent) -> Self:
        if self.start < 1:
            raise CovecError(f"a text's first token takes no addition: let it start at 1 or later, not {self.start}")
        texts, chosen = self._prompts(examples)
        block = max(1, model.blocks // 3) if self.block is None else self.block
        if not 1 <= block < model.blocks:
            raise CovecError(f"{model.name} has blocks 1 to {model.blocks - 1} to add before, not {block}")
        site = Site("resid", block - 1)  # what block `block` is given
        found = capture_tokens(model, _padded(model, texts), [site], [ALL], progress=progress)[ALL]
        difference = (found.of(0, site) - found.of(1, site))[1:]
        common = provenance(model, chosen, self.entry)
        vectors = [
            _vector(f"{chosen.name}/{at}", site, row, self.start + at, common)
            for at, row in enumerate(difference)
            if row.any()
        ]
        if not vectors:
            raise CovecError(f"both prompts are the same to {model.name}: give two that differ")
        self.vectors = Bank(vectors)
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        vectors = self._fitted().values() if self._fitted() and strength else ()
        return tuple(edit for vector in vectors for edit in vector.add(strength) if isinstance(edit, Add))

    def _prompts(self, examples: Examples | None) -> tuple[tuple[str, str], Examples]:
        """Both prompts, and the examples that they are."""
        if self.pair is not None:
            if len(self.pair) != 2 or not all(isinstance(text, str) and text for text in self.pair):
                raise CovecError(f"actadd takes two prompts, one with the concept and one without, not {self.pair!r}")
            name = examples.name if examples is not None else self.pair[0].strip() or "actadd"
            return self.pair, Examples(self.pair, np.array([True, False]), name=name)  # unchecked: one may be blank
        if examples is None or examples.labels.all() or not examples.labels.any():
            raise ExamplesError("actadd needs a prompt with the concept and one without: give pair=(with, without)")
        first, other = int(np.flatnonzero(examples.labels)[0]), int(np.flatnonzero(~examples.labels)[0])
        if examples.pairs is not None:
            mates = [row for row in np.flatnonzero(~examples.labels) if examples.pairs[row] == examples.pairs[first]]
            other = int(mates[0]) if mates else other
        if not all(isinstance(examples.inputs[row], str) for row in (first, other)):
            raise ExamplesError("actadd reads plain texts, not chats: give pair=(with, without)")
        return (str(examples.inputs[first]), str(examples.inputs[other])), examples


def _vector(name: str, site: Site, row: Float[Tensor, "d"], index: int, common: dict[str, Any]) -> ConceptVector:
    length = row.norm()
    part = Part(row[None] / length, row[None], torch.zeros(1), length[None])
    where = Position(str(index))
    return ConceptVector(name, {site: part}, write_position=where, read_position=ALL, scale_from="native", **common)


def _padded(model: TextModel, texts: Sequence[str]) -> list[Tokenized]:
    """The prompts behind the token that begins a text, the shorter one filled up with spaces."""
    tokenizer = model.tokenizer
    begin = next((one for one in (tokenizer.bos_token_id, tokenizer.eos_token_id) if one is not None), model.pad_id)
    each = [[one for one in tokenizer(text, add_special_tokens=False)["input_ids"] if one != begin] for text in texts]
    space = tokenizer(" ", add_special_tokens=False)["input_ids"] or [model.pad_id]
    longest = max(map(len, each))
    rows = [(begin, *ids, *(space * longest)[: longest - len(ids)]) for ids in each]
    layout = Layout(np.zeros(longest + 1, dtype=bool), longest + 1, longest)
    return [Tokenized(row, (), layout, text) for row, text in zip(rows, texts, strict=True)]
