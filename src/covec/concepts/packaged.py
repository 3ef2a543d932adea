"""The texts that come with covec: an example concept, neutral prompts and neutral sentences, all written for it."""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable

from covec.concepts.examples import Examples


def example_concept() -> Examples:
    """Sentiment: 160 pairs of an approving and a disapproving sentence, each pair on one subject."""
    with as_file(_data("sentiment.jsonl")) as path:
        return Examples.read(path)


def neutral_prompts() -> tuple[str, ...]:
    """Fifty openings of sentences that lean nowhere, 4 to 9 words each."""
    return _lines("neutral_prompts.txt")


def neutral_texts() -> tuple[str, ...]:
    """A hundred matter-of-fact sentences of 15 to 25 words, on which the side effects of an edit are measured."""
    return _lines("neutral_texts.txt")


def concept_graph() -> dict[str, tuple[str, ...]]:
    """Fourteen fields of everyday life with eleven concepts each, the most important first; all names of concepts."""
    lines = (line.partition(": ") for line in _lines("concept_graph.txt"))
    return {field: tuple(concepts.split(", ")) for field, _, concepts in lines}


def _lines(name: str) -> tuple[str, ...]:
    return tuple(_data(name).read_text(encoding="utf-8").splitlines())


def _data(name: str) -> Traversable:
    return files("covec.concepts") / "data" / name
