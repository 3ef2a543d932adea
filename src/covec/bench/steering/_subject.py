"""What is steered towards: concepts, each with rows to fit on and other rows for the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from covec.bench import concepts as phrases
from covec.bench._subject import Trial
from covec.concepts.examples import Examples
from covec.concepts.packaged import example_concept
from covec.errors import ExamplesError
from covec.models.sites import Site
from covec.models.text import TextModel

TOPICS = ("animals", "food")
MEANINGS = {"sentiment": "praise and delight"}  # what names of packaged concepts say too little of


def packaged() -> dict[str, Examples]:
    """Three concepts that come with covec: sentiment, and two of the topics of `covec bench detect`."""
    known = phrases.packaged()
    return {"sentiment": example_concept(), **{name: known[name] for name in TOPICS}}


@dataclass(frozen=True, eq=False)
class Subject:
    """One concept in one model; `known` holds the training rows of every concept, this one's too."""

    model: TextModel
    trial: Trial
    known: Mapping[str, Examples]
    seed: int

    @property
    def name(self) -> str:
        """The concept's name."""
        return self.trial.examples.name

    @property
    def examples(self) -> Examples:
        """The rows to learn from."""
        return self.known[self.name]

    @property
    def meaning(self) -> str:
        """The concept in words, for prompts."""
        return MEANINGS.get(self.name, self.name.replace("-", " ").replace("_", " "))

    @cached_property
    def site(self) -> Site:
        """Where plain vectors are read and added: half of the depth."""
        (site,) = self.model.select("resid.50%")
        return site

    @property
    def other(self) -> str:
        """The concept that stands in as the wrong one: the next in turn."""
        names = list(self.known)
        return names[(names.index(self.name) + 1) % len(names)]

    def positives(self, count: int) -> list[str]:
        """The first texts that have the concept."""
        return [self.examples.texts[row] for row in np.flatnonzero(self.examples.labels)[:count]]


def subjects(model: TextModel, concepts: Mapping[str, Examples], split_seed: int, seed: int) -> dict[str, Subject]:
    """Every concept split and checked.

    Raises
    ------
    ExamplesError
        A concept's examples are too few, or of one class.
    """
    trials = {}
    for name, examples in concepts.items():
        try:
            trials[name] = Trial.of(replace(examples, name=name).check(), split_seed)
        except ExamplesError as error:
            raise ExamplesError(f"{name}: {error}") from None
    known = {name: trial.examples.subset(trial.train) for name, trial in trials.items()}
    return {name: Subject(model, trial, known, seed) for name, trial in trials.items()}
