"""Sentences about one of twenty kinds of things, in frames that fit any of them.

Of the eight things of a kind the first five are for finding its vector, the others for looking at it.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

_THINGS = {
    "birds": "sparrow robin eagle owl pigeon crow swan parrot",
    "fish": "salmon trout herring tuna cod shark eel carp",
    "trees": "oak pine birch maple willow cedar elm spruce",
    "flowers": "tulip daisy lily orchid violet daffodil poppy rose",
    "fruit": "apple pear plum peach grape lemon cherry melon",
    "vegetables": "carrot cabbage onion spinach turnip leek celery broccoli",
    "drinks": "coffee tea juice beer wine lemonade milk cocoa",
    "clothes": "shirt jacket skirt scarf glove sock coat hat",
    "furniture": "table chair sofa wardrobe shelf desk stool cupboard",
    "tools": "hammer saw chisel screwdriver wrench drill axe spade",
    "vehicles": "car lorry tram bicycle motorcycle van bus tractor",
    "buildings": "castle barn tower church cottage factory warehouse palace",
    "metals": "iron copper zinc silver gold lead nickel aluminium",
    "instruments": "violin flute trumpet piano drum harp guitar clarinet",
    "sports": "tennis hockey rugby cricket golf rowing fencing boxing",
    "illnesses": "measles influenza asthma diabetes malaria pneumonia cancer bronchitis",
    "professions": "plumber carpenter lawyer dentist baker surgeon teacher electrician",
    "weather": "storm fog hail frost drizzle thunder blizzard breeze",
    "money": "salary loan tax pension invoice debt budget rent",
    "computers": "keyboard monitor software laptop server database printer processor",
}
FRAMES = (
    "We spoke for an hour about the {one} and the {other}.",
    "This book has a chapter on the {one} and one on the {other}.",
    "My sister asked me about the {one}, and then about the {other}.",
    "In her letter she mentioned the {one} and also the {other}.",
    "He remembered the {one} better than the {other}.",
)
KINDS, KNOWN = tuple(_THINGS), 5


def things(kind: str) -> tuple[str, ...]:
    """The eight things of a kind."""
    return tuple(_THINGS[kind].split())


def about(kind: str, count: int, *, unseen: bool = False, seed: int = 0) -> tuple[str, ...]:
    """`count` different sentences about things of `kind`: the first five, or the unseen three."""
    words = things(kind)[KNOWN:] if unseen else things(kind)[:KNOWN]
    pairs = list(permutations(words, 2))
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    chosen = rng.permutation(len(pairs) * len(FRAMES))[:count]
    cells = ((pairs[place % len(pairs)], place // len(pairs)) for place in chosen.tolist())
    return tuple(framed(one, other, frame) for (one, other), frame in cells)


def framed(one: str, other: str, frame: int = 0) -> str:
    """A sentence about two things."""
    return FRAMES[frame % len(FRAMES)].format(one=one, other=other)
