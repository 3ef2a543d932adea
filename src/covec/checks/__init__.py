"""Checks: the contract of each verb as code, run over every registered method by discovery.

`check_finder`, `check_edit`, `check_training`, `check_aggregator`, `check_namer`, `check_explainer`, `check_steering`,
`check_measure` and `check_vector` hold one method to its contract and raise at the first law that it breaks;
`all_checks` lists every law of everything that is found, for a test to run one by one:

    @pytest.mark.parametrize("check", covec.checks.all_checks(), ids=str)
    def test_contract(check):
        check.run()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covec.checks._check import Check
    from covec.checks._trial import Trial
    from covec.concepts.vector import ConceptVector
    from covec.detect import Aggregator
    from covec.explain import Explainer
    from covec.find import Finder
    from covec.name import Namer
    from covec.steer import Steering

Expected = Mapping[str, str] | None


def check_finder(finder: str | type[Finder] | Finder, expected_failures: Expected = None) -> None:
    """Hold a finder to its contract: a registered name, a class, or an instance with parameters of its own.

    Parameters
    ----------
    expected_failures
        Laws that it cannot keep, by their words, with the reasons; where one is kept after all, that raises too.

    Raises
    ------
    AssertionError, CovecError
        A law is broken; a note of the error says which.
    """
    from covec.checks.finders import finder_checks
    from covec.checks.model_finders import model_finder_checks, reads_model

    _run((model_finder_checks if reads_model(finder) else finder_checks)(finder, expected_failures))


def check_edit(make: str | Callable[..., Any], expected_failures: Expected = None) -> None:
    """Hold an edit to its contract: a function that makes it of a concept vector, or the name of one of covec's own.

    Parameters and errors are those of `check_finder`. A function with a parameter `strength` is also held to the laws
    of strengths.
    """
    from covec.checks.edits import edit_checks

    _run(edit_checks(make, expected_failures))


def check_training(make: str | Callable[..., Any], expected_failures: Expected = None) -> None:
    """Hold edits that are trained to their contract: a function that makes them for a model, untrained, or a name."""
    from covec.checks.training import training_checks

    _run(training_checks(make, expected_failures))


def check_aggregator(aggregator: str | type[Aggregator], expected_failures: Expected = None) -> None:
    """Hold an aggregator to its contract: a registered name, or a class; else as `check_finder`."""
    from covec.checks.aggregators import aggregator_checks

    _run(aggregator_checks(aggregator, expected_failures))


def check_steering(steering: str | type[Steering] | Steering, expected_failures: Expected = None) -> None:
    """Hold a way to steer to its contract: a registered name, a class, or one unfitted; else as `check_finder`."""
    from covec.checks.steering import steering_checks

    _run(steering_checks(steering, expected_failures))


def check_namer(namer: str | type[Namer] | Namer, expected_failures: Expected = None) -> None:
    """Hold a way to name to its contract: a registered name, a class, or an instance; else as `check_finder`."""
    from covec.checks.namers import namer_checks

    _run(namer_checks(namer, expected_failures))


def check_explainer(explainer: str | type[Explainer] | Explainer, expected_failures: Expected = None) -> None:
    """Hold an explainer to its contract: a registered name, a class, or an instance; else as `check_finder`."""
    from covec.checks.explainers import explainer_checks

    _run(explainer_checks(explainer, expected_failures))


def check_measure(
    measure: str | Callable[..., Any],
    trial: Callable[[bool, int], Trial] | None = None,
    expected_failures: Expected = None,
) -> None:
    """Hold a measure to its contract: a registered name, or a function; else as `check_finder`.

    `trial(there, seed)` makes arguments of which the answer is known; one that is found by the measure's name, or
    stands beside it, need not be given.
    """
    from covec.checks.measures import measure_checks

    _run(measure_checks(measure, trial, expected_failures))


def check_vector(vector: ConceptVector, expected_failures: Expected = None) -> None:
    """Hold a concept vector to its contract; else as `check_finder`."""
    from covec.checks.vectors import vector_checks

    _run(vector_checks(vector, expected_failures))


def all_checks() -> list[Check]:
    """Every check of every method that is registered, those of other packages too, and of covec's edits and vectors."""
    from covec.checks._rooms import ROOMS

    return [check for _, _, room in ROOMS for check in room.discovered()]


def _run(checks: Iterable[Check]) -> None:
    for check in checks:
        check.run()
