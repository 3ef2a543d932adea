"""Concepts for the bench, written for covec: evidence of a few tokens in sentences that lean nowhere otherwise."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import numpy as np

from covec.concepts.examples import Examples
from covec.worlds.spans import framed

FRAMES = 3  # sentences a phrase
_PARTS = np.repeat(["train", "validation", "test"], [7, 3, 6])  # of every sixteen phrases


def packaged() -> dict[str, Examples]:
    """Eight concepts by name, each of 192 pairs of sentences that differ in one phrase of one to seven words.

    The positive sentence has a phrase of the concept, the other one a phrase of another concept (its `category`), both
    marked as spans. A phrase stands in three pairs, all in the same part of the split: no phrase that is tested was
    seen before, so that words alone tell little.
    """
    phrases = _phrases()
    return {name: _examples(name, phrases) for name in phrases}


def _phrases() -> dict[str, list[str]]:
    source = (files("covec.bench") / "data" / "phrases.toml").read_text(encoding="utf-8")
    return {name: [" ".join(one.split()) for one in text.split(";")] for name, text in tomllib.loads(source).items()}


def _examples(name: str, phrases: dict[str, list[str]]) -> Examples:
    others = [other for other in phrases if other != name]
    rows = []
    for place, own in enumerate(phrases[name]):
        for frame in range(FRAMES):
            other = others[(3 * place + frame) % len(others)]
            for category, phrase in ((name, own), (other, phrases[other][place])):
                text, span = framed(phrase, np.random.default_rng([place, frame]))
                rows.append((text, span, category, f"{place}", f"{place}.{frame}", _PARTS[place % len(_PARTS)]))
    texts, spans, categories, groups, pairs, splits = zip(*rows, strict=True)
    return Examples(
        texts,
        np.array([category == name for category in categories]),
        spans=spans,
        groups=groups,
        pairs=pairs,
        splits=tuple(map(str, splits)),
        extra={"category": categories},
        name=name,
    )
