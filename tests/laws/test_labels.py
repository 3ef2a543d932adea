"""K-15: labels mean classes, in whatever type they come, and a column of numbers is never taken for a quantity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from covec import registry
from covec.concepts.examples import Examples, read_concepts
from covec.errors import CovecError
from covec.models.text import TextModel
from finding import OF_ROWS, columns
from laws.fresh import examples

ROWS = 16
TRUTH = np.arange(2 * ROWS) < ROWS
NAMES = np.where(TRUTH, "positive", "negative")
FORMS: dict[str, Any] = {
    "booleans": TRUTH,
    "integers": TRUTH.astype(int),
    "signs": np.where(TRUTH, 1, -1),
    "floats": TRUTH.astype(float),
    "a tensor": torch.from_numpy(TRUTH),
    "strings": NAMES.tolist(),
    "strings of numbers": [str(int(label)) for label in TRUTH],
    "one-hot rows": np.eye(2)[TRUTH.astype(int)],
    "categories": pd.Categorical(NAMES),
    "a column of categories": pd.Series(NAMES, dtype="category"),
    "a column of integers": pd.Series(TRUTH.astype(int)),
}
TEXTS = examples(ROWS).inputs


@pytest.fixture(scope="module")
def rows(smol: TextModel) -> torch.Tensor:
    return smol.capture(TEXTS, "resid.9", "mean")["resid.9"]


@pytest.mark.parametrize("name", OF_ROWS)
def test_every_finder_finds_the_same_probe(rows: torch.Tensor, name: str) -> None:
    kind = registry.get("find", name)
    required = columns(name, [f"pair {row % ROWS}" for row in range(2 * ROWS)])
    wanted = kind().fit(rows, TRUTH, **required)
    for form, labels in FORMS.items():
        found = kind().fit(rows, labels, **required)
        assert torch.equal(found.direction_, wanted.direction_), form
        assert (found.intercept_, found.scale_) == (wanted.intercept_, wanted.scale_), form
        concept = found.predict(rows) == found.classes_[1]
        assert np.array_equal(concept, wanted.predict(rows)), form


def written(folder: Path, kind: str, labels: Sequence[Any]) -> Path:
    """The texts with their labels as a file."""
    path = folder / f"data.{kind}"
    frame = pd.DataFrame({"text": TEXTS, "label": list(labels)})
    if kind == "jsonl":
        lines = [json.dumps({"text": text, "label": label}) for text, label in zip(TEXTS, labels, strict=True)]
        path.write_text("\n".join(lines), encoding="utf-8")
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("form", ["booleans", "integers", "signs", "floats", "strings", "strings of numbers"])
def test_every_file_and_form_give_the_same_examples(tmp_path: Path, kind: str, form: str) -> None:
    labels = FORMS[form].tolist() if isinstance(FORMS[form], np.ndarray) else FORMS[form]
    read = Examples.read(written(tmp_path, kind, labels))
    assert read.labels.dtype == np.bool_
    assert read.labels.tolist() == TRUTH.tolist()
    assert read.digest == Examples(TEXTS, TRUTH).digest


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], [-1, 0, 1, 7], [10, 20, 30, 31]])
def test_numbers_of_more_than_two_kinds_are_classes(tmp_path: Path, kind: str, labels: list[Any]) -> None:
    """Refused with their names, or one class against the rest, or each: never read as a quantity."""
    path = written(tmp_path, kind, labels * (len(TEXTS) // 4))
    with pytest.raises(CovecError, match=r"has 4 labels .*--positive LABEL.*--each-class"):
        Examples.read(path)
    one = Examples.read(path, positive=str(labels[2]))
    assert one.labels.tolist() == [row % 4 == 2 for row in range(len(TEXTS))]
    each = read_concepts(path, each_class=True)
    assert [list(found.labels).count(True) for found in each.values()] == [len(TEXTS) // 4] * 4


@pytest.mark.parametrize("name", OF_ROWS)
@pytest.mark.parametrize("labels", [np.arange(2 * ROWS) % 3, np.linspace(0, 1, 2 * ROWS), np.eye(3)[np.arange(32) % 3]])
def test_finders_refuse_what_are_not_two_classes(rows: torch.Tensor, name: str, labels: np.ndarray) -> None:
    required = columns(name, [f"pair {row % ROWS}" for row in range(2 * ROWS)])
    with pytest.raises(CovecError):
        registry.get("find", name)().fit(rows, labels, **required)
