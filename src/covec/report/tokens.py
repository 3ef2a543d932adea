"""Texts as spans of tokens, coloured by score."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from covec.report.words import number

LEVELS = 6  # shades on each side


@dataclass(frozen=True)
class Span:
    """A piece of a text: the class of its shade ("" where it has no score) and what is said over it."""

    text: str
    shade: str = ""
    title: str = ""


def reach(texts: Iterable[Mapping[str, Any]]) -> float:
    """The score of the deepest shade: the 95th percentile of all scores that are shown, and at least a class mean's."""
    scores = [abs(token["score"]) for text in texts for token in text["tokens"] if _known(token.get("score"))]
    return max(0.5, float(np.quantile(scores, 0.95))) if scores else 0.5


def spans(text: Mapping[str, Any], top: float, most: int) -> list[Span]:
    """The first `most` tokens of a text, nothing of the text left out or shown twice.

    Tokens that share a character (bytes of one emoji) share a span; a token of no character has none.
    """
    return list(_spans(str(text["text"]), text["tokens"], top, most))


def shade(score: float, top: float) -> str:
    """The class of a score's shade: `more1` to `more6` of the concept, `less1` to `less6`."""
    step = min(LEVELS, math.ceil(abs(score) / top * LEVELS - 1e-9))
    return f"{'more' if score > 0 else 'less'}{step}" if step else ""


def _spans(text: str, tokens: Iterable[Mapping[str, Any]], top: float, most: int) -> Iterator[Span]:
    cursor = 0
    for index, token in enumerate(tokens):
        if index == most:
            yield Span("\N{HORIZONTAL ELLIPSIS}", title="the rest of this text is not shown")
            return
        start, end = max(cursor, int(token["start"])), int(token["end"])
        if end <= cursor:
            continue
        if start > cursor:
            yield Span(text[cursor:start])
        score = token.get("score")
        if score is not None and _known(score):
            yield Span(text[start:end], shade(score, top), f"score {number(score, signed=True)}")
        else:
            yield Span(text[start:end], title="not scored")
        cursor = end
    if cursor < len(text):
        yield Span(text[cursor:])


def _known(score: float | None) -> bool:
    return score is not None and not math.isnan(score)
