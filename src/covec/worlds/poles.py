"""Statements on four axes, each with two poles, in pairs on one topic; and words that speak for either pole.

The axes are formal or casual, past or future, pleased or displeased, certain or doubtful. Statements of a pair differ
in nothing but the pole; the same topics are spoken of on every axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from covec.concepts.examples import Examples

TOPICS = (
    "the train", "the garden", "the meeting", "the film", "the car", "the holiday",
    "the house", "the school", "the letter", "the kitchen", "the market", "the concert",
)  # fmt: skip
_PHRASES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "formal": (
        ("I should be most grateful if we could discuss {}.", "Hey, wanna chat about {} or what?"),
        ("One ought to give due consideration to {}.", "Yeah so like, just think about {}, guys."),
    ),
    "past": (
        ("Yesterday we talked about {} for an hour.", "Tomorrow we will talk about {} for an hour."),
        ("Last year {} was important to us.", "Next year {} will be important to us."),
    ),
    "pleased": (
        ("We love {} and find it wonderful.", "We hate {} and find it dreadful."),
        ("Everybody was happy about {}.", "Everybody was angry about {}."),
    ),
    "certain": (
        ("It is quite certain that {} matters.", "It is rather doubtful whether {} matters."),
        ("I definitely know all about {}.", "Perhaps I know a little about {}, but I may be wrong."),
    ),
}
WORDS: Mapping[str, tuple[str, str]] = {  # of the first pole and of the second, one token each to most tokenizers
    "formal": ("therefore however regarding shall furthermore", "yeah okay guys cool hey"),
    "past": ("was were had did went", "will soon tomorrow going later"),
    "pleased": ("good great wonderful happy love", "bad terrible sad hate awful"),
    "certain": ("certainly definitely always must clearly", "maybe perhaps might possibly probably"),
}
AXES = tuple(_PHRASES)


def statements(topics: Sequence[str] = TOPICS, axes: Sequence[str] = AXES) -> Examples:
    """Two pairs of statements a topic and axis; the first pole is the positive one, the column `axis` has the axis."""
    rows = [
        (phrase.format(topic), f"{axis}, {topic}, {number}", axis, topic)
        for axis in axes
        for topic in topics
        for number, both in enumerate(_PHRASES[axis])
        for phrase in both
    ]
    texts, pairs, named, spoken = zip(*rows, strict=True)
    return Examples(
        texts,
        np.arange(len(rows)) % 2 == 0,
        groups=spoken,
        pairs=pairs,
        extra={"axis": named},
        name="poles",
    )
