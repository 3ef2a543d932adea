"""Texts with coloured tokens in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covec.cli._output import visible
from covec.tints import tint

if TYPE_CHECKING:
    from covec.detect import Detection

FAINT = 0.15  # scores nearer to 0 get no colour
CLEAR = 0.4  # near a class mean, or beyond


def line(found: Detection) -> str:
    """What a vector says of a text, and the text with its tokens coloured where stdout is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    style = _coarse if console.color_system == "standard" else _fine
    text = Text(visible(found.text))
    for token in found.tokens:
        if token.score is not None and abs(token.score) > FAINT:
            text.stylize(style(token.score), token.start, token.end)
    chance = "" if found.probability is None else f"  {found.probability:4.0%}"
    head = Text(f"{found.concept}  {found.score:+.2f}{chance}  {'yes' if found.fires else 'no ':<3}  ")
    with console.capture() as captured:
        console.print(head + text)
    return captured.get().rstrip("\n")


def _fine(score: float) -> str:
    """Black on a tint that is full at a score of 1."""
    strength = min(1.0, abs(score))
    shade = (round(255 + (channel - 255) * strength) for channel in tint(score))
    return f"black on rgb({','.join(map(str, shade))})"


def _coarse(score: float) -> str:
    """The same for terminals of sixteen colours: clear scores only."""
    if abs(score) < CLEAR:
        return ""
    return "black on yellow" if score > 0 else "black on cyan"
