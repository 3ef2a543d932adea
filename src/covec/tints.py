"""The two colours that say which way a concept goes: warm is more of it, cool is less.

The terminal, notebooks and reports all take them from here, and show nothing else in them.
"""

from __future__ import annotations

Colour = tuple[int, int, int]

MORE: Colour = (230, 125, 30)  # red, green, blue; both are seen on white and on black
LESS: Colour = (60, 125, 230)


def tint(score: float) -> Colour:
    """The colour of a score, or of a strength, by its sign."""
    return MORE if score > 0 else LESS
