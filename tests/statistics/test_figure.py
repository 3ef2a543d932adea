"""A figure prints as documented, survives JSON and refuses what cannot be."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import FileError
from covec.statistics.figure import Figure

finite = st.floats(-1e6, 1e6)


def test_prints_as_documented():
    assert str(Figure(0.91, 0.86, 0.95, 0.52, 180)) == "0.91 [0.86, 0.95], null 0.52, n 180"
    assert str(Figure(0.5)) == "0.50"
    assert str(Figure(0.00123, n=5)) == "0.0012, n 5"
    assert str(Figure(math.nan)) == "n/a"


@settings(max_examples=50)
@given(st.lists(finite, min_size=3, max_size=3), st.none() | finite, st.none() | st.integers(0, 10**9), st.text())
def test_survives_json(ends, null, n, how):
    low, value, high = sorted(ends)
    figure = Figure(value, low, high, null, n, how)
    assert Figure.from_json(json.loads(json.dumps(figure.to_json(), allow_nan=False))) == figure


def test_nan_becomes_null_and_back():
    document = Figure(math.nan, n=3).to_json()
    assert document == {"value": None, "low": None, "high": None, "null": None, "n": 3, "how": ""}
    assert math.isnan(Figure.from_json(document).value)


def test_numpy_scalars_become_plain_numbers():
    figure = Figure(np.float32(0.5), np.float64(0.25), n=np.int64(4))
    assert [type(x) for x in (figure.value, figure.low, figure.n)] == [float, float, int]


def test_rounding_at_the_ends_is_tolerated():
    assert Figure(1.0, 0.9, 1.0 - 1e-9).high < 1


@pytest.mark.parametrize("wrong", [(0.5, 0.6, 0.7), (0.8, 0.6, 0.7), (0.5, 0.9, 0.1), (math.inf,)])
def test_refuses_what_cannot_be(wrong):
    with pytest.raises(ValueError, match="a figure"):
        Figure(*wrong)


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"value": 1.0},
        Figure(1.0).to_json() | {"extra": 1},
        Figure(1.0).to_json() | {"value": "high"},
        Figure(1.0).to_json() | {"low": 2.0},
        Figure(1.0).to_json() | {"null": True},
        Figure(1.0).to_json() | {"n": 1.5},
        Figure(1.0).to_json() | {"n": "9"},
        Figure(1.0).to_json() | {"how": 3},
    ],
)
def test_foreign_documents_are_refused(document):
    with pytest.raises(FileError, match="not a figure"):
        Figure.from_json(document)


def test_imports_only_the_standard_library():
    code = "import sys, covec.statistics.figure; print({'numpy', 'scipy', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
