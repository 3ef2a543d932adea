"""Bag of Dims: a concept as a set of dimensions of the raw activations whose signs its examples share.

"Bag of Dims: Training-Free Mechanistic Interpretability via Dimension-Level Sign Patterns", arXiv:2606.12629. Only its
abstract and summaries were at hand: the number of dimensions and the form of the push are covec's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.capture import capture_tokens
from covec.edits.algebra import Edit
from covec.errors import ExamplesError, ModelError
from covec.models.plan import Pass
from covec.models.positions import Layout, Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.models.vocabulary import Vocabulary
from covec.registry import method


@method("bag-of-dims", verb="detect", card="bag-of-dims")
class BagOfDims:
    """Counts the dimensions whose sign is the one that a concept's examples share, and the background does not.

    Parameters
    ----------
    dims
        How many dimensions are read: those where the mean signs of examples and background differ most.

    Attributes
    ----------
    pattern_
        The sign of each dimension that is read, 0 for all others [d].
    """

    pattern_: Float[Tensor, "d"]

    def __init__(self, dims: int = 150) -> None:
        self.dims = dims

    def fit(self, examples: Float[Tensor, "n d"], background: Float[Tensor, "m d"]) -> Self:
        """Choose dimensions and signs; nothing is trained.

        Raises
        ------
        ExamplesError
            There are no examples or no background, they are of different width, or narrower than `dims`.
        """
        if not len(examples) or not len(background) or examples.shape[1] != background.shape[1]:
            shapes = f"{list(examples.shape)} and {list(background.shape)}"
            raise ExamplesError(f"examples and background have the shapes {shapes}: give rows of one site for both")
        if not 1 <= self.dims <= examples.shape[1]:
            raise ExamplesError(f"{self.dims} dimensions cannot be chosen of {examples.shape[1]}: give fewer, or one")
        gap = examples.sign().float().mean(0) - background.sign().float().mean(0)
        chosen = gap.abs().argsort(descending=True, stable=True)[: self.dims]
        # The sign of the gap and not of the mean: a dimension on which the background agrees even more says no.
        self.pattern_ = torch.zeros_like(gap).scatter(0, chosen, gap[chosen].sign())
        return self

    def score(self, X: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows"]:
        """The share of the chosen dimensions whose sign agrees, from 0 to 1."""
        return ((X.sign() * self.pattern_) > 0).float().sum(-1) / self.dims

    def flip(self, site: str | Site) -> FlipSigns:
        """The edit that makes all chosen dimensions disagree."""
        return FlipSigns(site=Site.parse(site), pattern=self.pattern_)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FlipSigns(Edit):
    """h_j <- -|h_j| p_j, where the pattern p is not 0.

    With `like` the change has at every token the length that the other flip's would have: a control of equal size.
    """

    pattern: Float[Tensor, "d"]
    like: FlipSigns | None = None

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        change = self._change(h)
        if self.like is not None:
            wanted, own = (one.float().norm(dim=-1, keepdim=True) for one in (self.like._change(h), change))
            change = (change * (wanted / own.clamp_min(1e-12))).to(h.dtype)
        return h + change

    def prepare(self, device: torch.device, dtype: torch.dtype) -> Self:
        like = None if self.like is None else self.like.prepare(device, dtype)
        return replace(self, pattern=self.pattern.to(device, dtype), like=like)

    def _change(self, h: Tensor) -> Tensor:
        pattern = self.pattern.to(h.dtype)
        return torch.where(pattern != 0, -h.abs() * pattern - h, 0.0)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PushSigns(Edit):
    """h + gain x rms(h) x signs: towards a sign pattern, in units of the activation's own size."""

    signs: Float[Tensor, "d"]
    gain: float

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        size = h.float().square().mean(-1, keepdim=True).sqrt()
        return (h.float() + self.gain * size * self.signs).to(h.dtype)


def writer(model: TextModel, words: Sequence[str]) -> Float[Tensor, "d"]:
    """The signs of the sum of the words' rows of the unembedding: the pattern that writes them, -1 or 1.

    Raises
    ------
    ModelError
        A word is not one token, or the model has no unembedding.
    """
    vocabulary = Vocabulary(model)
    found = vocabulary.direction([vocabulary.token(word) for word in words])
    return torch.where(found < 0, -1.0, 1.0)


def word_states(
    model: TextModel, words: Sequence[str], sites: str | Site | Sequence[str | Site]
) -> dict[Site, Float[Tensor, "n d"]]:
    """What the model shows for each word alone, after its first special token where it has one.

    Raises
    ------
    ModelError
        A word is not one token.
    """
    vocabulary = Vocabulary(model)
    return token_states(model, [vocabulary.token(word) for word in words], sites)


def token_states(
    model: TextModel, ids: Sequence[int], sites: str | Site | Sequence[str | Site]
) -> dict[Site, Float[Tensor, "n d"]]:
    """As `word_states`, of tokens by their ids."""
    if not len(ids):
        raise ModelError("there is no token to read: give one at least")
    tokenizer = model.tokenizer
    # Alone it would be a sink of attention, whose activation says nothing of it.
    first = next((one for one in (tokenizer.bos_token_id, tokenizer.eos_token_id) if one is not None), None)
    before = () if first is None else (first,)
    special = np.array([True] * len(before) + [False])
    layout = Layout(special, len(special), len(special) - 1)
    tokens = [Tokenized((*before, int(one)), ((0, 0),) * len(special), layout, "") for one in ids]
    last = Position("last")
    return capture_tokens(model, tokens, sites, [last])[last].rows
