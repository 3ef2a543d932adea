"""What a study is settings is checked before any work."""

import pytest

from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.studies._settings import check_settings
from tiny import tiny_model


@pytest.fixture(scope="module")
def model():
    return TextModel(*tiny_model("llama"))


@pytest.fixture(scope="module")
def concepts():
    positive = [f"a kind and warm host number {n}" for n in range(20)]
    negative = [f"a cold and rude host number {n}" for n in range(20)]
    return {"kind": Examples.from_lists(positive, negative, name="kind")}


def ask(model, concepts, **options):
    usual = {
        "sites": "resid.*", "finders": None, "position": "last,mean", "continuations": None, "split_seed": 0, "seed": 0,
        "quick": False, "nulls": 19, "exact_permutations": None, "batch_tokens": 512,
    }  # fmt: skip
    return check_settings(model, concepts, **{**usual, **options})


def test_by_default_all_residual_sites_last_and_mean_and_every_finder_that_can_run(model, concepts):
    settings = ask(model, concepts)
    assert [str(site) for site in settings.sites] == [f"resid.{block}" for block in range(model.blocks)]
    assert [str(position) for position in settings.positions] == ["last/none", "content/mean"]
    assert "pca-pairs" not in settings.finders
    assert "pca-pairs (needs pairs)" in settings.notes[-1]
    assert {"mean-difference", "ridge", "logistic", "raptor", "svm", "whitened-difference"} <= set(settings.finders)


def test_quick_takes_every_third_block_and_closed_forms(model, concepts):
    settings = ask(model, concepts, quick=True)
    assert [site.block for site in settings.sites] == [0, 3]
    assert set(settings.finders) == {"mean-difference", "ridge", "whitened-difference"}
    assert "raptor" in ask(model, concepts, quick=True, finders="raptor").finders


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sites": "resid.99"}, "no site 'resid.99'"),
        ({"sites": "layer 3"}, "is not a site"),
        ({"finders": "no-such"}, "no find method 'no-such'"),
        ({"finders": "pca-pairs"}, "needs pairs"),
        ({"finders": ""}, "no finder is left"),
        ({"position": "middle"}, "is not a position"),
        ({"position": "content/none"}, "pool the position"),
        ({"nulls": 0}, "at least 1"),
        ({"seed": -1}, "seed must lie between 0 and"),
        ({"seed": 2**32}, "seed must lie between 0 and"),
        ({"split_seed": -1}, "split_seed must lie between 0 and"),
        ({"continuations": 3}, "continuations are texts"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_one_line(model, concepts, options, words):
    with pytest.raises(CovecError, match=words) as refused:
        ask(model, concepts, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("text,label\n", "has no rows"),
        ("text,label\ngood,joy\nbad,rest\n", "label continuations of the concept positive"),
        ("text,label\na,x\nb,y\nc,z\n", "label continuations of the concept positive"),
        ("text,label\ngood,1\nnice,1\n", "one label only"),
        ("text,label\ngood,1\ngood,0\n", "and the other label"),
        ("text,mark,more\ngood,1,2\n", "has no column 'label'"),
    ],
)
def test_bad_continuations_are_one_line_that_names_their_file(model, concepts, tmp_path, rows, words):
    path = tmp_path / "said.csv"
    path.write_text(rows)
    with pytest.raises(CovecError, match=words) as refused:
        ask(model, concepts, continuations=path)
    assert "said.csv" in str(refused.value)
    assert "--positive" not in str(refused.value)


def test_continuations_are_read_by_their_labels_and_a_guess_is_told(model, concepts, tmp_path):
    (tmp_path / "said.csv").write_text("said,label\ngood,positive\nbad,negative\nawful,negative\n")
    settings = ask(model, concepts, continuations=tmp_path / "said.csv")
    assert [(one.text, one.positive) for one in settings.continuations] == [
        ("good", True),
        ("bad", False),
        ("awful", False),
    ]
    assert any("said.csv" in note for note in settings.notes)
    with pytest.raises(CovecError, match="quick"):
        ask(model, concepts, continuations=tmp_path / "said.csv", quick=True)


def test_too_few_examples_are_refused(model):
    few = Examples.from_lists([f"good {n}" for n in range(7)], [f"bad {n}" for n in range(20)])
    with pytest.raises(CovecError, match="7"):
        ask(model, {"few": few})
