"""The contract of finders: what holds of every fit, whatever it finds.

What a finder must find, and must not, is in `recovery.py`. A finder that reads weights or gradients has another
contract.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from covec import registry
from covec.activations.moments import Moments
from covec.checks import recovery
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._elsewhere import read_elsewhere
from covec.checks.expected import SCIKIT_LEARN
from covec.checks.planted import Drawn, draw
from covec.concepts.bank import load_vector
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.find import Finder, fit_together

_HALF = 3e-2  # what bfloat16 may cost


@dataclass(frozen=True)
class Subject:
    """The finder under test; unfitted, and every fit is one of a fresh clone."""

    finder: Finder

    @property
    def entry(self) -> registry.Entry:
        """What it says of itself; a finder that is not registered needs rows alone."""
        return getattr(self.finder, "entry", None) or registry.Entry(type(self.finder).__name__, "find")

    @property
    def needs_pairs(self) -> bool:
        """Whether it cannot be fitted without pairs."""
        return "pairs" in self.entry.requires

    def columns(self, pairs: list[str] | None) -> dict[str, Any]:
        """What it requires of the examples beside labels, and nothing else: every other pair is of another category."""
        named = pairs or []
        known = {"pairs": pairs, "category": ["other" if int(pair.split()[-1]) % 2 else None for pair in named]}
        return {name: known[name] for name in self.entry.requires}

    def new(self) -> Finder:
        """One that was never fitted."""
        fresh: Finder = clone(self.finder)
        return fresh

    def fit(self, X: Any, y: Any, pairs: list[str]) -> Finder:
        """A fresh one, fitted; it sees the pairs only where it needs them."""
        return self.new().fit(X, y, **self.columns(pairs))

    def find(self, world: Drawn) -> Finder:
        """A fresh one, fitted on the rows of `world`."""
        return self.fit(world.X, world.y, world.pairs)

    def vector(self, world: Drawn) -> ConceptVector:
        """What it finds in `world`, as a concept vector."""
        found = self.find(world)
        means = found.mean_positive_, found.mean_negative_
        return ConceptVector.from_direction("planted", "resid.0", found.direction_, *means, method=self.entry.name)


def same_seed_same_bits(subject: Subject) -> None:
    """Two fits on the same rows are bit-equal, whatever the state of the global random generators."""
    world, found = draw(80, 24, effect=4, seed=0), []
    for state in (1, 2):
        random.seed(state)
        np.random.seed(state)
        torch.manual_seed(state)
        found.append(subject.find(world))
    assert torch.equal(found[0].direction_, found[1].direction_)
    assert (found[0].intercept_, found[0].scale_) == (found[1].intercept_, found[1].scale_)


def clone_forgets_the_fit(subject: Subject) -> None:
    """A clone has the parameters and nothing learned, and a fitted finder that is fitted again learns anew."""
    world, other = (draw(80, 24, effect=4, seed=seed) for seed in (1, 2))
    fitted = subject.find(other)
    fresh = clone(fitted)
    assert not hasattr(fresh, "direction_")
    assert {name: str(value) for name, value in fresh.get_params().items()} == {
        name: str(value) for name, value in subject.finder.get_params().items()
    }
    again = fitted.fit(world.X, world.y, **subject.columns(world.pairs))
    assert again is fitted
    assert torch.equal(again.direction_, subject.find(world).direction_)


def order_of_rows_changes_nothing(subject: Subject) -> None:
    """The same rows in another order give the same direction to 1e-6, for n > d and d > n."""
    for n, d in ((80, 24), (40, 96)):
        world = draw(n, d, effect=2, seed=1)
        order = np.random.default_rng(0).permutation(n)
        moved = subject.fit(world.X[order], world.y[order], [world.pairs[row] for row in order])
        torch.testing.assert_close(moved.direction_, subject.find(world).direction_, rtol=0, atol=1e-6)


def label_types_agree(subject: Subject) -> None:
    """Booleans, numbers, names, categories and one-hot labels give the same bits, and predictions of their kind."""
    world = draw(60, 24, effect=3, seed=2)
    names = np.where(world.y, "positive", "negative")
    wanted = subject.find(world)
    for labels in (
        world.y.astype(int),
        world.y.astype(np.uint8)[:, None],
        np.where(world.y, 1, -1),
        world.y.astype(float),
        torch.from_numpy(world.y),
        world.y.tolist(),
        names,
        names.tolist(),
        pd.Series(names, dtype="category"),
        pd.Categorical(names, categories=["positive", "negative"]),
        pd.Series(world.y, dtype="boolean"),
        np.eye(2)[world.y.astype(int)],
        pd.get_dummies(names),
    ):
        found = subject.fit(world.X, labels, world.pairs)
        assert torch.equal(found.direction_, wanted.direction_)
        assert list(found.predict(world.X) == found.classes_[1]) == list(wanted.predict(world.X))


def more_than_two_classes_are_refused(subject: Subject) -> None:
    """Numbers of more than two values are classes and never an amount: they are refused, and the line names them."""
    world, three = draw(60, 24, effect=3, seed=2), np.arange(60) % 3
    for labels in (three, three.astype(float), torch.from_numpy(three), pd.Series(three, dtype="category")):
        message = refusal(partial(subject.fit, world.X, labels, world.pairs))
        assert all(str(value) in message for value in range(3)), message


def several_sites_equal_single_ones(subject: Subject) -> None:
    """A batch of sites equals one fit a site, alone or together with another finder."""
    worlds = [draw(60, 24, effect=3, seed=seed) for seed in range(3)]
    X, y, pairs = torch.stack([world.X for world in worlds]), worlds[0].y, worlds[0].pairs
    own, finder = subject.columns(pairs), subject.new()
    fits = finder.fit_many(X, y, **own)
    together = fit_together({"one": finder, "two": clone(finder)}, X, y, **own)
    singles = [subject.fit(world.X, y, pairs) for world in worlds]
    assert torch.equal(fits.directions, torch.stack([single.direction_ for single in singles]))
    assert torch.equal(together["two"].directions, fits.directions)
    scores = np.stack([single.decision_function(world.X) for single, world in zip(singles, worlds, strict=True)])
    np.testing.assert_allclose(fits.score(X), scores, atol=1e-5)
    assert not hasattr(finder, "direction_"), "fit_many leaves the finder as it is"


def streams_equal_rows(subject: Subject) -> None:
    """A finder of moments gets from streamed chunks what it gets from the rows."""
    world = draw(120, 24, effect=3, seed=3)
    chunks = [(world.X[rows], world.y[rows]) for rows in np.split(np.arange(120), [7, 60])]
    streamed, wanted = subject.new().fit_moments(Moments.of(chunks, 24)), subject.find(world)
    torch.testing.assert_close(streamed.direction_, wanted.direction_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(streamed.decision_function(world.X), wanted.decision_function(world.X), atol=1e-4)


def unit_norm_sign_and_scores(subject: Subject) -> None:
    """Unit norm, positive is more of the concept, class means score -0.5 and +0.5, and their gap raises by 1."""
    world = draw(80, 24, effect=3, seed=4)
    finder = subject.find(world)
    scores = finder.decision_function(world.X)
    assert finder.direction_.dtype == torch.float32
    assert abs(float(finder.direction_.double().norm()) - 1) < 1e-6
    assert finder.direction_.double() @ world.direction > 0
    assert finder.scale_ > 0
    np.testing.assert_allclose([scores[world.y].mean(), scores[~world.y].mean()], [0.5, -0.5], atol=1e-5)
    gap = finder.mean_positive_ - finder.mean_negative_
    assert abs(float(gap @ finder.direction_) / finder.scale_ - 1) < 1e-4


def scikit_learn_takes_it(subject: Subject) -> None:
    """It works in pipelines and under cross-validation."""
    world = draw(80, 24, effect=4, seed=5)
    pipeline = make_pipeline("passthrough", subject.new())
    found = cross_val_score(pipeline, world.X.numpy(), world.y, cv=3, scoring="roc_auc", error_score="raise")
    assert found.mean() > 0.8


def scikit_learn_finds_no_fault(subject: Subject) -> None:
    """scikit-learn's own checks of a classifier pass, but for those that `expected.py` lists with the reason."""
    found = check_estimator(subject.new(), expected_failed_checks=SCIKIT_LEARN, on_skip=None, on_fail=None)
    failed = [f"{one['check_name']}: {one['exception']}" for one in found if one["status"] == "failed"]
    assert not failed, failed[0]


def saved_vector_is_the_same(subject: Subject) -> None:
    """Saved and loaded as a concept vector, here and in another process, it is bit-equal and scores as it did."""
    world = draw(60, 24, effect=3, seed=6)
    vector = subject.vector(world)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vector.safetensors"
        vector.save(path)
        loaded, elsewhere = load_vector(path), read_elsewhere(path, world.X)
    for direction, scores in ((loaded.direction, loaded.score(world.X)), (elsewhere.direction, elsewhere.scores)):
        assert torch.equal(direction, vector.direction)
        assert torch.equal(scores, vector.score(world.X))
    np.testing.assert_allclose(loaded.score(world.X).numpy(), subject.find(world).decision_function(world.X), atol=1e-4)


def bfloat16_is_enough(subject: Subject) -> None:
    """Rows in bfloat16 give the same direction to 3e-2, in float32."""
    world = draw(80, 24, effect=3, seed=7)
    half = subject.fit(world.X.bfloat16(), world.y, world.pairs)
    assert half.direction_.dtype == torch.float32
    assert float((half.direction_ - subject.find(world).direction_).norm()) < _HALF


def scale_of_the_model_does_not_matter(subject: Subject) -> None:
    """Rows 100 or 0.01 times as large give the same direction and scores, and a scale that follows (K-30)."""
    for factor in (100, 0.01):
        for n, d in ((80, 24), (40, 96)):
            world = draw(n, d, effect=2, seed=8)
            plain, scaled = subject.find(world), subject.fit(world.X * factor, world.y, world.pairs)
            torch.testing.assert_close(scaled.direction_, plain.direction_, rtol=0, atol=1e-5)
            assert abs(scaled.scale_ / plain.scale_ / factor - 1) < 1e-4
            scores = scaled.decision_function(world.X * factor)
            np.testing.assert_allclose(scores, plain.decision_function(world.X), atol=1e-4)


def shift_of_all_rows_changes_nothing(subject: Subject) -> None:
    """A constant added to all rows, ten times as large as their spread, changes neither direction nor scores."""
    world = draw(80, 24, effect=3, seed=9)
    shift = 10 * torch.randn(24, generator=torch.Generator().manual_seed(0))
    plain, moved = subject.find(world), subject.fit(world.X + shift, world.y, world.pairs)
    torch.testing.assert_close(moved.direction_, plain.direction_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(moved.decision_function(world.X + shift), plain.decision_function(world.X), atol=1e-4)


def constant_features_are_ignored(subject: Subject) -> None:
    """Features that do not vary get no weight and change nothing."""
    world = draw(80, 24, effect=3, seed=9)
    constant = torch.tensor([0.0, 1.0, -700.3]).expand(80, 3)
    padded = subject.fit(torch.cat([world.X, constant], 1), world.y, world.pairs)
    assert padded.direction_[24:].abs().max() < 1e-6
    torch.testing.assert_close(padded.direction_[:24], subject.find(world).direction_, rtol=0, atol=1e-5)


def a_row_a_class_is_enough(subject: Subject) -> None:
    """Two rows (two pairs, where it needs pairs) give a unit direction that puts the classes where they belong."""
    world = draw(4 if subject.needs_pairs else 2, 12, effect=9, seed=10)
    found = subject.find(world)
    assert abs(float(found.direction_.double().norm()) - 1) < 1e-6
    assert (found.predict(world.X) == world.y).all()


def bad_input_is_refused(subject: Subject) -> None:
    """One line for NaN, infinity, words, rows of a wrong shape or width, one class, and labels that do not fit."""
    world = draw(20, 8, effect=3, seed=10)
    fitted = subject.find(world)
    broken = [world.X.clone() for _ in range(2)]
    broken[0][3, 2], broken[1][3, 2] = float("nan"), float("inf")
    wrong_rows: list[Any] = [*broken, world.X[0], world.X[None], world.X[:, :0], np.full((20, 8), "word")]
    for X in wrong_rows:
        refusal(partial(subject.fit, X, world.y, world.pairs))
        refusal(partial(fitted.decision_function, X))
    refusal(partial(fitted.decision_function, world.X[:, :3]))
    for labels in (np.ones(20), world.y[1:], None, world.y[:, None, None]):
        refusal(partial(subject.fit, world.X, labels, world.pairs))


def input_is_left_alone(subject: Subject) -> None:
    """Fitting and scoring change neither rows nor labels, whatever array holds them."""
    world = draw(60, 24, effect=3, seed=11)
    rows, labels = world.X.clone(), world.y.copy()
    given: list[Any] = [rows, rows.numpy(), rows.double().numpy()]
    for X in given:
        subject.fit(X, labels, world.pairs).decision_function(X)
        assert (torch.as_tensor(X) == world.X).all()
        assert (labels == world.y).all()


LAWS: tuple[Law, ...] = (
    same_seed_same_bits,
    clone_forgets_the_fit,
    order_of_rows_changes_nothing,
    label_types_agree,
    more_than_two_classes_are_refused,
    several_sites_equal_single_ones,
    streams_equal_rows,
    unit_norm_sign_and_scores,
    scikit_learn_takes_it,
    scikit_learn_finds_no_fault,
    saved_vector_is_the_same,
    bfloat16_is_enough,
    scale_of_the_model_does_not_matter,
    shift_of_all_rows_changes_nothing,
    constant_features_are_ignored,
    a_row_a_class_is_enough,
    bad_input_is_refused,
    input_is_left_alone,
    *recovery.LAWS,
)
ONLY: dict[Law, Callable[[Subject], bool]] = {  # laws that have no meaning for some
    streams_equal_rows: lambda subject: subject.entry.needs == "moments",
    scikit_learn_takes_it: lambda subject: not subject.entry.requires,
    scikit_learn_finds_no_fault: lambda subject: not subject.entry.requires,
}


def finder_checks(
    finder: str | type[Finder] | Finder, expected_failures: Mapping[str, str] | None = None
) -> list[Check]:
    """The checks of a finder: a registered name, a class, or an instance with parameters of its own.

    Raises
    ------
    CovecError
        It reads weights or gradients, or needs what rows do not have.
    """
    found: Any = registry.get("find", finder) if isinstance(finder, str) else finder
    subject = Subject(found() if isinstance(found, type) else found)
    if not _reads_rows(subject.entry):
        raise CovecError(f"{subject.entry.name} needs more than rows, pairs and categories: its contract is another")
    laws = [law for law in LAWS if law not in ONLY or ONLY[law](subject)]
    return checks("find", subject.entry.name, laws, subject, {**subject.entry.cannot, **(expected_failures or {})})


def discovered() -> list[Check]:
    """The checks of every registered finder that reads rows."""
    finders = [name for name in registry.names("find") if _reads_rows(registry.get("find", name).entry)]
    return [check for name in finders for check in finder_checks(name)]


def _reads_rows(entry: registry.Entry) -> bool:
    return entry.needs != "model" and set(entry.requires) <= {"pairs", "category"}
