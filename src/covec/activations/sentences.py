"""Sentences as unit vectors, near to one another where they mean the same.

Any text model gives them: a model of sentences that was trained to, such as the embedded all-MiniLM-L6-v2, or the
hidden states of a language model at one site, which all lie in one narrow cone and have their mean taken away first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ExamplesError
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

LONGEST = 256  # tokens of a text that are read, as many as the embedded model of sentences was made for


class SentenceEncoder:
    """Texts as rows of unit length.

    Parameters
    ----------
    model
        The embedded model of sentences unless another is given. It is fetched once and needs no network ever after.
    site
        Where to read; the last block unless given.
    position
        What to read of every text; the mean of all its tokens unless given, as models of sentences are trained on.
    background
        Texts whose mean is taken from every row before it is brought to unit length: what all texts share.
    """

    def __init__(
        self,
        model: TextModel | None = None,
        site: str | Site | None = None,
        position: str | Position = "all/mean",
        *,
        background: Sequence[str] = (),
    ) -> None:
        self.model = sentence_model() if model is None else model
        (self.site,) = self.model.select(Site("resid", self.model.blocks - 1) if site is None else site)
        self.position = Position.parse(position)
        if not self.position.single:
            raise ExamplesError(f"a sentence is one row, and {self.position} gives several: pool them, as in all/mean")
        self.mean = self._rows(background).mean(0) if len(background) else None

    def __call__(self, texts: Sequence[str]) -> Float[Tensor, "n d"]:
        """A row a text, of unit length, in float32 on the CPU.

        Raises
        ------
        ExamplesError
            A text has no token, or is no text.
        """
        rows = self._rows(texts)
        return torch.nn.functional.normalize(rows if self.mean is None else rows - self.mean, dim=1)

    def _rows(self, texts: Sequence[str]) -> Float[Tensor, "n d"]:
        return self.model.capture(self._cut(texts), self.site, self.position)[self.site]

    def _cut(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts, those that are longer than what is read up to there; none has more tokens than bytes."""
        tokenizer = self.model.tokenizer
        room = min(LONGEST, self.model.context or LONGEST) - len(tokenizer("", verbose=False)["input_ids"])
        if isinstance(texts, str) or max((len(text.encode()) for text in texts), default=0) <= room:
            return texts
        ends = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        spans = ends["offset_mapping"]
        return [
            text if len(tokens) <= room else text[: tokens[room - 1][1]]
            for text, tokens in zip(texts, spans, strict=True)
        ]


@cache
def sentence_model() -> TextModel:
    """The embedded model of sentences, loaded once a process."""
    return load("all-minilm-l6-v2", dtype="float32")
