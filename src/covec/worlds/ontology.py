"""An ontology in plain words: what follows from being a cat, up to five rules away, and texts that state the facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from covec.concepts.examples import Examples

# Nouns, and what follows from each of them by one rule after the other.
FAMILIES: dict[str, tuple[str, ...]] = {
    "cat dog horse": ("mammal", "warm-blooded", "active", "hungry", "restless"),
    "eagle owl duck": ("bird", "feathered", "light", "quick", "shy"),
    "salmon trout shark": ("fish", "cold-blooded", "quiet", "slow", "patient"),
    "oak pine birch": ("tree", "rooted", "tall", "steady", "calm"),
}
CHAINS = {noun: chain for nouns, chain in FAMILIES.items() for noun in nouns.split()}
NOUNS = tuple(CHAINS)
HOPS = 5
_NAMES = "Tom Anna Max Lily Sam Rosie Leo Clara Finn Molly Oscar Ruby Hugo Daisy Felix Nora"
# In none of them stands what the questions ask.
_SEEN = (
    "We read a long story about {article} {noun}.",
    "My uncle took a picture of {article} {noun} this morning.",
    "There was {article} {noun} near the old bridge.",
    "The children drew {article} {noun} on the wall.",
    "Do you remember that {noun} behind the house?",
    "Everybody at the meeting spoke about the {noun}.",
    "{name} is {article} {noun}, as you can see.",
    "I have heard that {name} is {article} {noun}.",
    "She wrote that the {noun} was called {name}.",
    "Nobody told us that {name} was {article} {noun}.",
    "On the label stood the word {noun} in blue ink.",
    "{name} and the {noun} came to the village together.",
    "This song is about {article} {noun} and its friends.",
    "The book says that {article} {noun} lives here.",
    "{name} looks like {article} {noun} to me.",
    "We call {name} {article} {noun} because of the name.",
)
FRAMES = len(_SEEN)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def _is(word: str) -> str:
    """What one says of a thing that is `word`: families are nouns, the rest are adjectives."""
    return f"{_article(word)} {word}" if any(chain[0] == word for chain in FAMILIES.values()) else word


def rules() -> str:
    """The ontology as rules between concepts."""
    steps = [(noun, chain[0]) for noun, chain in CHAINS.items()]
    steps += [pair for chain in FAMILIES.values() for pair in pairwise(chain)]
    return "\n".join(f"{one} -> {other}" for one, other in steps)


def told(noun: str) -> str:
    """The rules from `noun` on, in words."""
    family, *rest = CHAINS[noun]
    first = f"Every {noun} is {_is(family)}. Every {family} is {rest[0]}."
    return " ".join([first, *(f"Everything {one} is {other}." for one, other in pairwise(rest))])


@dataclass(frozen=True)
class Mention:
    """A text that mentions a noun at the characters `span`."""

    text: str
    noun: str
    span: tuple[int, int]


def mentioning(noun: str, texts: Sequence[Mention]) -> Examples:
    """The concept `noun`: the texts that mention it against those that mention another."""
    labels = np.array([one.noun == noun for one in texts])
    spans = tuple(one.span if label else None for one, label in zip(texts, labels, strict=True))
    return Examples(tuple(one.text for one in texts), labels, spans=spans, name=noun)


def mentions(first: int = 0, end: int | None = None, seed: int = 0) -> tuple[Mention, ...]:
    """Every noun in each of the frames from `first` on, of which there are `FRAMES`."""
    return tuple(_mentions(_SEEN[first:end], np.random.default_rng(seed)))


def _mentions(frames: Sequence[str], rng: np.random.Generator) -> Iterator[Mention]:
    for frame in frames:
        for noun in NOUNS:
            name = str(rng.choice(_NAMES.split()[:8]))
            before, _, after = frame.partition("{noun}")
            start = before.format(article=_article(noun), name=name)
            text = f"{start}{noun}{after.format(name=name)}"
            yield Mention(text, noun, (len(start), len(start) + len(noun)))


@dataclass(frozen=True)
class Question:
    """`text` states a fact about a noun and asks what follows by some rules, or what follows from `other` nouns."""

    text: str
    noun: str
    other: str
    asked: str
    answer: bool


def questions(hops: int, names: int, seed: int = 0) -> tuple[Question, ...]:
    """About every noun under `names` different names, as many with the answer yes as with no."""
    rng, found = np.random.default_rng((seed, hops)), []
    for noun, chain in CHAINS.items():
        strange = [other for other in NOUNS if CHAINS[other] is not chain]
        for name in rng.choice(_NAMES.split()[8:], names, replace=False):
            other = str(rng.choice(strange))
            for answer in (True, False):
                asked = (chain if answer else CHAINS[other])[hops - 1]
                text = f"{name} is {_article(noun)} {noun}. Is {name} {_is(asked)}?"
                found.append(Question(text, noun, other, asked, answer))
    return tuple(found)
