"""The vocabulary as directions of the residual stream: which words a direction speaks for, and which direction a word.

A language model reads its last stream with the rows of the unembedding, behind a final norm whose weight is folded
into them here. Adding a constant to all logits changes no probability, so the rows are centred. Nearness is measured
where they are white, in the causal inner product of "The Linear Representation Hypothesis and the Geometry of Large
Language Models" (arXiv:2311.03658): else frequent words and broken ones are near to everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel

_ROWS = 8192  # of the unembedding at once: a copy of all in float32 may be larger than the model
_RANK = 1e-6  # of the largest variance: below it float32 tells nothing from rounding
_STARTS = ("Ġ", "▁")  # how tokenizers mark that a word starts here
_WORD = re.compile(r"[^\W\d_]{2,}")  # two letters or more, of any script


class Vocabulary:
    """The words of a text model, and the unembedding as directions that they speak for.

    Parameters
    ----------
    model
        A model that continues text.

    Raises
    ------
    ModelError
        It has no unembedding, or one that does not read the stream itself.
    """

    def __init__(self, model: TextModel) -> None:
        self.model = model
        self._weight = _unembedding(model)
        self._gain, self._centres = _final_norm(model)

    @cached_property
    def words(self) -> dict[str, tuple[int, ...]]:
        """Ids of the tokens of each word; variants in case and in the space before them are one word.

        A token that does not start a word is a fragment and left out, as are numbers, marks and special tokens.
        """
        tokenizer = self.model.tokenizer
        special, pieces = set(tokenizer.all_special_ids), tokenizer.get_vocab()
        marked = any(piece.startswith(_STARTS) for piece in pieces)
        found: dict[str, list[int]] = {}
        starts: set[str] = set()
        for piece, index in sorted(pieces.items(), key=lambda item: item[1]):
            text = tokenizer.decode([index]).strip()
            if index in special or index >= len(self._weight) or not _WORD.fullmatch(text) or piece.startswith("##"):
                continue
            found.setdefault(text.casefold(), []).append(index)
            if not marked or piece.startswith(_STARTS):
                starts.add(text.casefold())
        return {word: tuple(ids) for word, ids in found.items() if word in starts}

    def token(self, word: str) -> int:
        """The id of `word` in the middle of a text; a word of several tokens raises `ModelError`."""
        ids = ids_behind_space(self.model.tokenizer, word)
        if len(ids) != 1:
            pieces = ", ".join(repr(self.model.tokenizer.decode([index])) for index in ids) or "nothing"
            raise ModelError(f"{word!r} is {pieces} to {self.model.name}: give a word that is one token")
        return int(ids[0])

    def direction(self, ids: Sequence[int]) -> Float[Tensor, "d"]:
        """The direction along which the mean logit of the tokens `ids` rises fastest beside all others (float32)."""
        return self.read_by(self._weight[list(ids)]).mean(0) - self._mean

    def read_by(self, rows: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        """What rows of the unembedding read of the stream itself, up to the length that the norm divides by."""
        read = rows.float() * self._gain
        return read - read.mean(1, keepdim=True) if self._centres else read

    def logits(self, directions: Float[Tensor, "k d"]) -> Float[Tensor, "k v"]:
        """What each direction does to the logit of every token, their mean left out (float32)."""
        directions = directions.to(self._weight.device).float()
        found = torch.cat([directions @ rows.T for rows in self._rows()], 1)
        return found - found.mean(1, keepdim=True)

    def cosines(self, directions: Float[Tensor, "k d"]) -> Float[Tensor, "k v"]:
        """Cosine of each direction and every token's centred row, both whitened by the covariance of the rows."""
        whitened = directions.to(self._weight.device).float() @ self._whitening
        products = torch.cat([whitened @ self._whitened(rows).T for rows in self._rows()], 1)
        lengths = whitened.norm(dim=1, keepdim=True) * self._lengths
        return products / lengths.clamp_min(torch.finfo(torch.float32).tiny)

    def nearest(self, direction: Float[Tensor, "d"], count: int = 10) -> list[tuple[str, float]]:
        """The `count` words that a direction speaks for most, with their cosines; those against it are `-direction`'s.

        Raises
        ------
        ModelError
            The direction is zero, not finite, or not as wide as the stream.
        """
        direction = torch.as_tensor(direction).float()
        if direction.shape != (self.model.width,) or not torch.isfinite(direction).all() or not direction.any():
            raise ModelError(
                f"a direction of shape {list(direction.shape)} has no nearest words: give {self.model.width} finite "
                f"numbers that are not all zero, for {self.model.name}"
            )
        cosines = self.cosines(direction[None])[0].cpu()
        best = {word: float(cosines[list(ids)].max()) for word, ids in self.words.items()}
        return sorted(best.items(), key=lambda item: -item[1])[:count]

    @cached_property
    def _mean(self) -> Float[Tensor, "d"]:
        return torch.stack([rows.double().sum(0) for rows in self._rows()]).sum(0).div(len(self._weight)).float()

    @cached_property
    def _whitening(self) -> Float[Tensor, "d r"]:
        """The map under which the centred rows have the covariance 1, along the axes in which they vary (float32)."""
        products = torch.zeros(self.model.width, self.model.width, dtype=torch.float64, device=self._weight.device)
        for rows in self._rows():
            centred = rows - self._mean
            products += centred.T @ centred
        variances, axes = torch.linalg.eigh(products / len(self._weight))
        kept = variances > _RANK * variances[-1]
        return (axes[:, kept] / variances[kept].sqrt()).float()

    @cached_property
    def _lengths(self) -> Float[Tensor, "v"]:
        return torch.cat([self._whitened(rows).norm(dim=1) for rows in self._rows()])

    def _whitened(self, rows: Float[Tensor, "some d"]) -> Float[Tensor, "some r"]:
        return (rows - self._mean) @ self._whitening

    def _rows(self) -> Iterator[Float[Tensor, "some d"]]:
        """The unembedding behind the final norm in float32, some rows at a time."""
        return (self.read_by(self._weight[start : start + _ROWS]) for start in range(0, len(self._weight), _ROWS))


def ids_behind_space(tokenizer: Any, text: str) -> list[int]:
    """Ids of `text` where it goes on behind a space; none where it is blank.

    Tokenizers of SentencePiece put a space before every text themselves, so that the text with one would have two.
    """
    if not (text := text.strip()):
        return []
    before, whole, alone = (
        list(tokenizer(one, add_special_tokens=False, verbose=False)["input_ids"])
        for one in ("a", f"a {text}", f" {text}")
    )
    return whole[len(before) :] if whole[: len(before)] == before else alone


def _unembedding(model: TextModel) -> Float[Tensor, "v d"]:
    if not model.has_head:
        raise ModelError(f"{model.name} has no unembedding, so that no direction has words: load a language model")
    weight = model.module.get_output_embeddings().weight.detach()  # type: ignore[operator]
    if not model.generates or weight.ndim != 2 or weight.shape[1] != model.width or weight.is_meta:
        raise ModelError(f"the head of {model.name} does not read its stream as it is: no direction has words")
    return weight[: max(len(model.tokenizer), 1)]


def _final_norm(model: TextModel) -> tuple[Float[Tensor, "d"], bool]:
    """What the final norm multiplies each feature with, and whether it takes their mean away; found by trying it."""
    signs = torch.ones(model.width, dtype=torch.float32, device="cpu")
    signs[1::2] = -1  # of mean 0 and mean square 1: a norm divides by 1
    if (tap := model.anatomy.taps.get(Site("final"))) is None:
        return signs.abs(), False
    weight = next(tap.module.parameters(), signs)
    with torch.no_grad():
        up, down, lifted = (tap.module(x.to(weight)[None])[0].float() for x in (signs, -signs, signs + 1))
    return (up - down) / 2 * signs.to(up.device), bool((lifted - up).abs().max() < 1e-2 * up.abs().max())
