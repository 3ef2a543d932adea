"""The contract of explainers: figures with nulls, which tell what the model's answer rests on from what it does not.

The worlds are two toys in which the truth is known: later layers read the planted direction in one, in the other none
does, so that no answer rests on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from covec import registry
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._unchanged import unchanged
from covec.concepts.vector import ConceptVector
from covec.explain import Explainer, Explanation, explain
from covec.models.sites import Site
from covec.statistics.figure import Figure
from covec.worlds.toys import BAD, GOOD, Toy, toy

TARGET = {GOOD[0]: 1.0, BAD[0]: -1.0}
TEXTS = (
    f"word0 word1 {GOOD[1]} word2 word3",
    "word4 word5 word6",
    f"word7 {BAD[2]} word8 word9",
    f"word3 word1 word0 {GOOD[3]} word2 word7",
)


@dataclass(frozen=True)
class Subject:
    """The explainer under test."""

    explainer: Explainer

    def explain(self, made: Toy, texts: tuple[str, ...] = TEXTS, **others: Any) -> list[Explanation]:
        """What it says of `texts`, by the planted direction where it explains by vectors."""
        options = {"vectors": vectors(made) if self.explainer.takes_vectors else (), "target": TARGET, **others}
        found = explain(made.model, list(texts), explainer=self.explainer, **options)
        assert isinstance(found, list)
        return found


@lru_cache(maxsize=4)
def world(read: bool, seed: int = 0) -> Toy:
    """A toy, the same in every law."""
    return toy(seed, read=read, texts=24)


def vectors(made: Toy) -> tuple[ConceptVector, ...]:
    """The planted direction, as a concept vector of the toy."""
    rows = made.model.capture(made.examples.inputs, "resid.0", "mean")[Site.parse("resid.0")]
    labels = torch.from_numpy(made.examples.labels)
    means = rows[labels].mean(0), rows[~labels].mean(0)
    return (ConceptVector.from_direction("good words", "resid.0", made.direction, *means, model=made.model.describe()),)


def every_number_is_a_figure_with_its_null(subject: Subject) -> None:
    """An explanation is that of its text, and holds figures alone: a number, its null, its n, how they were got."""
    for text, found in zip(TEXTS, subject.explain(world(True)), strict=True):
        assert found.text == text
        assert found.figures
        for name, figure in found.figures.items():
            assert isinstance(figure, Figure)
            assert np.isfinite(figure.value), name
            assert figure.null is not None, name
            assert figure.n, name
            assert figure.how, name
        assert set(found.to_json()) >= {"text", "figures"}


def same_seed_same_bits(subject: Subject) -> None:
    """Explained twice a text has the same figures, whatever the state of the global random generators."""
    found = []
    for state in (1, 2):
        np.random.seed(state)
        torch.manual_seed(state)
        found.append([one.figures for one in subject.explain(world(True))])
    assert found[0] == found[1]


def the_model_is_left_as_it_was(subject: Subject) -> None:
    """No weight, gradient, hook or output of the model is another one after an explanation."""
    made = world(True)
    with unchanged(made):
        subject.explain(made)


def neighbours_change_nothing(subject: Subject) -> None:
    """Texts of unequal length have the figures that each has alone, in any order."""
    together = subject.explain(world(True))
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = subject.explain(world(True), (text,))
        _near(alone, found)
    for one, other in zip(subject.explain(world(True), TEXTS[::-1]), together[::-1], strict=True):
        _near(one, other)


def a_site_is_the_same_however_it_is_named(subject: Subject) -> None:
    """Its site as an address or as text gives equal figures."""
    for name in (subject.explainer.site, Site.parse(subject.explainer.site)):
        found = subject.explain(world(True), TEXTS[:1], site=name)
        assert found[0].figures == subject.explain(world(True), TEXTS[:1])[0].figures


def targets_add_up(subject: Subject) -> None:
    """Twice the weights give twice the figures, and the opposite ones the opposite."""
    (once,) = subject.explain(world(True), TEXTS[:1])
    for factor in (2.0, -1.0):
        (found,) = subject.explain(world(True), TEXTS[:1], target={word: factor * one for word, one in TARGET.items()})
        for name, figure in once.figures.items():
            assert abs(found.figures[name].value - factor * figure.value) < 1e-4, name


def what_the_answer_rests_on_stands_out(subject: Subject) -> None:
    """With a word's opposite in its place, which differs from it along the planted direction alone, figures move where
    later layers read that, and where none does by less than a tenth as far.
    """
    texts = (TEXTS[0], TEXTS[0].replace(GOOD[1], BAD[1]))
    moved = []
    for read in (True, False):
        one, other = (list(found.figures.values()) for found in subject.explain(world(read), texts))
        moved.append(max(abs(_above(mine) - _above(theirs)) for mine, theirs in zip(one, other, strict=True)))
    assert moved[0] > 10 * moved[1], moved


def bad_input_is_refused(subject: Subject) -> None:
    """One line for a word that is no token, for no word, for vectors that are not taken or are missing, for vectors of
    another model, and for an input without a token.
    """
    made = world(True)
    others: dict[str, Any]
    for others in ({"target": "no-such-word but several"}, {"target": {}}, {"target": {GOOD[0]: float("nan")}}):
        refusal(partial(subject.explain, made, **others))
    refusal(partial(subject.explain, made, vectors=() if subject.explainer.takes_vectors else vectors(made)))
    refusal(partial(subject.explain, made, vectors=vectors(world(True, 1))))
    refusal(partial(subject.explain, made, ("",)))


def _above(figure: Figure) -> float:
    return figure.value - (figure.null or 0.0)


def _near(one: Explanation, other: Explanation) -> None:
    assert one.figures.keys() == other.figures.keys()
    for name, figure in one.figures.items():
        assert abs(figure.value - other.figures[name].value) < 1e-4, name


LAWS: tuple[Law, ...] = (
    every_number_is_a_figure_with_its_null,
    same_seed_same_bits,
    the_model_is_left_as_it_was,
    neighbours_change_nothing,
    a_site_is_the_same_however_it_is_named,
    targets_add_up,
    what_the_answer_rests_on_stands_out,
    bad_input_is_refused,
)


def explainer_checks(
    explainer: str | type[Explainer] | Explainer, expected_failures: Mapping[str, str] | None = None
) -> list[Check]:
    """The checks of an explainer: a registered name, a class, or an instance with parameters of its own."""
    found: Any = registry.get("explain", explainer) if isinstance(explainer, str) else explainer
    subject = Subject(found() if isinstance(found, type) else found)
    entry = subject.explainer.entry
    return checks("explain", entry.name, LAWS, subject, {**entry.cannot, **(expected_failures or {})})


def discovered() -> list[Check]:
    """The checks of every registered explainer."""
    return [check for name in registry.names("explain") for check in explainer_checks(name)]
