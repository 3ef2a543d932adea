"""Every law of finders can be broken: one wrong finder for each."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
import pytest
import torch

from covec import registry
from covec.checks import check_finder
from covec.checks._check import Law, title
from covec.checks.finders import LAWS, finder_checks
from covec.checks.planted import draw
from covec.errors import CovecError, ExamplesError
from covec.find import Finder, Fits
from covec.find._rows import Rows
from covec.find.mean_difference import MeanDifference
from covec.registry import method


class Honest(Finder):
    """The difference of means, of which each saboteur is a wrong one."""

    def fit_rows(self, rows: Any) -> Self:
        self.direction_ = rows.mean(True) - rows.mean(False)
        return self

    def turned(self, by: Any) -> Self:
        self.direction_ = torch.nn.functional.normalize(self.direction_ + by, dim=0)
        return self


class Unseeded(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        return super().fit(X, y, **where).turned(1e-3 * torch.randn(X.shape[1]))


class Uncloned(Honest):
    def __sklearn_clone__(self) -> Self:
        return self


class FirstRow(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        return super().fit(X, y, **where).turned(0.01 * torch.as_tensor(X)[0])


class Numeric(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        named = np.asarray(y).dtype.kind in "UO"
        return super().fit(X, y, **where).turned(0.01 * named)


class Ordinal(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        return super().fit(X, np.asarray(y).astype(float) > 0.5, **where)


class Reversed(Honest):
    def fit_many(self, X: Any, y: Any, **where: Any) -> Fits:
        fits = MeanDifference().fit_many(torch.as_tensor(X).flip(0), y, **where)
        assert isinstance(fits, Fits)
        return fits


@method("two-minded", verb="find", needs="moments")
class TwoMinded(Finder):
    def fit_moments(self, moments: Any) -> Self:
        self.direction_ = moments.mean(True) - moments.mean(False) * (1 if isinstance(moments, Rows) else 0.5)
        return self


class Long(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        super().fit(X, y, **where).direction_ *= 2
        return self


class Backwards(Honest):
    def decision_function(self, X: Any) -> np.ndarray:
        return -super().decision_function(X) if isinstance(X, np.ndarray) else super().decision_function(X)


class Public(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        self.rows = X
        return super().fit(X, y, **where)


class Biased(Honest):
    def decision_function(self, X: Any) -> np.ndarray:
        return super().decision_function(X) + 0.1


class Precise(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        half = isinstance(X, torch.Tensor) and X.dtype == torch.bfloat16
        return super().fit(X, y, **where).turned(0.1 * half)


class Absolute(Honest):
    def fit_rows(self, rows: Any) -> Self:
        self.direction_ = (rows.mean(True) - rows.mean(False)) / (rows.covariance().diagonal() + 1)
        return self


class Uncentred(Honest):
    def fit_rows(self, rows: Any) -> Self:
        self.direction_ = rows.mean(True)
        return self


class Greedy(Honest):
    def fit_rows(self, rows: Any) -> Self:
        self.direction_ = rows.mean(True) - rows.mean(False) + 1e-3
        return self


class Demanding(Honest):
    def fit_rows(self, rows: Any) -> Self:
        if rows.count() < 4:
            raise ExamplesError("give four rows")
        return super().fit_rows(rows)


class Lenient(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        return super().fit(torch.nan_to_num(torch.as_tensor(X)), y, **where)


class InPlace(Honest):
    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        X -= X.mean(0)
        return super().fit(X, y, **where)


class Axis(Honest):
    def fit_rows(self, rows: Any) -> Self:
        self.direction_ = torch.eye(rows.X.shape[1])[0]
        return self


class Told(Honest):
    """Knows the truth whatever the labels say."""

    def fit(self, X: Any, y: Any, **where: Any) -> Self:
        super().fit(X, y, **where).direction_ = draw(2, X.shape[1], effect=1, seed=0).direction.float()
        return self


SABOTEURS: dict[str, type[Finder]] = {
    "same seed same bits": Unseeded,
    "clone forgets the fit": Uncloned,
    "order of rows changes nothing": FirstRow,
    "label types agree": Numeric,
    "more than two classes are refused": Ordinal,
    "several sites equal single ones": Reversed,
    "streams equal rows": TwoMinded,
    "unit norm sign and scores": Long,
    "scikit learn takes it": Backwards,
    "scikit learn finds no fault": Public,
    "saved vector is the same": Biased,
    "bfloat16 is enough": Precise,
    "scale of the model does not matter": Absolute,
    "shift of all rows changes nothing": Uncentred,
    "constant features are ignored": Greedy,
    "a row a class is enough": Demanding,
    "bad input is refused": Lenient,
    "input is left alone": InPlace,
    "easy direction found": Axis,
    "nothing found where nothing is": Told,
    "shuffled labels find nothing": Told,
    "hard direction found": Axis,
    "shuffled labels find nothing in the hard case": Told,
    "loud dimension survived": Honest,
}


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_a_finder_that_breaks_the_law_is_caught(law: Law) -> None:
    (check,) = (check for check in finder_checks(SABOTEURS[title(law)], {}) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_a_finder_and_names_the_law_it_breaks() -> None:
    losses = {"hard direction found": "the loudest noise drowns it", "loud dimension survived": "it is loud"}
    check_finder(Honest, losses)
    check_finder(registry.get("find", "ridge")(ridges=(0.01,)))
    with pytest.raises(AssertionError) as caught:
        check_finder(Long, losses)
    assert "find Long: unit norm sign and scores" in caught.value.__notes__[-1]


def test_a_finder_that_reads_more_than_rows_is_refused() -> None:
    @method("relational", verb="find", requires=("relation",))
    class Relational(Finder):
        pass

    with pytest.raises(CovecError, match="its contract is another"):
        check_finder(Relational)


@pytest.mark.parametrize("name", registry.names("find"))
def test_a_registered_finder_derives_from_the_contract_once(name: str) -> None:
    finder = registry.get("find", name)
    assert finder.__bases__ == (Finder,)
    assert finder.entry.name == name
    assert finder.__doc__
    assert inspect.getmodule(finder).__doc__
