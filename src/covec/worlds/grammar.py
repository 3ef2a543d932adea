"""A grammar of sentences whose attributes are independent of each other: every value goes with every other.

The small transformer that goes with it has learned from four fifths of all sentences to continue any beginning of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from transformers import LlamaForCausalLM

from covec.concepts.examples import Examples
from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.worlds import small

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "number": ("one", "two"),
    "tense": ("present", "past"),
    "polarity": ("plain", "negated"),
    "size": ("small", "large"),
    "colour": ("red", "blue", "green", "yellow"),
    "shape": ("circle", "square", "triangle", "star"),
    "side": ("left", "right"),
    "place": ("page", "wall", "screen", "board"),
}
SENTENCES = int(np.prod([len(values) for values in ATTRIBUTES.values()]))  # as many as there are
_VERBS = {("one", "present"): "is", ("one", "past"): "was", ("two", "present"): "are", ("two", "past"): "were"}


def sentence(values: Mapping[str, str]) -> str:
    """The sentence of these values, one an attribute: `there were not two small red circles on the left of the page`.

    All words are in lower case and divided by single spaces.
    """
    verb = _VERBS[values["number"], values["tense"]] + (" not" if values["polarity"] == "negated" else "")
    several = values["number"] == "two"
    things = (
        f"{'two' if several else 'a'} {values['size']} {values['colour']} {values['shape']}{'s' if several else ''}"
    )
    return f"there {verb} {things} on the {values['side']} of the {values['place']}"


@dataclass(frozen=True)
class Sentences:
    """Sentences with the value of every attribute."""

    texts: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.texts)

    def examples(self, attribute: str, value: str) -> Examples:
        """The concept of one value: the sentences that have it against all others."""
        if value not in ATTRIBUTES.get(attribute, ()):
            known = "; ".join(f"{name}: {', '.join(values)}" for name, values in ATTRIBUTES.items())
            raise ExamplesError(f"no attribute {attribute!r} has the value {value!r}: give one of {known}")
        return Examples(self.texts, np.array([one == value for one in self.values[attribute]]), name=value)


def sentences(count: int, seed: int = 0) -> Sentences:
    """`count` different sentences, drawn alike from all that there are, so that attributes are independent."""
    if not 0 < count <= SENTENCES:
        raise ExamplesError(f"the grammar has {SENTENCES} sentences, not {count}: ask for 1 to {SENTENCES}")
    combinations = list(product(*ATTRIBUTES.values()))
    chosen = np.random.default_rng(seed).permutation(SENTENCES)[:count]
    rows = [dict(zip(ATTRIBUTES, combinations[index], strict=True)) for index in chosen]
    return Sentences(tuple(map(sentence, rows)), {name: tuple(row[name] for row in rows) for name in ATTRIBUTES})


STOP = "."
WORDS = (*sorted({word for text in sentences(SENTENCES).texts for word in text.split()}), STOP)
LONGEST = 14  # words of a sentence and the stop behind it
TRAINED = SENTENCES * 4 // 5  # the first of `sentences(SENTENCES)`
_STEPS, _ROWS = 400, 128


def model() -> TextModel:
    """The small transformer that continues sentences, with its shipped weights."""
    return small.shipped("grammar", _untrained(), WORDS)


def trained(progress: Progress = silent, steps: int = _STEPS) -> LlamaForCausalLM:
    """Train it anew: under a minute."""
    number = small.vocabulary(WORDS)
    known = [[number[word] for word in (*text.split(), STOP)] for text in sentences(SENTENCES).texts[:TRAINED]]
    table = torch.tensor([row + [0] * (LONGEST - len(row)) for row in known])
    torch.manual_seed(0)
    module, rng = _untrained(), np.random.default_rng(1)

    def draw() -> small.Drawn:
        ids = table[rng.integers(len(table), size=_ROWS)]
        return ids, ids != 0

    small.train(module, draw, steps=steps, progress=progress)
    return module


def _untrained() -> LlamaForCausalLM:
    return small.transformer(WORDS, width=48, blocks=2, longest=LONGEST)
