"""K-15, of what goes with labels: a column is read by the places of its entries, whatever it is and its index says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from covec import registry
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean", "A dull film: two hours", "ice melts at 0"]
SPANS = [(4, 9), (7, 11), (0, 3)]
CHATS = [[{"role": "user", "content": text}, {"role": "assistant", "content": text[::-1]}] for text in TEXTS]


def _objects(values: Sequence[Any]) -> Any:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


COLUMNS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "a tuple": tuple,
    "an array of objects": _objects,
    "a column": pd.Series,
    "a column turned round": lambda values: pd.Series(list(values)[::-1]).iloc[::-1],
    "a column of chosen rows": lambda values: pd.Series(values, index=[7, 0, 3]),
    "a column indexed by names": lambda values: pd.Series(values, index=["b", "a", "c"]),
}


@pytest.fixture(scope="module")
def model() -> TextModel:
    return TextModel(*tiny_model("llama"))


@pytest.fixture(scope="module")
def vector(model: TextModel) -> ConceptVector:
    rows = model.capture(TEXTS, "resid.1", "mean")["resid.1"]
    known = {"fingerprint": model.fingerprint}
    return ConceptVector.from_direction("one", "resid.1", rows[0] - rows[1], rows[0], rows[1], model=known)


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_inputs_and_what_goes_with_them(
    model: TextModel, vector: ConceptVector, column: Callable[[Sequence[Any]], Any]
) -> None:
    edits = [vector.add(strength) for strength in (-3.0, 0.0, 3.0)]

    def everything(of: Callable[[Sequence[Any]], Any]) -> list[Any]:
        moments = model.moments(of(TEXTS), "resid.1", "span/mean", spans=of(SPANS), labels=of([True, False, True]))
        return [
            model.capture(of(TEXTS), "resid.1", "span/mean", spans=of(SPANS))["resid.1"].tolist(),
            model.capture(of(CHATS), "resid.1", "prompt/mean")["resid.1"].tolist(),
            next(iter(moments.values())).mean(True).tolist(),
            model.generate(of(TEXTS), edits=of(edits), max_new_tokens=4),
            model.generate(of(CHATS), max_new_tokens=4),
            [one.score for one in model.detect(vector, of(TEXTS))],
            [one.score for one in model.detect(vector, of(CHATS))],
            Examples(of(TEXTS), of([True, False, True]), spans=of(SPANS), groups=of(["a", "b", "c"])).digest,
        ]

    assert everything(column) == everything(list)


def test_one_chat_is_one_input_and_one_text_is_one(model: TextModel, vector: ConceptVector) -> None:
    for one in (TEXTS[0], CHATS[0], tuple(CHATS[0])):
        assert isinstance(model.generate(one, max_new_tokens=2), str)
        assert isinstance(model.detect(vector, one).score, float)
    assert torch.equal(*(model.capture(given, "resid.1")["resid.1"] for given in ([CHATS[0]], [tuple(CHATS[0])])))


@pytest.mark.parametrize("name", ["pca-pairs", "ridge"])
@pytest.mark.parametrize(
    "column", [tuple, _objects, COLUMNS["a column turned round"]], ids=["tuple", "array", "column"]
)
def test_pairs_and_groups_of_finders(name: str, column: Callable[[Sequence[Any]], Any]) -> None:
    rng, kind = np.random.default_rng(0), registry.get("find", name)
    X, y = rng.normal(size=(30, 8)), np.arange(30) % 2 == 0
    ids = [str(row // 2 + 5 * (row > 20)) for row in range(30)]
    wanted = kind().fit(X, y, groups=ids, pairs=ids)
    found = kind().fit(X, y, groups=column(ids), pairs=column(ids))
    assert torch.equal(found.direction_, wanted.direction_)
