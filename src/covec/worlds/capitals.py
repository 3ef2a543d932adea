"""Statements about capitals, true ones and false ones, with evidence of several kinds to be read before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_CAPITALS = (
    "France Paris, Italy Rome, Spain Madrid, Germany Berlin, Austria Vienna, Poland Warsaw, Greece Athens, "
    "Norway Oslo, Sweden Stockholm, Portugal Lisbon, Hungary Budapest, Ireland Dublin, Russia Moscow, China Beijing, "
    "Japan Tokyo, Egypt Cairo, Cuba Havana, Peru Lima, Kenya Nairobi, Iran Tehran, Iraq Baghdad, "
    "Belgium Brussels, Finland Helsinki, Denmark Copenhagen"
)
_WORDS = "green seven walk lamp under sing fifty cold table often bird stone yellow run paper soft nine river hand cup"
KINDS = ("aligned", "conflicting", "irrelevant", "salad")


@dataclass(frozen=True)
class Statements:
    """Statements with their labels, and for each of `KINDS` of evidence a text a statement."""

    texts: tuple[str, ...]
    labels: tuple[bool, ...]
    contexts: dict[str, tuple[str, ...]]


def statements(count: int | None = None, seed: int = 0) -> Statements:
    """Statements about `count` countries (there are 24), true and false in turn.

    Aligned evidence says what is the case, conflicting evidence that the wrong city is the capital, which every false
    statement names; irrelevant evidence is that of another country, and salad is words in any order.
    """
    rng = np.random.default_rng(seed)
    known = [tuple(entry.split()) for entry in _CAPITALS.split(", ")][:count]
    wrong = {country: known[(place + 1) % len(known)][1] for place, (country, _) in enumerate(known)}
    labels = tuple(place % 2 == 0 for place in range(len(known)))
    said = [capital if label else wrong[country] for (country, capital), label in zip(known, labels, strict=True)]
    aligned = tuple(_evidence(country, capital) for country, capital in known)
    return Statements(
        tuple(f"The capital of {country} is {city}." for (country, _), city in zip(known, said, strict=True)),
        labels,
        {
            "aligned": aligned,
            "conflicting": tuple(_evidence(country, wrong[country]) for country, _ in known),
            "irrelevant": aligned[len(known) // 2 :] + aligned[: len(known) // 2],
            "salad": tuple(" ".join(rng.choice(_WORDS.split(), 12)).capitalize() + "." for _ in known),
        },
    )


def _evidence(country: str, city: str) -> str:
    return f"The atlas says that the government of {country} sits in {city}, its capital."
