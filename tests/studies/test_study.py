"""The study end to end: on tiny models for its laws, on the embedded model for its sense."""

import json

import numpy as np
import pytest

import covec
from covec.concepts.bank import load_bank
from covec.concepts.examples import Examples
from covec.concepts.packaged import example_concept
from covec.models.text import TextModel
from covec.studies import Studies
from tiny import tiny_model

WORDS = ["the", "hotel", "was", "clean", "and", "people", "were", "film", "two", "hours", "water", "boils", "ice"]


def examples(n, seed=0, name="kind", mark=("kind", "dull")):
    """Random word strings; the concept is which of two words stands in them, three times."""
    rng = np.random.default_rng(seed)
    texts = [
        " ".join([*rng.choice(WORDS, 4), *3 * [mark[label]], *rng.choice(WORDS, 2)])
        for label in (0, 1)
        for _ in range(n)
    ]
    return Examples(tuple(texts), np.repeat([True, False], n), name=name)


@pytest.fixture(scope="module")
def model():
    return TextModel(*tiny_model("llama"), name="tiny")


@pytest.fixture(scope="module")
def full(model):
    return covec.study(model, examples(80), nulls=5)


def test_a_study_of_enough_rows_reports_everything(full):
    summary = json.loads(json.dumps(full.summary(), allow_nan=False))
    assert full.regime == "holdout"
    assert full.verdict in ("found", "text-only", "found-and-used", "not-found")
    assert full.n["train"] + full.n["validation"] + full.n["test"] == summary["n"] == 160
    assert set(summary["test"]) == {"accuracy", "auroc"}
    assert set(summary["baselines"]["bag_of_words"]) == {"accuracy", "auroc"}
    assert {"add", "ablate", "kl", "verdict"} <= set(summary["used"])
    assert summary["used"]["verdict"] in ("used", "steers-only", "not-shown")
    assert len(summary["sweep"]) == 4 * 2 * len(full.settings["finders"])
    assert 0 < full.p_test <= 1
    assert 0 < full.p_sweep <= 1
    assert summary["selected"]["position"] in ("last/none", "content/mean")


def test_what_is_decided_by_one_word_is_found_and_words_find_it_too(full):
    assert full.test["auroc"].value > 0.9
    assert full.bag_of_words["auroc"].value > 0.9
    assert full.p_test < 0.01


def test_the_vector_scores_the_class_means_at_half(full, model):
    part = full.best.parts[full.best.site]
    score = full.best.score(np.stack([part.mean_positive.numpy(), part.mean_negative.numpy()]))
    np.testing.assert_allclose(np.asarray(score), [0.5, -0.5], atol=1e-3)
    full.best.check_model(model.describe())


def test_the_same_seed_gives_the_same_study(model, full):
    again = covec.study(model, examples(80), nulls=5)
    one, other = full.summary(), again.summary()
    for summary in (one, other):
        for key in ("looks", "seconds"):
            del summary[key]
    assert one == other
    assert again.best.identical(full.best)
    assert again.looks == full.looks + 1


def test_the_files_of_a_study_say_the_same(full, tmp_path):
    full.write(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "report.html", "summary.json", "sweep.parquet", "vectors.safetensors",
    ]  # fmt: skip
    assert json.loads((tmp_path / "summary.json").read_text()) == json.loads(json.dumps(full.summary()))
    assert load_bank(tmp_path / "vectors.safetensors")["kind"].identical(full.best)


@pytest.mark.parametrize(("n", "regime"), [(30, "nested"), (10, "too-little-data")])
def test_little_data_are_cross_validated_with_the_selection_inside(model, n, regime):
    study = covec.study(model, examples(n), quick=True)
    assert study.regime == regime
    assert (study.verdict == "too-little-data") == (regime == "too-little-data")
    assert study.test["auroc"].n == 2 * n
    assert study.used.verdict == "not-tested"
    assert any("five folds" in note for note in study.notes)


def test_a_split_column_does_not_make_few_examples_enough(model):
    given = examples(12)
    parts = tuple(("train", "train", "validation", "test")[row % 4] for row in range(12) for _ in range(2))
    study = covec.study(model, Examples(given.inputs, given.labels, splits=parts, name="few"), quick=True)
    assert (study.verdict, study.regime) == ("too-little-data", "holdout")


def test_several_concepts_share_a_capture_and_are_nulls_of_each_other(model, monkeypatch):
    import covec.studies._sweep as sweep

    calls = []
    whole = sweep.capture_tokens
    monkeypatch.setattr(sweep, "capture_tokens", lambda *args, **options: calls.append(1) or whole(*args, **options))
    concepts = {"kind": examples(60), "clean": examples(60, 1, "kind", ("clean", "water"))}
    studies = covec.study(model, concepts, quick=True)
    assert isinstance(studies, Studies)
    assert calls == [1]
    assert list(studies) == [study.concept for study in studies.values()] == ["kind", "clean"]
    assert set(studies["kind"].wrong_concepts) == {"clean"}
    assert studies["kind"].wrong_concepts["clean"].value < studies["kind"].test["auroc"].value
    assert set(studies.summary()) == {"concepts", "cosines", "warnings", "seconds"}


def test_exact_permutations_refit_everything(model):
    study = covec.study(
        model, examples(60), sites="resid.1", finders="mean-difference", quick=True, exact_permutations=9
    )
    assert study.p_sweep == pytest.approx(0.1)
    assert any("9 full refits" in note for note in study.notes)


def test_shuffled_labels_are_not_found(model):
    given = examples(80)
    rng = np.random.default_rng(3)
    shuffled = Examples(given.inputs, rng.permutation(given.labels), name="nothing")
    assert covec.study(model, shuffled, quick=True).verdict == "not-found"


def test_sentiment_is_found_in_the_embedded_model(smol):
    study = covec.study(smol, example_concept(), sites="resid.14,resid.20", quick=True)
    assert study.verdict in ("found", "text-only")
    assert study.test["auroc"].value > 0.9
    assert study.test["auroc"].low > study.random_direction.high
