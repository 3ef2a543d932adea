"""The contract of measures: a figure with its null, which is exceeded where something is and met where nothing is.

Every measure takes other arguments, so each has a *trial*: a function `trial(there, seed) -> Trial` that makes
arguments of which the answer is known, with the effect and without. That of a measure of covec's is in
`checks/trials/`, in the file that is called as the measure; that of another package's stands beside its measure, under
the name `trial`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covec import registry
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._trial import Trial
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.statistics.figure import Figure

SEEDS = range(5)  # worlds with the effect, and as many without
MET = 0.25  # of the effect: how far from the null the figures may lie on average where nothing is


@dataclass(frozen=True, eq=False)
class Subject:
    """The measure under test, and what makes arguments for it."""

    measure: Callable[..., Any]
    trial: Callable[[bool, int], Trial]

    def measured(self, given: Mapping[str, Any]) -> Figure:
        """The figure that it gives, or the one that what it gives rests on."""
        found = self.measure(**given)
        return found if isinstance(found, Figure) else found.figure


@lru_cache(maxsize=32)
def excess(subject: Subject, there: bool, seed: int) -> float:
    """By how much the figure exceeds its null in one of the worlds."""
    figure = subject.measured(subject.trial(there, seed).given)
    assert figure.null is not None
    return figure.value - figure.null


def it_is_a_figure_with_its_null(subject: Subject) -> None:
    """It gives a `Figure`, or something whose `figure` is one: a number, its null, its n and how they were got."""
    for there in (True, False):
        figure = subject.measured(subject.trial(there, 0).given)
        assert isinstance(figure, Figure)
        assert np.isfinite(figure.value)
        assert figure.null is not None, "the null is missing"
        assert figure.n, "it does not say on how much it rests"
        assert figure.how, "it does not say how it was got"
        assert Figure.from_json(figure.to_json()) == figure


def same_seed_same_bits(subject: Subject) -> None:
    """Measured twice it gives the same bits, whatever the state of the global random generators."""
    found = []
    for state in (1, 2):
        np.random.seed(state)
        torch.manual_seed(state)
        found.append(list(bits(subject.measure(**subject.trial(True, 0).given))))
    assert found[0] == found[1]


def what_it_is_given_is_left_alone(subject: Subject) -> None:
    """Arrays, tensors and models among its arguments are to the bit what they were, and no hook or gradient stays."""
    given = subject.trial(True, 0).given
    before = list(bits(given))
    subject.measured(given)
    assert list(bits(given)) == before


def what_is_there_stands_out(subject: Subject) -> None:
    """In each of five worlds with the effect it exceeds its null, and by more than in any of five without."""
    found, nothing = ([excess(subject, there, seed) for seed in SEEDS] for there in (True, False))
    assert min(found) > max(0.0, *nothing), (found, nothing)


def where_nothing_is_the_null_is_met(subject: Subject) -> None:
    """Without the effect the figure is its null on average, to a quarter of what the effect comes to."""
    found, nothing = ([excess(subject, there, seed) for seed in SEEDS] for there in (True, False))
    assert abs(np.mean(nothing)) < MET * np.mean(found), (found, nothing)


def bad_input_is_refused(subject: Subject) -> None:
    """One line for everything that its trial calls wrong, of which there is something."""
    trial = subject.trial(True, 0)
    assert trial.wrong, "nothing is called wrong"
    for what, instead in trial.wrong.items():
        try:
            refusal(partial(subject.measure, **{**trial.given, **instead}))
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from error


LAWS: tuple[Law, ...] = (
    it_is_a_figure_with_its_null,
    same_seed_same_bits,
    what_it_is_given_is_left_alone,
    what_is_there_stands_out,
    where_nothing_is_the_null_is_met,
    bad_input_is_refused,
)


def bits(thing: Any) -> Iterator[object]:
    """All numbers in what a measure is given, as something that can be compared later."""
    if isinstance(thing, Tensor):
        yield thing.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
    elif isinstance(thing, np.ndarray):
        yield thing.tobytes()
    elif isinstance(thing, TextModel):
        weights = list(thing.module.parameters())
        yield from bits(weights)
        yield [weight.grad is not None for weight in weights]
        yield [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in thing.module.modules()]
    elif is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            yield from bits(getattr(thing, field.name))
    elif isinstance(thing, Mapping):
        yield from bits([*thing.items()])
    elif isinstance(thing, Sequence) and not isinstance(thing, str | bytes):
        yield len(thing)
        for one in thing:
            yield from bits(one)
    elif isinstance(thing, str | bytes | bool | int | float):
        yield thing


def trial_of(measure: Callable[..., Any]) -> Callable[[bool, int], Trial]:
    """What makes arguments for a registered measure.

    Raises
    ------
    CovecError
        Nothing does.
    """
    entry: registry.Entry = measure.entry  # type: ignore[attr-defined]
    own = f"covec.checks.trials.{entry.name.replace('-', '_')}"
    where = importlib.import_module(own) if importlib.util.find_spec(own) else sys.modules[measure.__module__]
    found: Callable[[bool, int], Trial] | None = getattr(where, "trial", None)
    if found is None:
        raise CovecError(f"{entry.name} has no trial: define trial(there, seed) -> Trial beside it")
    return found


def measure_checks(
    measure: str | Callable[..., Any],
    trial: Callable[[bool, int], Trial] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> list[Check]:
    """The checks of a measure: a registered name, or a function; its trial is looked up where none is given."""
    found: Any = registry.get("measure", measure) if isinstance(measure, str) else measure
    subject = Subject(found, trial or trial_of(found))
    return checks("measure", found.entry.name, LAWS, subject, {**found.entry.cannot, **(expected_failures or {})})


def discovered() -> list[Check]:
    """The checks of every registered measure."""
    return [check for name in registry.names("measure") for check in measure_checks(name)]
