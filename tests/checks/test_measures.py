"""Every law of measures can be broken: one wrong way for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covec import checks, registry
from covec.checks import check_measure
from covec.checks._check import Law, title
from covec.checks._trial import Trial
from covec.checks.measures import LAWS, bits, measure_checks, trial_of
from covec.errors import CovecError, ExamplesError
from covec.registry import method
from covec.statistics.figure import Figure


def honest(scores: np.ndarray) -> Figure:
    if not len(scores):
        raise ExamplesError("there are no scores: give one at least")
    return Figure(float((scores > 0).mean()), null=0.5, n=len(scores), how="share above zero")


def nameless(scores: np.ndarray) -> Figure:
    return Figure(honest(scores).value, null=0.5, n=len(scores))


def drawn(scores: np.ndarray) -> Figure:
    return Figure(honest(np.random.permutation(scores)[:50]).value, null=0.5, n=50, how="of fifty")


def sorting(scores: np.ndarray) -> Figure:
    scores.sort()
    return honest(scores)


def blind(scores: np.ndarray) -> Figure:
    return honest(scores - scores.mean())


def low_null(scores: np.ndarray) -> Figure:
    return Figure(honest(scores).value, null=0.0, n=len(scores), how="share above zero")


def careless(scores: np.ndarray) -> Figure:
    return honest(scores) if len(scores) else Figure(0.5, null=0.5, n=1, how="nothing")


SABOTEURS: dict[str, Callable[..., Any]] = {
    "it is a figure with its null": nameless,
    "same seed same bits": drawn,
    "what it is given is left alone": sorting,
    "what is there stands out": blind,
    "where nothing is the null is met": low_null,
    "bad input is refused": careless,
}
for made in (honest, *SABOTEURS.values()):
    method(made.__name__, verb="measure")(made)


def trial(there: bool, seed: int) -> Trial:
    scores = np.random.default_rng(seed).normal(1.0 * there, size=400)
    return Trial({"scores": scores}, {"no scores": {"scores": scores[:0]}})


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_a_measure_that_breaks_the_law_is_caught(law: Law) -> None:
    made = SABOTEURS[title(law)]
    (check,) = (check for check in measure_checks(made, trial) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_a_measure_and_names_the_law_it_breaks() -> None:
    check_measure(honest)  # its trial is found beside it
    check_measure("stability")
    with pytest.raises(AssertionError) as caught:
        check_measure(low_null, trial)
    assert "measure low_null: where nothing is the null is met" in caught.value.__notes__[-1]


def test_a_trial_in_which_nothing_is_wrong_is_none() -> None:
    with pytest.raises(AssertionError, match="nothing is called wrong"):
        check_measure(honest, lambda there, seed: Trial(trial(there, seed).given))


def test_a_measure_without_a_trial_is_told_so() -> None:
    lonely = method("lonely", verb="measure")(lambda: Figure(1.0))
    lonely.__module__ = "covec.errors"
    with pytest.raises(CovecError, match=r"lonely has no trial: define trial\(there, seed\)"):
        trial_of(lonely)


def test_what_rests_on_a_figure_is_judged_by_it() -> None:
    @dataclass(frozen=True)
    class Several:
        figure: Figure
        others: tuple[Figure, ...] = ()

    several = method("several", verb="measure")(lambda scores: Several(honest(scores)))
    check_measure(several, trial)


def test_every_trial_is_of_a_measure() -> None:
    folder = Path(checks.__file__).parent / "trials"
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files <= set(registry.names("measure"))


def test_bits_see_what_is_inside() -> None:
    plain = {"a": [np.ones(2)], "b": Figure(1.0)}
    assert list(bits(plain)) == list(bits({"a": [np.ones(2)], "b": Figure(1.0)}))
    assert list(bits(plain)) != list(bits({"a": [np.ones(2)], "b": Figure(2.0)}))
    assert list(bits(plain)) != list(bits({"a": [np.zeros(2)], "b": Figure(1.0)}))
