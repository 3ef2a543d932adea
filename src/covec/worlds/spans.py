"""Sentences that lean nowhere but for one span of words of a topic, whose place is known to the character."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covec.concepts.examples import Examples

TOPICS = {
    "colours": "red blue green yellow purple orange pink brown grey black white violet crimson turquoise beige maroon",
    "animals": "dog cat horse cow sheep goat tiger lion rabbit mouse wolf bear elephant monkey giraffe zebra",
    "food": "bread cheese butter rice soup pasta apple banana carrot onion potato cake sausage honey salad yoghurt",
    "numbers": "two three four five six seven eight nine ten eleven twelve thirteen twenty thirty forty ninety",
}
_OPENINGS = (
    "After the meeting",
    "Before the bus arrived",
    "On the second page",
    "At the end of the corridor",
    "In the middle of the lesson",
    "Some time later",
    "When the door was closed",
    "On the way back",
    "During the break",
    "Near the entrance",
    "In the old notebook",
    "A moment before that",
)
_FRAMES = (
    "she wrote down {} on the back of the envelope",
    "the next line of the form said {} in small letters",
    "we could still read {} on the wall",
    "he typed {} into the box",
    "somebody had underlined {} with a pencil",
    "the voice on the tape repeated {} slowly",
    "they were asked to say {} aloud",
    "the label under the picture was {} as far as I could tell",
    "the hint for the puzzle was {} according to the sheet",
    "my neighbour whispered {} without looking up",
)
_ENDINGS = (
    "and then the telephone rang.",
    "while the others waited outside.",
    "before putting the paper back in the drawer.",
    "which nobody mentioned again.",
    "as the lamp was switched off.",
    "and the room was quiet for a while.",
    "though it was getting late.",
    "and we went on with the list.",
    "because there was some time left.",
    "just as the train left the station.",
)


@dataclass(frozen=True)
class Sentences:
    """Sentences with the topic of their span and its characters `(start, end)`."""

    texts: tuple[str, ...]
    topics: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]

    def examples(self, topic: str) -> Examples:
        """The concept `topic`: its sentences against those of all other topics."""
        labels = np.array([one == topic for one in self.topics])
        spans = tuple(span if label else None for span, label in zip(self.spans, labels, strict=True))
        return Examples(self.texts, labels, spans=spans, name=topic)


def sentences(count: int, seed: int = 0, *, longest: int = 4) -> Sentences:
    """`count` different sentences, topics in turn, each with a span of one to `longest` words of its topic."""
    rng = np.random.default_rng(seed)
    words = {topic: listed.split() for topic, listed in TOPICS.items()}
    rows: dict[str, tuple[str, tuple[int, int]]] = {}
    while len(rows) < count:
        topic = tuple(TOPICS)[len(rows) % len(TOPICS)]
        shown = _listing(rng.choice(words[topic], rng.integers(1, longest + 1), replace=False))
        text, span = framed(shown, rng)
        rows.setdefault(text, (topic, span))
    topics, spans = zip(*rows.values(), strict=True)
    return Sentences(tuple(rows), topics, spans)


def framed(phrase: str, rng: np.random.Generator) -> tuple[str, tuple[int, int]]:
    """A sentence that leans nowhere but for `phrase`, and the characters of that; the same draws, the same frame."""
    opening, frame, ending = (str(rng.choice(parts)) for parts in (_OPENINGS, _FRAMES, _ENDINGS))
    before, after = frame.split("{}")
    start = len(f"{opening} {before}")
    return f"{opening} {before}{phrase}{after} {ending}", (start, start + len(phrase))


def _listing(words: np.ndarray) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last
