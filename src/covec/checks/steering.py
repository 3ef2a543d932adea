"""The contract of ways to steer: what they learn of a concept, and where their edits take a network.

The worlds are two toys in which the truth is known: later layers read the planted direction in one, in the other none
does.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from covec import registry
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._unchanged import unchanged
from covec.concepts.bank import Bank, load_bank
from covec.edits.algebra import Edit
from covec.steer import Steering, steerings
from covec.worlds.toys import BAD, GOOD, Toy, toy


@dataclass(frozen=True)
class Subject:
    """The way to steer under test, unfitted; every fit is one of a fresh copy."""

    steering: Steering

    def fit(self, world: Toy) -> Steering:
        """A fresh one, fitted on the examples of `world`."""
        return copy.deepcopy(self.steering).fit(world.model, world.examples)


@lru_cache(maxsize=4)
def world(read: bool, seed: int = 0) -> Toy:
    """A toy, the same in every law, with texts enough for probes that must be reliable."""
    return with_columns(toy(seed, read=read, texts=192))


def with_columns(made: Toy) -> Toy:
    """A toy whose examples carry what some methods ask for.

    Each text with good words has one with bad ones beside it, and a good word as its answer; the concept's name is in
    words that the toy knows.
    """
    given, count = made.examples, len(made.examples) // 2
    pairs = tuple(f"pair {row % count}" for row in range(2 * count))
    answers = tuple(GOOD[row % count % len(GOOD)] for row in range(2 * count))
    return replace(made, examples=replace(given, name=" ".join(GOOD[:3]), pairs=pairs, extra={"answer": answers}))


def concept_shown(made: Toy, edits: tuple[Edit, ...]) -> float:
    """How much likelier good words than bad ones are to follow neutral texts: the mean difference of their logits."""
    tokenizer, module = made.model.tokenizer, made.model.module
    good, bad = (tokenizer.convert_tokens_to_ids(list(words)) for words in (GOOD, BAD))
    ids = tokenizer(list(made.neutral[:32]), return_tensors="pt").input_ids
    with made.model.edit(*edits), torch.no_grad():
        logits = module(ids).logits[:, -1].double()
    return float((logits[:, good].mean(1) - logits[:, bad].mean(1)).mean())


def same_seed_same_bits(subject: Subject) -> None:
    """Two fits learn bit-equal vectors, whatever the state of the global random generators."""
    found = []
    for state in (1, 2):
        np.random.seed(state)
        torch.manual_seed(state)
        found.append(subject.fit(world(True)).vectors)
    assert list(found[0]) == list(found[1])
    assert all(found[0][name].identical(found[1][name]) for name in found[0])


def fit_gives_itself(subject: Subject) -> None:
    """`fit` returns the one it was called on, and one that is fitted again knows the last concept alone."""
    one, (first, second) = copy.deepcopy(subject.steering), (world(True), world(True, 1))
    assert one.fit(first.model, first.examples) is one
    again = one.fit(second.model, second.examples).vectors
    fresh = subject.fit(second).vectors
    assert all(again[name].identical(fresh[name]) for name in fresh)


def the_model_is_left_as_it_was(subject: Subject) -> None:
    """No weight, gradient, hook or output of the model is another one after a fit."""
    made = world(True)
    with unchanged(made):
        subject.fit(made)


def what_it_learned_are_concept_vectors(subject: Subject) -> None:
    """`vectors` is a bank that a file keeps to the bit, and each vector says its method, its model and its data."""
    made = world(True)
    found = subject.fit(made).vectors
    assert isinstance(found, Bank)
    assert len(found)
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder) / "bank")
        loaded = load_bank(Path(folder) / "bank")
    for name, vector in found.items():
        assert loaded[name].identical(vector)
        assert vector.method == subject.steering.entry.name
        assert vector.model["fingerprint"] == made.model.fingerprint
        assert vector.data["digest"] == made.examples.digest


def edits_belong_to_the_model(subject: Subject) -> None:
    """What `edits` gives is a tuple of edits that the model takes and another one refuses in a line."""
    made, other = world(True), world(True, 1).model
    edits = subject.fit(made).edits()
    assert isinstance(edits, tuple)
    assert edits
    assert all(isinstance(edit, Edit) for edit in edits)
    with made.model.edit(*edits):
        pass
    refusal(partial(other.edit, *edits))


def no_strength_no_edit(subject: Subject) -> None:
    """A strength of 0 gives no edits, so that the model runs as it is."""
    assert subject.fit(world(True)).edits(0.0) == ()


def equal_strengths_equal_edits(subject: Subject) -> None:
    """The same strength gives equal edits each time, an integer those of the same real number, and 1 is what is meant
    where none is said.
    """
    fitted = subject.fit(world(True))
    assert fitted.edits(2) == fitted.edits(2.0)
    assert fitted.edits() == fitted.edits(1.0)
    assert fitted.edits(-1.0) != fitted.edits(1.0)


def bad_input_is_refused(subject: Subject) -> None:
    """One line for edits before any fit, for a strength that is no finite number, and for examples of one class."""
    made = world(True)
    refusal(copy.deepcopy(subject.steering).edits)
    fitted = subject.fit(made)
    for strength in (math.nan, math.inf, -math.inf):
        refusal(partial(fitted.edits, strength))
    alone = replace(made, examples=made.examples.subset(np.flatnonzero(made.examples.labels)))
    refusal(partial(subject.fit, alone))


def strength_moves_what_is_written(subject: Subject) -> None:
    """Where later layers read the concept, its words become likelier with the strength, from -1 by halves to 1."""
    made = world(True)
    fitted = subject.fit(made)
    shown = [concept_shown(made, fitted.edits(strength)) for strength in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    assert sorted(set(shown)) == shown, shown


def what_no_layer_reads_moves_little(subject: Subject) -> None:
    """Where no layer reads the concept, the same strengths move its words less than half as far."""
    far, little = (
        concept_shown(made, fitted.edits(1.0)) - concept_shown(made, fitted.edits(-1.0))
        for made in (world(True), world(False))
        for fitted in (subject.fit(made),)
    )
    assert abs(little) < far / 2, (little, far)


LAWS: tuple[Law, ...] = (
    same_seed_same_bits,
    fit_gives_itself,
    the_model_is_left_as_it_was,
    what_it_learned_are_concept_vectors,
    edits_belong_to_the_model,
    no_strength_no_edit,
    equal_strengths_equal_edits,
    bad_input_is_refused,
    strength_moves_what_is_written,
    what_no_layer_reads_moves_little,
)


def steering_checks(
    steering: str | type[Steering] | Steering, expected_failures: Mapping[str, str] | None = None
) -> list[Check]:
    """The checks of a way to steer: a registered name, a class, or an instance that is not fitted."""
    found: Any = registry.get("steer", steering) if isinstance(steering, str) else steering
    subject = Subject(found() if isinstance(found, type) else found)
    entry = subject.steering.entry
    return checks("steer", entry.name, LAWS, subject, {**entry.cannot, **(expected_failures or {})})


def discovered() -> list[Check]:
    """The checks of every registered way to steer by edits."""
    return [check for name in steerings() for check in steering_checks(name)]
