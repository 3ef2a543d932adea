"""The contract of finders that read a model: what holds of a fit to a network's weights and gradients.

The worlds are two toys in which the truth is known: later layers read the planted direction in one, in the other none
does, and no probe of activations can tell them apart.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from covec import registry
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._unchanged import unchanged
from covec.checks.recovery import of_random_directions
from covec.concepts.bank import load_vector
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.find import Finder
from covec.worlds.toys import WIDTH, Toy, toy

SITE = "resid.0"  # after which the toy that reads the direction reads it


@dataclass(frozen=True)
class Subject:
    """The finder under test; unfitted, and every fit is one of a fresh clone."""

    finder: Finder

    @property
    def entry(self) -> registry.Entry:
        """What it says of itself."""
        entry: registry.Entry = self.finder.entry
        return entry

    def fit(self, world: Toy, examples: Examples | None = None) -> Finder:
        """A fresh one, fitted on the examples of `world`, or on others."""
        fresh: Finder = clone(self.finder)
        return fresh.fit_model(world.model, world.examples if examples is None else examples, SITE)


@lru_cache(maxsize=4)
def world(read: bool, seed: int = 0) -> Toy:
    """A toy whose examples carry what finders may require: as observable and object a word of the class, and spans.

    Each text is one about its last word, which the other is the object of; as task, a good word after any.
    """
    made = toy(seed, read=read)
    words = tuple(f"{'good' if label else 'bad'}{row % 6}" for row, label in enumerate(made.examples.labels))
    spans = tuple((text.rindex(" ") + 1, len(text)) for text in made.examples.inputs)
    asked = tuple(f"good{row % 6}" for row in range(len(words)))
    carrying = replace(made.examples, extra={"observable": words, "object": words, "task": asked}, spans=spans)
    return replace(made, examples=carrying)


def same_seed_same_bits(subject: Subject) -> None:
    """Two fits are bit-equal, whatever the state of the global random generators."""
    found = []
    for state in (1, 2):
        np.random.seed(state)
        torch.manual_seed(state)
        found.append(subject.fit(world(True)))
    assert torch.equal(found[0].direction_, found[1].direction_)
    assert (found[0].intercept_, found[0].scale_) == (found[1].intercept_, found[1].scale_)


def order_of_rows_changes_nothing(subject: Subject) -> None:
    """The same examples in another order give the same direction to 1e-5."""
    examples = world(True).examples
    moved = examples.subset(np.random.default_rng(0).permutation(len(examples)))
    plain, other = subject.fit(world(True)), subject.fit(world(True), moved)
    torch.testing.assert_close(other.direction_, plain.direction_, rtol=0, atol=1e-5)


def several_sites_equal_single_ones(subject: Subject) -> None:
    """A batch of sites gives what one fit a site gives, to 1e-5."""
    made = world(True)
    sites = made.model.select("resid.*")
    X = made.model.capture(made.examples.inputs, sites, "last").stack()
    required = (name for name in subject.entry.requires if name != "pairs")
    columns: dict[str, Any] = {name: made.examples.column(name) for name in required}
    fits = clone(subject.finder).at(made.model, sites).fit_many(X, made.examples.labels, **columns)
    for site, direction in zip(sites, fits.directions, strict=True):
        single = clone(subject.finder).fit_model(made.model, made.examples, site)
        torch.testing.assert_close(direction, single.direction_, rtol=0, atol=1e-5)


def unit_norm_sign_and_scores(subject: Subject) -> None:
    """Unit norm, positive is more of the concept, and the class means score -0.5 and +0.5."""
    made = world(True)
    finder = subject.fit(made)
    rows = made.model.capture(made.examples.inputs, SITE, "last")[SITE]
    scores = finder.decision_function(rows)
    assert finder.direction_.dtype == torch.float32
    assert abs(float(finder.direction_.double().norm()) - 1) < 1e-6
    labels = made.examples.labels
    np.testing.assert_allclose([scores[labels].mean(), scores[~labels].mean()], [0.5, -0.5], atol=1e-5)


def saved_vector_is_the_same(subject: Subject) -> None:
    """Saved and loaded as a concept vector it is bit-equal."""
    found = subject.fit(world(True))
    means = found.mean_positive_, found.mean_negative_
    vector = ConceptVector.from_direction("planted", SITE, found.direction_, *means)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vector.safetensors"
        vector.save(path)
        assert load_vector(path).identical(vector)


def the_model_is_left_as_it_was(subject: Subject) -> None:
    """No weight, gradient, hook or output of the model is another one afterwards (K-9, K-12)."""
    made = world(True)
    with unchanged(made):
        subject.fit(made)


def what_later_layers_read_is_found(subject: Subject) -> None:
    """Where later layers read the planted direction, more than half of what is found, squared, lies along it."""
    made = world(True)
    assert float(subject.fit(made).direction_ @ made.direction) > 0.5**0.5


def what_no_layer_reads_is_not_found(subject: Subject) -> None:
    """Where none does, it is no nearer to it than random directions are, though probes find it as well as ever."""
    made = world(False)
    assert abs(float(subject.fit(made).direction_ @ made.direction)) < of_random_directions(WIDTH)


def bad_input_is_refused(subject: Subject) -> None:
    """One line for one class, for examples without what it requires, and for rows without a model."""
    made = world(True)
    bare = replace(made.examples, extra={})
    refusal(partial(subject.fit, made, bare))
    refusal(partial(subject.fit, made, made.examples.subset(np.flatnonzero(made.examples.labels))))
    refusal(partial(clone(subject.finder).fit, np.eye(4), [0, 1, 0, 1]))


LAWS: tuple[Law, ...] = (
    same_seed_same_bits,
    order_of_rows_changes_nothing,
    several_sites_equal_single_ones,
    unit_norm_sign_and_scores,
    saved_vector_is_the_same,
    the_model_is_left_as_it_was,
    what_later_layers_read_is_found,
    what_no_layer_reads_is_not_found,
    bad_input_is_refused,
)


def model_finder_checks(
    finder: str | type[Finder] | Finder, expected_failures: Mapping[str, str] | None = None
) -> list[Check]:
    """The checks of a finder that reads a model: a registered name, a class, or an instance."""
    found: Any = registry.get("find", finder) if isinstance(finder, str) else finder
    subject = Subject(found() if isinstance(found, type) else found)
    return checks("find", subject.entry.name, LAWS, subject, {**subject.entry.cannot, **(expected_failures or {})})


def reads_model(finder: str | type[Finder] | Finder) -> bool:
    """Whether this contract is the one of `finder`."""
    found: Any = registry.get("find", finder) if isinstance(finder, str) else finder
    entry = getattr(found, "entry", None)
    return entry is not None and entry.needs == "model"


def discovered() -> list[Check]:
    """The checks of every registered finder that reads a model."""
    return [check for name in registry.names("find") if reads_model(name) for check in model_finder_checks(name)]
