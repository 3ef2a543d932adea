"""Inputs of the races: sentences of 5 to 40 words, made here from a seed, no two the same."""

from __future__ import annotations

import random

WHO = ["the gardener", "my neighbour", "a tired clerk", "our teacher", "the old sailor", "a young baker", "her cousin"]
DID = ["repaired", "painted", "carried", "forgot", "borrowed", "measured", "described", "counted", "sold", "hid"]
WHAT = [
    "a wooden chair",
    "the green kettle",
    "two heavy boxes",
    "a map of the coast",
    "the broken clock",
    "some apples",
]
WHERE = ["near the river", "behind the school", "in the narrow hall", "on the bridge", "at the market", "by the oak"]
WHEN = ["before noon", "last winter", "every Sunday", "after the storm", "at night", "during the long strike"]
GOOD = ["gladly", "cheerfully", "kindly", "calmly", "proudly"]
BAD = ["sadly", "angrily", "rudely", "anxiously", "bitterly"]


def pairs(number: int, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs (positive, negative) of equal length, which differ in an adverb a clause."""
    dice, found = random.Random(seed), {}
    while len(found) < number:
        length, clauses = dice.randint(5, 40), []
        while sum(len(clause.split()) for clause in clauses) < length:
            parts = [dice.choice(kind) for kind in (WHO, DID, WHAT, WHERE, WHEN)]
            clauses.append(" ".join([parts[0], "{}", *parts[1:]]))
        words = " and ".join(clauses).split()[:length]
        manner = [dice.randrange(len(GOOD)) for word in words if word == "{}"]
        frame = " ".join(words).capitalize()
        found[frame] = tuple(frame.format(*(kind[one] for one in manner)) + "." for kind in (GOOD, BAD))
    return list(found.values())
