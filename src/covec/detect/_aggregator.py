"""The contract of an aggregator."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from covec import registry
from covec.errors import CovecError
from covec.models.positions import Position
from covec.statistics.auroc import best_threshold, checked_labels


class Aggregator:
    """One score a text from the scores of its tokens, and the threshold above which the concept counts as present.

    `read` is the read position that it stands for: its selection says which tokens `aggregate` is given, and a vector
    that was read there prefers it.
    """

    read: ClassVar[str] = "content/none"

    def __init__(self, threshold: float = 0.0) -> None:
        self.threshold = threshold

    @classmethod
    def selection(cls) -> Position:
        """Which tokens' scores it is given."""
        return Position(Position.parse(cls.read).select)

    def aggregate(
        self, scores: Float[np.ndarray, "tokens"], offsets: Int[np.ndarray, "n_plus_1"]
    ) -> Float[np.ndarray, "n"]:
        """The score of every text; the tokens of text i are `offsets[i]:offsets[i + 1]`, one at least."""
        raise NotImplementedError

    def fit(
        self,
        scores: Float[np.ndarray, "tokens"],
        offsets: Int[np.ndarray, "n_plus_1"],
        labels: Bool[np.ndarray, "n"],
        inside: Bool[np.ndarray, "tokens"] | None = None,
    ) -> Self:
        """Choose the threshold on labelled texts: that of the highest accuracy.

        `inside` marks the tokens that show the concept, for those who can use it.

        Raises
        ------
        CovecError
            Labels are of one class, or of another number than the texts; marks are of another number than the tokens.
        """
        values, bounds, labels, _ = labelled(scores, offsets, labels, inside)
        self.threshold = best_threshold(self.aggregate(values, bounds), labels)
        return self


def aggregators() -> dict[str, type[Aggregator]]:
    """Every registered aggregator by its name; other methods of the room detect in another way."""
    kinds = {name: registry.get("detect", name) for name in registry.names("detect")}
    return {name: kind for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Aggregator)}


def ranges(scores: ArrayLike, offsets: ArrayLike) -> tuple[Float[np.ndarray, "tokens"], Int[np.ndarray, "n_plus_1"]]:
    """Scores and offsets as arrays that fit each other, every text with one token at least, or `CovecError`.

    Scores are finite: what is no number would be a text's score, or be lost behind a larger one.
    """
    values, bounds = np.asarray(scores, dtype=np.float64), np.asarray(offsets, dtype=np.int64)
    if values.ndim != 1 or bounds.ndim != 1 or len(bounds) < 1 or bounds[0] != 0 or bounds[-1] != len(values):
        raise CovecError(f"offsets must run from 0 to the number of scores, {len(values)}")
    if (np.diff(bounds) < 1).any():
        raise CovecError(f"text {int(np.flatnonzero(np.diff(bounds) < 1)[0]) + 1} has no token to aggregate")
    if not np.isfinite(values).all():
        raise CovecError("a token's score is NaN or infinite: look for the same in the activations")
    return values, bounds


def labelled(
    scores: ArrayLike, offsets: ArrayLike, labels: ArrayLike, inside: ArrayLike | None
) -> tuple[Float[np.ndarray, "tokens"], Int[np.ndarray, "n_plus_1"], Bool[np.ndarray, "n"], Bool[np.ndarray, "tokens"]]:
    """`ranges`, with a label a text, both classes among them, and a mark a token (all where None); or `CovecError`."""
    values, bounds = ranges(scores, offsets)
    named, marks = checked_labels(labels), np.ones(len(values), dtype=bool) if inside is None else np.asarray(inside)
    for what, found, wanted in (("labels", named, len(bounds) - 1), ("marks of tokens", marks, len(values))):
        if found.shape != (wanted,):
            raise CovecError(f"{what} have the shape {found.shape}: give {wanted}, one each")
    return values, bounds, named, marks.astype(bool)
