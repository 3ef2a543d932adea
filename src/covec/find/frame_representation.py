"""Frame representation: words of several tokens as frames of the unembedding, and concepts as what their words share.

"Frame Representation Hypothesis: Multi-Token LLM Interpretability and Concept-Guided Text Generation",
arXiv:2412.07334. `Frames` makes frames of words, and `guided` lets a concept's frame guide what a model writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.examples import Examples
from covec.errors import ExamplesError, ModelError
from covec.find._finder import Finder
from covec.find._frames import Frame as Frame
from covec.find._frames import Frames as Frames
from covec.find._guided import guided as guided
from covec.find._rows import Labels
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.registry import method


@method(
    "frame-representation",
    verb="find",
    needs="model",
    card="frame-representation",
    requires=("observable",),
    cannot={
        "what later layers read is found": "it is read off the unembedding: what layers before it do is not followed",
    },
)
class FrameRepresentation(Finder):
    """The frame of the positives' words less that of the negatives', by the column that reads a single token.

    Each row names a word in its `observable`, of one token or of several; different words count once. At `final` the
    column reads what the head reads, and in the stream before the final norm what that norm lets through.

    Parameters
    ----------
    dual
        Read activations as dual to the whitened words, as the theory asks; as published they are not.
    """

    closed_form = True

    def __init__(self, dual: bool = False) -> None:
        self.dual = dual

    @classmethod
    def check(cls, model: TextModel, examples: Examples) -> None:
        Vocabulary(model)
        _sides(examples.column("observable") or (), examples.labels.tolist())

    def read_model(self, model: TextModel, sites: tuple[Site, ...], labels: Labels, width: int) -> Float[Tensor, "s d"]:
        if width != model.width:
            raise ModelError(
                f"words are directions of the stream, and {sites[0]} is no part of it: name resid or final"
            )
        frames = Frames(model)
        having, lacking = (
            frames.concept(words) for words in _sides(labels.columns["observable"], labels.positive.tolist())
        )
        column = (having - lacking).columns[:, 0]
        read = frames.dual(column) if self.dual else column
        (before,) = Vocabulary(model).read_by(read[None].to(model.device)).cpu()
        return torch.stack([read if site == Site("final") else before for site in sites])


def _sides(words: Sequence[Any], positive: Sequence[bool]) -> tuple[list[str], list[str]]:
    """The words of positive and of negative rows, each once."""
    if bad := [row for row, word in enumerate(words) if not isinstance(word, str) or not word.strip()]:
        raise ExamplesError(f"row {bad[0] + 1} has no observable: give a word of its class")
    sides = [
        sorted({word.strip() for word, side in zip(words, positive, strict=True) if side is which})
        for which in (True, False)
    ]
    if shared := [word for word in sides[0] if word in sides[1]]:
        raise ExamplesError(f"{shared[0]!r} is a word of both classes: give words that tell them apart")
    return sides[0], sides[1]
