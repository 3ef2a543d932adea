"""Openings about a person, in pairs that differ in one word, after which `she` or `he` may come."""

from __future__ import annotations

import numpy as np

from covec.concepts.examples import Examples

_WOMEN = "sister mother aunt daughter wife grandmother niece queen girl woman lady actress princess bride"
_MEN = "brother father uncle son husband grandfather nephew king boy man gentleman actor prince groom"
_FRAMES = (
    "The {} said that",
    "My neighbour met the {} because",
    "Yesterday the {} told us that",
    "When the {} came home,",
    "The {} was tired, so",
    "We asked the {} whether",
    "Nobody knew why the {} left, but",
    "After the {} had eaten,",
    "The {} smiled while",
    "If the {} calls tonight,",
)
WORDS = ("she", "he")  # what comes next, of the positives and of the negatives


def openings(first: int = 0, end: int | None = None) -> Examples:
    """Every opening about the pairs of people from `first` on (there are 14); women are the positives."""
    people = list(zip(_WOMEN.split(), _MEN.split(), strict=True))[first:end]
    pairs = [(frame, *pair) for pair in people for frame in _FRAMES]
    return Examples(
        tuple(frame.format(person) for frame, *pair in pairs for person in pair),
        np.arange(2 * len(pairs)) % 2 == 0,
        pairs=tuple(f"{pair[0]}: {frame}" for frame, *pair in pairs for _ in range(2)),
        extra={"observable": WORDS * len(pairs)},
        name="woman",
    )
