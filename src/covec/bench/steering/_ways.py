"""The rows of the bench: every registered way to steer, plain addition, nulls, and prompting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool

from covec import registry
from covec.bench.steering._subject import Subject
from covec.concepts.vector import ConceptVector
from covec.edits.dose import Family
from covec.errors import CovecError
from covec.find.mean_difference import MeanDifference
from covec.models.positions import Position
from covec.steer import Steering

METHOD, NULL, PROMPT, PLAIN = "method", "null", "prompt", "plain"
SHOTS = 4
_READ = Position("content", "mean")


@dataclass(frozen=True)
class Way:
    """A row of the bench: `learn` gives the edits of every strength, `ask` what the model is given for a prompt."""

    name: str
    kind: str
    learn: Callable[[Subject], Family] | None = None
    ask: Callable[[Subject, str], str] | None = None
    source: Any = None  # whose code the row depends on


def ways(methods: Sequence[str] | None, several: bool) -> tuple[Way, ...]:
    """All rows, in the order in which they are shown; the wrong concept needs `several`.

    Raises
    ------
    CovecError
        A method that is named is not one that learns a concept from examples.
    """
    steerings = _steerings()
    if unknown := [name for name in methods or () if name not in (*steerings, "addition")]:
        raise CovecError(f"no way to steer {unknown[0]!r}; known: {', '.join((*steerings, 'addition'))}")
    chosen = {name: kind for name, kind in steerings.items() if methods is None or name in methods}
    return (
        Way("unsteered", PLAIN, ask=lambda _, prompt: prompt),
        *(Way(name, METHOD, partial(_fitted, kind), source=kind) for name, kind in chosen.items()),
        Way("addition", METHOD, lambda subject: _difference(subject, subject.name).add),
        Way("shuffled-labels", NULL, lambda subject: _difference(subject, subject.name, shuffled=True).add),
        *([Way("wrong-concept", NULL, lambda subject: _difference(subject, subject.other).add)] if several else []),
        Way("random-direction", NULL, lambda subject: _random(subject).add),
        Way("prompting", PROMPT, ask=_told),
        Way("few-shot-prompting", PROMPT, ask=_shown),
    )


def _steerings() -> dict[str, type[Steering]]:
    found = {name: registry.get("steer", name) for name in registry.names("steer")}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Steering)}


def _fitted(kind: type[Steering], subject: Subject) -> Family:
    examples = subject.examples
    lacking = [one for one in kind.entry.requires if getattr(examples, one, None) is None and one not in examples.extra]
    if lacking:
        raise CovecError(f"{kind.entry.name} needs examples with {', '.join(lacking)}")
    return kind().fit(subject.model, examples).edits


def _difference(subject: Subject, concept: str, *, shuffled: bool = False) -> ConceptVector:
    """The difference of means of a concept's training rows at the usual site, with its labels or shuffled ones."""
    examples = subject.known[concept]
    rows = subject.model.capture(examples.inputs, subject.site, _READ)[subject.site]
    labels = _shuffled(examples.labels, examples.pairs, subject.seed) if shuffled else examples.labels
    found = MeanDifference().fit(rows, labels)
    return ConceptVector.from_direction(
        concept, subject.site, found.direction_, found.mean_positive_, found.mean_negative_,
        model=subject.model.describe(),
    )  # fmt: skip


def _shuffled(labels: Bool[np.ndarray, "n"], pairs: Sequence[Any] | None, seed: int) -> Bool[np.ndarray, "n"]:
    """Labels as chance could have given them: swapped within half of the pairs, or permuted where there are none."""
    rng = np.random.default_rng(seed)
    if pairs is None:
        return rng.permutation(labels)
    names = list(dict.fromkeys(pairs))
    swapped = {names[place] for place in rng.permutation(len(names))[: len(names) // 2]}
    return labels ^ np.array([pair in swapped for pair in pairs])


def _random(subject: Subject) -> ConceptVector:
    """An isotropic direction, as long as the concept's own shift."""
    own = _difference(subject, subject.name).write
    drawn = torch.randn(len(own), generator=torch.Generator().manual_seed(subject.seed))
    length = float(own.norm())
    return ConceptVector.from_direction(
        "random", subject.site, drawn, scale=length, scale_from="native", model=subject.model.describe()
    )


def _told(subject: Subject, prompt: str) -> str:
    return f"Here is a text that is full of {subject.meaning}.\n\n{prompt}"


def _shown(subject: Subject, prompt: str) -> str:
    return "\n".join([*subject.positives(SHOTS), prompt])
