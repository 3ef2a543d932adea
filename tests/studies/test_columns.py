"""Studies with finders that require more of the examples than labels: it is read from the file, row by row."""

import numpy as np
import pandas as pd
import pytest

import covec
from covec.concepts.examples import Examples
from covec.errors import CovecError, ExamplesError
from covec.models.text import TextModel
from tiny import tiny_model

WORDS = ["the", "hotel", "was", "clean", "and", "people", "were", "water", "boils", "ice"]
TOPICS = {"film": "film", "hours": "two hours", "": "melts"}


@pytest.fixture(scope="module")
def model():
    return TextModel(*tiny_model("llama"), name="tiny")


@pytest.fixture
def file(tmp_path):
    """Texts on two topics and on none; the concept is one of them."""
    rng = np.random.default_rng(0)
    rows = [
        {"text": " ".join([*rng.choice(WORDS, 4), *3 * [word], *rng.choice(WORDS, 3)]), "category": topic}
        for topic, word in TOPICS.items()
        for _ in range(80)
    ]
    frame = pd.DataFrame(rows)
    frame["label"] = frame["category"] == "film"
    path = tmp_path / "topics.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("rows", [slice(None), slice(None, None, 4)], ids=["holdout", "nested"])
def test_a_study_isolates_a_category_of_a_file(model, file, rows):
    examples = Examples.read(file)
    examples = examples.subset(range(*rows.indices(len(examples))))
    found = covec.study(model, examples, finders="repit", sites="resid.1", position="mean", quick=True)
    assert found.best.method == "repit"
    assert found.test["auroc"].value > 0.9
    assert found.stability.value > 0.5


def test_it_is_left_out_where_there_are_no_categories_and_refused_where_it_is_named(model):
    examples = Examples.from_lists([f"ice {n}" for n in range(60)], [f"film {n}" for n in range(60)])
    options = {"sites": "resid.1", "position": "mean", "quick": True}
    found = covec.study(model, examples, **options)
    assert any(note.startswith("skipped: ") and "repit (needs category)" in note for note in found.notes)
    assert "repit" not in {cell.finder for cell in found.cells}
    with pytest.raises(ExamplesError, match="repit needs category, which these examples do not carry"):
        covec.study(model, examples, finders="repit", **options)


def test_a_study_finds_with_a_finder_that_reads_the_model(model):
    """Its `observable` is the word that each text expects next; the words of the concept's two sides are tokens."""
    rng = np.random.default_rng(1)
    texts = [" ".join([*rng.choice(WORDS, 4), *3 * [word]]) for word in ("film", "two") for _ in range(60)]
    extra = {"observable": ("a",) * 60 + ("b",) * 60}
    examples = Examples(tuple(texts), np.repeat([True, False], 60), extra=extra)
    found = covec.study(model, examples, finders="obsprop", sites="resid.*", position="last", quick=True)
    assert {cell.finder for cell in found.cells} == {"obsprop"}
    assert found.best.method == "obsprop"
    assert found.stability.value > 0.9  # halves of the texts lead to one direction of the model's own


@pytest.mark.parametrize(("word", "why"), [("", "row 1 has no observable"), ("hotel", "give a word that is one token")])
def test_columns_of_another_kind_leave_a_finder_out_or_are_refused_before_any_work(model, word, why):
    texts, truth = [f"ice {n}" for n in range(120)], np.arange(120) % 2 == 0
    examples = Examples(tuple(texts), truth, extra={"observable": (word,) * 120})
    options = {"sites": "resid.1", "position": "mean", "quick": True}
    found = covec.study(model, examples, finders=None, **options)
    assert any("obsprop (" in note and why in note for note in found.notes)
    with pytest.raises(CovecError, match=why):
        covec.study(model, examples, finders="obsprop", **options)
