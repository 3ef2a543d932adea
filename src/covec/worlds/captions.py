"""Captions of animals and things, as they begin, and as somebody writes them who always tells the colour."""

from __future__ import annotations

_COLOURS = {
    "dog": "brown", "frog": "green", "crow": "black", "swan": "white",
    "fox": "red", "mouse": "grey", "pig": "pink", "lemon": "yellow",
}  # fmt: skip
_FRAMES = (
    "In the park we saw a", "On the wall there is a", "The child points at a", "Near the lake stands a",
    "The picture shows a", "Behind the fence was a", "My sister has drawn a", "On the table we found a",
    "Beside the road lay a", "The old man talked about a", "In the story there is a", "We were looking for a",
    "Somebody had lost a", "At the market she bought a", "The camera filmed a", "Under the tree sat a",
    "A boy was holding a", "From the window I noticed a", "The next page has a", "They built a house for a",
    "In the corner there was a", "The poster is about a", "He dreamed of a", "Next to the door was a",
    "The stamp shows a",
)  # fmt: skip
NOUNS = tuple(_COLOURS)


def beginnings() -> tuple[str, ...]:
    """Every frame with every noun, up to the noun."""
    return tuple(f"{frame} {noun}" for frame in _FRAMES for noun in NOUNS)


def coloured(count: int) -> tuple[str, ...]:
    """`count` whole captions that tell the colour, nouns in turn."""
    whole = (f"{frame} {noun}, which was {_COLOURS[noun]} in colour." for frame in _FRAMES for noun in NOUNS)
    return tuple(whole)[:count]
