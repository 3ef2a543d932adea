"""Labels of every type agree, and labels that name no concept are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.concepts._labels import Labels
from covec.errors import ExamplesError

TRUTH = np.array([True, False, False, True])
FORMS: dict[str, Sequence[Any]] = {
    "integers": [1, 0, 0, 1],
    "signs": [1, -1, -1, 1],
    "booleans": [True, False, False, True],
    "floats": [1.0, 0.0, 0.0, 1.0],
    "numeric strings": ["1", "0", "0", "1"],
    "floats as strings": ["1.0", "0.0", "0.0", "1.0"],
    "names": ["positive", "negative", "negative", "positive"],
    "names in any case": ["Pos", "neg", "NEG", "POS "],
    "yes and no": ["yes", "no", "no", "yes"],
    "true and false": ["True", "False", "False", "True"],
    "a name against another": ["positive", "neutral", "neutral", "positive"],
    "one-hot": [[0, 1], [1, 0], [1, 0], [0, 1]],
    "one-hot array": np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "one-hot tensor": torch.tensor([[0, 1], [1, 0], [1, 0], [0, 1]]),
    "column": [[1], [0], [0], [1]],
    "array": np.array([1, 0, 0, 1], dtype=np.int8),
    "tensor": torch.tensor([1, 0, 0, 1]),
    "category": pd.Series(["yes", "no", "no", "yes"], dtype="category"),
    "category of numbers": pd.Categorical([1, 0, 0, 1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_labels_agree(form: str) -> None:
    assert (Labels.parse(FORMS[form]).binary("data") == TRUTH).all()


@pytest.mark.parametrize(
    "values", [["cat", "dog"], [1, 2], ["1", "2"], ["yes", "true"], [3, 4], [0, 2], ["negative", "neutral"]]
)
def test_two_names_that_do_not_say_which_is_positive_are_refused(values: list[Any]) -> None:
    with pytest.raises(ExamplesError, match=r"data has the labels '.*', '.*'; say which .* --positive LABEL"):
        Labels.parse(values).binary("data")
    assert Labels.parse(values).binary("data", str(values[0])).tolist() == [True, False]


def test_more_than_two_labels_are_named_and_refused() -> None:
    labels = Labels.parse(["joy", "Anger", "fear", "joy"])
    with pytest.raises(ExamplesError, match=r"3 labels \('joy', 'Anger', 'fear'\); .* --each-class"):
        labels.binary("data")
    assert labels.binary("data", "anger").tolist() == [False, True, False, False]
    every = labels.concepts("data", None, each_class=True)
    assert {name: rows.tolist() for name, rows in every.items()} == {
        "joy": [True, False, False, True],
        "Anger": [False, True, False, False],
        "fear": [False, False, True, False],
    }


def test_many_labels_are_named_in_part() -> None:
    with pytest.raises(ExamplesError, match=r"'11' and 88 more\)"):
        Labels.parse(range(100)).binary("data")


def test_a_label_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ExamplesError, match="no label 'joys'; it has 'joy', 'fear'"):
        Labels.parse(["joy", "fear"]).binary("data", "joys")


def test_one_label_is_refused() -> None:
    with pytest.raises(ExamplesError, match="one label only, '1'; add examples of the other class"):
        Labels.parse([1, 1]).binary("data")


@pytest.mark.parametrize("missing", [None, "", "  ", float("nan"), "nan", np.nan])
def test_a_missing_label_says_where(missing: Any) -> None:
    with pytest.raises(ExamplesError, match="row 2: the label is missing"):
        Labels.parse([1, missing, 0])
    with pytest.raises(ExamplesError, match="line 7: the label is missing"):
        Labels.parse([1, missing], ["line 6", "line 7"])


def test_a_label_of_no_class_is_refused() -> None:
    with pytest.raises(ExamplesError, match="row 1: a label is a name or a number, not dict"):
        Labels.parse([{"joy": 1}])


@pytest.mark.parametrize("rows", [[["3"], ["4"], ["3", "4"]], ["3", "4", "3,4"], ["3", "4", "4, 3"]])
def test_a_row_may_have_several_labels(rows: list[Any]) -> None:
    labels = Labels.parse(rows)
    assert labels.binary("data", "3").tolist() == [True, False, True]
    assert labels.binary("data", "4").tolist() == [False, True, True]
    assert list(labels.spelling) == ["3", "4"]


def test_a_comma_in_a_name_is_part_of_it() -> None:
    assert Labels.parse(["red, white", "blue"]).binary("data", "Red, white").tolist() == [True, False]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30).filter(lambda values: len(set(values)) > 1))
def test_one_hot_rows_are_their_index(values: list[int]) -> None:
    one_hot = np.eye(5, dtype=int)[values]
    assert Labels.parse(one_hot).classes == Labels.parse(values).classes


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000])
def test_numbers_beyond_floats_are_names_like_others(digits):
    assert Labels.parse([digits, "0"]).binary("any", positive=digits).tolist() == [True, False]


def test_neighbours_that_a_float_cannot_tell_apart_stay_two_classes():
    assert len(Labels.parse([2**53, 2**53 + 1, "9007199254740993.0"]).spelling) == 2


def test_a_concept_is_called_as_the_file_spells_it():
    assert list(Labels.parse(["Joy", "fear", "anger"]).concepts("any", "JOY", each_class=False)) == ["Joy"]
