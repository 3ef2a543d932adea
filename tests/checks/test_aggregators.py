"""Every law of aggregators can be broken: one wrong aggregator for each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
import pytest

from covec.checks import check_aggregator
from covec.checks._check import Law, title
from covec.checks.aggregators import LAWS, aggregator_checks
from covec.detect import Aggregator
from covec.detect._aggregator import ranges
from covec.detect.super_activators import SuperActivators
from covec.errors import CovecError


class Honest(Aggregator):
    """The mean of the lowest and the highest token, of which each saboteur is a wrong one."""

    def aggregate(self, scores: Any, offsets: Any) -> np.ndarray:
        values, bounds = ranges(scores, offsets)
        return np.array([self.one(row) for row in np.split(values, bounds[1:-1])])

    def one(self, row: np.ndarray) -> float:
        return float((row.min() + row.max()) / 2)


class Sum(Honest):
    def one(self, row: np.ndarray) -> float:
        return float(row.sum())


class Beyond(Honest):
    def one(self, row: np.ndarray) -> float:
        return float(2 * row.max() - row.min())


class Nearest(Honest):
    def one(self, row: np.ndarray) -> float:
        return float(row[np.abs(row).argmin()])


class Centred(Honest):
    def aggregate(self, scores: Any, offsets: Any) -> np.ndarray:
        return super().aggregate(scores, offsets) - 1e-9 * np.mean(scores)


class Choosy(Honest):
    def aggregate(self, scores: Any, offsets: Any) -> np.ndarray:
        return super().aggregate(scores, offsets).astype(getattr(scores, "dtype", float))


class Cut(Honest):
    def aggregate(self, scores: Any, offsets: Any) -> np.ndarray:
        return np.array([self.one(np.asarray(scores)[low:high]) for low, high in pairwise(offsets)])


class Deaf(Honest):
    def aggregate(self, scores: Any, offsets: Any) -> np.ndarray:
        return super().aggregate(np.nan_to_num(scores), offsets)


class Spans(Honest):
    read = "span/none"


class Fixed(Honest):
    def fit(self, scores: Any, offsets: Any, labels: Any, inside: Any = None) -> Self:
        return self


class FirstText(Honest):
    def fit(self, scores: Any, offsets: Any, labels: Any, inside: Any = None) -> Self:
        self.threshold = float(self.aggregate(scores, offsets)[0])
        return self


class Divided(Honest):
    def fit(self, scores: Any, offsets: Any, labels: Any, inside: Any = None) -> Self:
        found = self.aggregate(scores, offsets)
        self.threshold = float(found.mean() / (found.std() or np.nan))
        return self


class Careless(Honest):
    def fit(self, scores: Any, offsets: Any, labels: Any, inside: Any = None) -> Self:
        self.threshold = float(np.median(scores))
        return self


class Secret(Honest):
    secret = 0.0

    def fit(self, scores: Any, offsets: Any, labels: Any, inside: Any = None) -> Self:
        self.secret = 1.0
        return super().fit(scores, offsets, labels, inside)

    def one(self, row: np.ndarray) -> float:
        return super().one(row) + self.secret * (row.max() - row.min()) / 2


class Head(SuperActivators):
    def fit(self, scores: Any, offsets: Any, labels: Any, inside: Any = None) -> Self:
        super().fit(scores, offsets, labels, inside)
        self.threshold -= 1
        return self


SABOTEURS: dict[str, type[Aggregator]] = {
    "equal scores give that score": Sum,
    "a text scores within its tokens": Beyond,
    "higher tokens lower no text": Nearest,
    "neighbours change nothing": Centred,
    "every array of scores is taken": Choosy,
    "wrong offsets are refused": Cut,
    "scores that are no numbers are refused": Deaf,
    "a text without content has a token": Spans,
    "what can be told apart is": Fixed,
    "order of texts changes no threshold": FirstText,
    "ties are no trouble": Divided,
    "what cannot be fitted is refused": Careless,
    "name and threshold are all of it": Secret,
    "the tail is that of tokens that show the concept": Head,
}


@pytest.mark.parametrize("law", LAWS, ids=title)
def test_an_aggregator_that_breaks_the_law_is_caught(law: Law) -> None:
    (check,) = (check for check in aggregator_checks(SABOTEURS[title(law)], {}) if check.law is law)
    with pytest.raises((AssertionError, CovecError)) as caught:
        check.run()
    assert title(law) in caught.value.__notes__[-1]


def test_every_law_has_its_saboteur() -> None:
    assert list(SABOTEURS) == [title(law) for law in LAWS]


def test_one_call_checks_an_aggregator_and_names_the_law_it_breaks() -> None:
    check_aggregator(Honest)
    check_aggregator("mean")
    with pytest.raises(AssertionError) as caught:
        check_aggregator(Sum)
    assert "detect Sum: equal scores give that score" in caught.value.__notes__[-1]


def test_marks_that_mark_nothing_are_refused() -> None:
    with pytest.raises(CovecError, match="is marked"):
        SuperActivators().fit(np.arange(4.0), np.arange(5), np.array([True, False] * 2), np.zeros(4, dtype=bool))
