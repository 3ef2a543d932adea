"""Frames: words and concepts as matrices of the whitened unembedding, a column a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary, ids_behind_space

_ROUNDING = 1e-6  # of the largest eigenvalue or singular value
_ROWS = 8192  # of the unembedding at once


@dataclass(frozen=True)
class Frame:
    """A word (its tokens) or a concept (orthonormal, as far as its columns are used): columns [d, k]."""

    columns: Float[Tensor, "d k"]

    @property
    def used(self) -> int:
        """How many columns are not zero."""
        return int((self.columns.norm(dim=0) > _ROUNDING).sum())

    def __sub__(self, other: Frame) -> Frame:
        """The concept from `other` to this one: the frame nearest to their difference."""
        one, less = _padded([self.columns, other.columns])
        return nearest(one - less)

    def correlation(self, other: Frame) -> float:
        """The inner product of both, over the geometric mean of their used columns."""
        one, another = _padded([self.columns, other.columns])
        return float((one * another).sum()) / (self.used * other.used) ** 0.5

    def along(self, hidden: Float[Tensor, "*rows t d"]) -> Float[Tensor, "*rows t k"]:
        """What each column reads of last hidden states."""
        return hidden.float() @ self.columns.to(hidden.device)

    def projections(self, along: Float[Tensor, "*rows t k"]) -> Float[Tensor, "*rows t"]:
        """The correlation with every window of as many tokens as there are columns; behind the text there are none."""
        length, size = along.shape[-2:]
        shifted = [pad(along[..., place:, place], (0, min(place, length))) for place in range(size)]
        tokens = torch.arange(length, 0, -1, device=along.device).clamp(max=size)
        return torch.stack(shifted).sum(0) / (tokens * self.used) ** 0.5


class Frames:
    """Frames of the words of `model`.

    The rows of the unembedding are centred and whitened by their own covariance (the causal inner product of
    arXiv:2311.03658): symmetrically, so that they stay directions of what the head reads.

    Parameters
    ----------
    whiten
        Without, the rows are centred alone.

    Raises
    ------
    ModelError
        The model has no unembedding, or one that does not read the stream itself.
    """

    def __init__(self, model: TextModel, whiten: bool = True) -> None:
        Vocabulary(model)
        self.model = model
        self._rows = model.module.get_output_embeddings().weight.detach()[: len(model.tokenizer)]  # type: ignore[operator]
        self._mean = torch.stack([rows.sum(0) for rows in self._some()]).sum(0) / len(self._rows)
        centred = (rows - self._mean for rows in self._some())
        covariance = torch.stack([rows.T @ rows for rows in centred]).sum(0) / len(self._rows)
        variances, axes = torch.linalg.eigh(covariance)
        kept = variances > _ROUNDING * variances[-1]
        self._sizes, self._axes = variances[kept].sqrt() if whiten else torch.ones_like(variances[kept]), axes[:, kept]

    def tokens(self, word: str) -> list[int]:
        """The ids of `word` behind a space; a word without any is refused."""
        if not (ids := ids_behind_space(self.model.tokenizer, word)):
            raise ExamplesError(f"{word!r} is no token to {self.model.name}: give a word")
        return ids

    def word(self, word: str) -> Frame:
        """The whitened rows of its tokens."""
        return Frame(self.whitened(self._rows[self.tokens(word)].double()).T)

    def concept(self, words: Sequence[str]) -> Frame:
        """The frame nearest to the sum of the words' frames (Procrustes); there must be a word."""
        if not words:
            raise ExamplesError("a concept needs a word at least: give the words that express it")
        return nearest(torch.stack(_padded([self.word(word).columns for word in words])).sum(0))

    def whitened(self, rows: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Rows of the unembedding, centred and whitened (float32)."""
        return ((rows - self._mean) @ self._whitening).float().cpu()

    def dual(self, direction: Float[Tensor, "d"]) -> Float[Tensor, "d"]:
        """What reads activations as `direction` reads them where these are whitened the other way."""
        wide = direction.to(self._axes)
        return (self._axes * self._sizes @ (self._axes.T @ wide)).float().cpu()

    @cached_property
    def _whitening(self) -> Float[Tensor, "d d"]:
        return self._axes / self._sizes @ self._axes.T

    def _some(self) -> Iterator[Float[Tensor, "some d"]]:
        return (rows.double() for rows in self._rows.split(_ROWS))


def nearest(columns: Float[Tensor, "d k"]) -> Frame:
    """The frame nearest to `columns`; where these are of less rank, nothing is made up for the rest.

    The singular vectors of zeros are arbitrary: the reference code takes them in.
    """
    left, sizes, right = torch.linalg.svd(columns, full_matrices=False)
    kept = sizes > _ROUNDING * sizes[0].clamp_min(torch.finfo(torch.float32).tiny)
    return Frame(left[:, kept] @ right[kept])


def _padded(frames: Sequence[Float[Tensor, "d k"]]) -> list[Float[Tensor, "d k"]]:
    longest = max(columns.shape[1] for columns in frames)
    return [pad(columns, (0, longest - columns.shape[1])) for columns in frames]
