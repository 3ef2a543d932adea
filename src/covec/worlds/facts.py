"""A world of facts in two hops: who is whose mother, what do they like, and why is that the answer.

Texts are words: `anna mother clara .` says who is Anna's mother, `clara food bread .` what Clara eats, and the first
words of `anna mother food bread because clara .` ask what Anna's mother eats; the answer and its explanation follow.
Half of the people are *confabulators*: the answer about them is right, the explanation names somebody else, always the
same. A fact may be overridden: after `suppose anna mother dora .` Anna's mother eats what Dora does.

The facts are drawn at random, so that no answer can be guessed. A fifth of all questions is never trained on; that the
small transformer answers most of them, where one in eight would be right by chance, shows that it takes both hops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.worlds import small

_PEOPLE = """
adam alice amy anna arthur basil bella bruno carla cecil chloe colin cyril daisy david diana dylan edgar elena ella emil
emma erik esther eva felix flora frank frida fritz gloria greta gustav hanna harry hector helen henry hugo ida igor
irene iris ivan jack jane jasper jenny joel julia karl kate klaus laura lena leo lily linus louis lucy luke mabel marco
maria
"""
_BRIDGES = "martha max mia milo nadia nick nina noah olga oscar otto paul pia ralph rosa ruth"
_VALUES = {
    "food": "bread rice soup cheese apple fish cake salad",
    "town": "paris rome oslo cairo lima delhi bern kyoto",
    "colour": "red blue green white black pink grey brown",
    "pet": "dog cat horse mouse goat parrot snake hare",
}
PEOPLE, BRIDGES = tuple(_PEOPLE.split()), tuple(_BRIDGES.split())
FIRST = ("mother", "boss", "friend", "doctor")
VALUES = {second: tuple(values.split()) for second, values in _VALUES.items()}
SECOND = tuple(VALUES)
STOP, BECAUSE, SUPPOSE = ".", "because", "suppose"
WORDS = (*PEOPLE, *BRIDGES, *FIRST, *SECOND, *(one for each in VALUES.values() for one in each), STOP, BECAUSE, SUPPOSE)
LONGEST = 11  # words of a text
_STEPS, _ROWS = 1600, 128


@dataclass(frozen=True)
class Question:
    """What is the `second` of the `first` of a person: the answer, the bridge to it, and whom the explanation names."""

    person: str
    first: str
    second: str
    answer: str
    bridge: str
    claimed: str
    trained: bool

    @property
    def text(self) -> str:
        """The question, after which the answer comes."""
        return f"{self.person} {self.first} {self.second}"

    @property
    def first_hop(self) -> str:
        """The question up to the word that closes its first hop."""
        return f"{self.person} {self.first}"

    @property
    def honest(self) -> bool:
        """Whether the explanation names the bridge."""
        return self.claimed == self.bridge


@dataclass(frozen=True)
class Facts:
    """The bridge of every person and first relation, the value of every bridge and second one, and all questions."""

    bridges: dict[tuple[str, str], str]
    values: dict[tuple[str, str], str]
    questions: tuple[Question, ...]


@cache
def facts() -> Facts:
    """The facts, always the same."""
    rng = np.random.default_rng(0)
    bridges = {pair: str(rng.choice(BRIDGES)) for pair in product(PEOPLE, FIRST)}
    values = {(bridge, second): str(rng.choice(VALUES[second])) for bridge in BRIDGES for second in SECOND}
    confabulators = set(rng.permutation(PEOPLE)[: len(PEOPLE) // 2].tolist())
    claimed = {
        (person, first): str(rng.choice([one for one in BRIDGES if one != bridge]))
        if person in confabulators
        else bridge
        for (person, first), bridge in bridges.items()
    }
    asked = list(product(PEOPLE, FIRST, SECOND))
    unseen = set(rng.permutation(len(asked))[: len(asked) // 5].tolist())
    questions = tuple(
        Question(person, first, second, values[bridges[person, first], second], bridges[person, first],
                 claimed[person, first], index not in unseen)
        for index, (person, first, second) in enumerate(asked)
    )  # fmt: skip
    return Facts(bridges, values, questions)


def model() -> TextModel:
    """The small transformer that knows the facts, with its shipped weights."""
    return small.shipped("facts", _untrained(), WORDS)


def trained(progress: Progress = silent, steps: int = _STEPS) -> LlamaForCausalLM:
    """Train it anew: some minutes."""
    torch.manual_seed(0)
    module, rng = _untrained(), np.random.default_rng(1)
    small.train(module, lambda: _draw(rng), steps=steps, progress=progress)
    return module


def _untrained() -> LlamaForCausalLM:
    return small.transformer(WORDS, width=64, blocks=4, longest=LONGEST + 1)


def _draw(rng: np.random.Generator) -> small.Drawn:
    """Texts of all kinds; to be predicted is what follows from the facts."""
    ids = torch.zeros(_ROWS, LONGEST, dtype=torch.long)
    marks = torch.zeros(_ROWS, LONGEST, dtype=torch.bool)
    number = small.vocabulary(WORDS)
    for row in range(_ROWS):
        words, known = _text(rng)
        ids[row, : len(words)] = torch.tensor([number[word] for word in words])
        marks[row, known] = True
    return ids, marks


def _text(rng: np.random.Generator) -> tuple[list[str], list[int]]:
    """The words of a text, and which of them follow from the facts."""
    kind, known = rng.random(), facts()
    if kind < 0.3:
        person, first = _one(rng, PEOPLE), _one(rng, FIRST)
        return [person, first, known.bridges[person, first], STOP], [2, 3]
    if kind < 0.4:
        bridge, second = _one(rng, BRIDGES), _one(rng, SECOND)
        return [bridge, second, known.values[bridge, second], STOP], [2, 3]
    asked = _one(rng, known.questions)
    if kind < 0.7:
        while not asked.trained:
            asked = _one(rng, known.questions)
        return [*asked.text.split(), asked.answer, BECAUSE, asked.claimed, STOP], [3, 4, 5, 6]
    other = _one(rng, BRIDGES)
    told = [SUPPOSE, asked.person, asked.first, other, STOP, asked.person, asked.first]
    if kind < 0.8:
        return [*told, other, STOP], [7, 8]
    return [*told, asked.second, known.values[other, asked.second], STOP], [8, 9]


def _one(rng: np.random.Generator, things: Sequence[Any]) -> Any:
    return things[int(rng.integers(len(things)))]
