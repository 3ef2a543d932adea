"""Positions: which tokens, patches or steps of an input are read or edited, and how they are pooled.

A position is `select/pool`. `last` is short for `last/none` and `mean` for `content/mean`. All indices are absolute in
the unpadded sequence.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from covec.errors import ModelError

SELECTS = ("all", "content", "prompt", "answer", "span", "generated", "first", "last", "patches", "cls")
POOLS = ("none", "mean", "max", "flat")
_SHORT = {"mean": ("content", "mean"), "max": ("content", "max")}
_INDEX = re.compile(r"(from-)?(\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A selection of tokens and the pooling over them.

    `select` is one of `all`, `content` (no special tokens, no position 0), `prompt`, `answer`, `span`, `generated`,
    `first`, `last`, `from-k`, `k`, or for edits a sum such as `last+generated`; `pool` one of `none`, `mean`, `max`.
    `Position.parse` makes one of its string, or of the short form of that.

    Raises
    ------
    ModelError
        There is no such selection or pooling.
    """

    select: str = "last"
    pool: str = "none"

    def __post_init__(self) -> None:
        if not _is_known(self.select, self.pool):
            raise ModelError(
                f"{str(self)!r} is no selection and pooling; for the short form of one write "
                f"Position.parse({self.select!r})"
            )

    def __repr__(self) -> str:
        return f"Position.parse({str(self)!r})"

    def __str__(self) -> str:
        return f"{self.select}/{self.pool}"

    @classmethod
    def parse(cls, text: str | Position) -> Position:
        """The position written as `text`; raises `ModelError` where it is none."""
        if isinstance(text, Position):
            return text
        select, _, pool = text.partition("/") if isinstance(text, str) else ("", "", "")
        if not pool and select in _SHORT:
            select, pool = _SHORT[select]
        if not _is_known(select, pool or "none"):
            raise ModelError(f"{text!r} is not a position; write for example last, mean, content/max, from-3 or 2")
        return cls(select, pool or "none")

    @property
    def single(self) -> bool:
        """Whether one row comes out of every input."""
        return self.pool != "none" or self.select in ("first", "last", "cls") or self.select.isdecimal()

    def for_edits(self) -> Position:
        """Itself, where an edit can act on it: selections only."""
        if self.pool != "none":
            raise ModelError(f"an edit acts on tokens and takes no pooling: write {self.select!r}, not {str(self)!r}")
        return self


def _is_known(select: str, pool: str) -> bool:
    return pool in POOLS and all(part in SELECTS or _INDEX.fullmatch(part) for part in select.split("+"))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of one tokenised input stand, in the unpadded sequence.

    `special` marks special tokens [tokens]; `prompt` is the number of tokens before the answer or the generated text;
    `last` is the index that `last` means: of the input's last token for reading, of the prompt's where text is
    generated; `answer` and `span` are half-open token ranges or None.
    """

    special: NDArray[np.bool_]
    prompt: int
    last: int
    answer: tuple[int, int] | None = None
    span: tuple[int, int] | None = None

    @property
    def length(self) -> int:
        """Number of tokens, generated ones included."""
        return len(self.special)


def is_bare(layout: Layout) -> bool:
    """Whether an input has no content, so that its last token stands in."""
    return bool((layout.special | (np.arange(layout.length) == 0)).all())


def warn_of_bare(count: int) -> None:
    """Tell of inputs in which the last token stood in for their content."""
    if count:
        have = "1 input has" if count == 1 else f"{count} inputs have"
        why = "no token but the first one and special ones, whose activations are outliers"
        warnings.warn(f"{have} no content ({why}): the last token was read, and says little", stacklevel=5)


def mask(position: Position, layout: Layout) -> NDArray[np.bool_]:
    """The tokens of one input that `position` selects [tokens]; `content` falls back on the last token."""
    chosen = np.zeros(layout.length, dtype=bool)
    for part in position.select.split("+"):
        chosen |= _mask(part, layout)
    return chosen


def _mask(part: str, layout: Layout) -> NDArray[np.bool_]:
    index = np.arange(layout.length)
    if part == "all":
        return np.ones(layout.length, dtype=bool)
    if part == "content":
        content = ~layout.special & (index > 0)
        return content if content.any() else index == layout.length - 1
    if part == "prompt":
        return index < layout.prompt
    if part == "generated":
        return index >= layout.prompt
    if part == "first":
        return index == 0
    if part == "last":
        return index == layout.last
    if part in ("answer", "span"):
        found = layout.answer if part == "answer" else layout.span
        if found is None:
            raise ModelError(f"position {part!r} needs inputs that carry one; these do not")
        return (index >= found[0]) & (index < found[1])
    counted = _INDEX.fullmatch(part)
    if counted is None:
        raise ModelError(f"position {part!r} is for images; this model reads text")
    return index >= int(counted[2]) if counted[1] else index == int(counted[2])
