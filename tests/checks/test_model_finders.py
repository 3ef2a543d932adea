"""Every law of finders that read a model can be broken: one wrong finder for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest
import torch

from covec.checks import check_finder
from covec.checks._check import Law, title
from covec.checks.model_finders import LAWS, model_finder_checks, world
from covec.errors import CovecError
from covec.find import Fits
from covec.find.mean_difference import MeanDifference
from covec.find.obsprop import ObsProp


class Unseeded(ObsProp):
    def fit_many(self, X: Any, y: Any, **where: Any) -> Fits:
        found = super().fit_many(X, y, **where)
        return replace(found, directions=found.directions + 1e-3 * torch.randn(found.directions.shape))


class FirstRow(ObsProp):
    def fit_many(self, X: Any, y: Any, **where: Any) -> Fits:
        found = super().fit_many(X, y, **where)
        return replace(found, directions=found.directions + 0.01 * X[:, 0])


class Reversed(ObsProp):
    def fit_many(self, X: Any, y: Any, **where: Any) -> Fits:
        found = super().fit_many(X, y, **where)
        return replace(found, directions=found.directions.flip(0))


class Long(ObsProp):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        super().fit(X, y, **where).direction_ *= 2
        return self


class Nowhere(ObsProp):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        super().fit(X, y, **where).direction_ *= 0
        return self


class Careless(ObsProp):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        for weight in self._model.module.parameters():
            weight.grad = torch.zeros_like(weight)
        return super().fit(X, y, **where)


class Axis(ObsProp):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        super().fit(X, y, **where).direction_ = torch.eye(X.shape[1])[0]
        return self


class Probe(ObsProp):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        super().fit(X, y, **where).direction_ = MeanDifference().fit(X, y).direction_
        return self


class Lenient(ObsProp):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        return self


SABOTEURS: dict[str, type[ObsProp]] = {
    "same seed same bits": Unseeded,
    "order of rows changes nothing": FirstRow,
    "several sites equal single ones": Reversed,
    "unit norm sign and scores": Long,
    "saved vector is the same": Nowhere,
    "the model is left as it was": Careless,
    "what later layers read is found": Axis,
    "what no layer reads is not found": Probe,
    "bad input is refused": Lenient,
}


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_a_finder_that_breaks_the_law_is_caught(law: Law) -> None:
    (check,) = (check for check in model_finder_checks(SABOTEURS[title(law)]) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]
    for weight in world(True).model.module.parameters():
        weight.grad = None


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_a_finder_whatever_it_reads() -> None:
    check_finder(ObsProp(points=4))
    with pytest.raises(AssertionError) as caught:
        check_finder(FirstRow)
    assert "find obsprop: order of rows changes nothing" in caught.value.__notes__[-1]
