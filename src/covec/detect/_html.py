"""Texts with coloured tokens, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from covec.tints import tint


def fragment(title: str, text: str, spans: Iterable[tuple[int, int, float | None]]) -> str:
    """`text` under a `title`, every span `(start, end, score)` of it coloured by its score."""
    parts, done = [], 0
    for start, end, score in spans:
        if end <= max(start, done):  # tokens of one character share its span
            continue
        start = max(start, done)
        parts.append(escape(text[done:start]) + coloured(text[start:end], score))
        done = end
    body = "".join(parts) + escape(text[done:])
    return f'<p style="white-space: pre-wrap"><small>{escape(title)}</small><br>{body}</p>'


def coloured(token: str, score: float | None) -> str:
    """One token on the colour of its score; the colour is full at a score of 1."""
    if score is None:
        return escape(token)
    strength = min(1.0, abs(score)) * 0.6
    red, green, blue = tint(score)
    colour = f"rgba({red}, {green}, {blue}, {strength:.2f})"
    return f'<span title="{score:+.2f}" style="background: {colour}">{escape(token)}</span>'
