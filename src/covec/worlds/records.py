"""A world of statements that are true or false, and of records that may say otherwise.

Everybody lives in one town: `fact anna rome` says so. Asked to support or to refute a statement, `anna rome support :`,
one does right where the statement is true (false): `right` or `wrong` follows. A record that stands before it,
`record anna oslo .`, is believed: it may repeat the fact, contradict it, or be about somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from transformers import LlamaForCausalLM

from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.worlds import small

_PEOPLE = """
adam alice anna arthur bella bruno carla cecil chloe colin daisy david diana dylan edgar ella emil emma erik eva felix
flora frida fritz
"""
_TOWNS = "rome oslo paris lima delhi bern"
PEOPLE, TOWNS = tuple(_PEOPLE.split()), tuple(_TOWNS.split())
TASKS = "support", "refute"
VERDICTS = "right", "wrong"
TEMPLATE = "{context}{statement} {task} :"
WORDS = (*PEOPLE, *TOWNS, *TASKS, *VERDICTS, "fact", "record", ".", ":")
LONGEST = 9
_STEPS, _ROWS = 2200, 64


@cache
def homes() -> dict[str, str]:
    """Where everybody lives."""
    rng = np.random.default_rng(0)
    return {person: str(rng.choice(TOWNS)) for person in PEOPLE}


def statements(true: Sequence[bool], seed: int = 0) -> tuple[str, ...]:
    """One statement a person, true or false as `true` says."""
    rng = np.random.default_rng(seed)
    pairs = zip(PEOPLE, true, strict=False)
    return tuple(f"{person} {homes()[person] if one else _other(homes()[person], rng)}" for person, one in pairs)


def records(texts: Sequence[str], *, conflicting: bool) -> tuple[str, ...]:
    """A record for each statement: what its truth is, or what makes a false one true and a true one false."""
    rng, found = np.random.default_rng(1), []
    for text in texts:
        person, town = text.split()
        home = homes()[person]
        told = home if not conflicting else _other(home, rng) if town == home else town
        found.append(f"record {person} {told} .")
    return tuple(found)


def model() -> TextModel:
    """The small transformer that knows the facts, with its shipped weights."""
    return small.shipped("records", _untrained(), WORDS)


def trained(progress: Progress = silent, steps: int = _STEPS) -> LlamaForCausalLM:
    """Train it anew: some minutes."""
    torch.manual_seed(0)
    module, rng = _untrained(), np.random.default_rng(1)
    small.train(module, lambda: _draw(rng), steps=steps, progress=progress)
    return module


def _untrained() -> LlamaForCausalLM:
    return small.transformer(WORDS, width=64, blocks=4, longest=LONGEST)


def _draw(rng: np.random.Generator) -> small.Drawn:
    """Texts of all kinds; to be predicted is the last word of each."""
    ids = torch.zeros(_ROWS, LONGEST, dtype=torch.long)
    marks = torch.zeros(_ROWS, LONGEST, dtype=torch.bool)
    number = small.vocabulary(WORDS)
    for row in range(_ROWS):
        words = _text(rng)
        ids[row, : len(words)] = torch.tensor([number[word] for word in words])
        marks[row, len(words) - 1] = True
    return ids, marks


def _text(rng: np.random.Generator) -> list[str]:
    kind, person, task = rng.random(), str(rng.choice(PEOPLE)), int(rng.integers(2))
    home = homes()[person]
    if kind < 0.2:
        return ["fact", person, home]
    before, truth = [], home
    if kind > 0.5:
        about = person if rng.random() < 0.75 else str(rng.choice([one for one in PEOPLE if one != person]))
        told = homes()[about] if rng.random() < 0.4 else _other(homes()[about], rng)
        before, truth = ["record", about, told, "."], told if about == person else home
    true = rng.random() < 0.5
    wrong = home if truth != home and rng.random() < 0.5 else _other(truth, rng)
    return [*before, person, truth if true else wrong, TASKS[task], ":", VERDICTS[true == bool(task)]]


def _other(town: str, rng: np.random.Generator) -> str:
    return str(rng.choice([one for one in TOWNS if one != town]))
