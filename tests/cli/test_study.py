"""`covec study`: what reaches the library, and what is left on disk when it fails."""

import json

import pytest

import covec
from covec.statistics.figure import Figure

FIGURE = Figure(0.9, 0.8, 0.95, 0.5, 20, "somehow").to_json()
SUMMARY = {
    "concept": "mood",
    "model": "tiny",
    "n": 20,
    "selected": {"finder": "ridge", "site": "resid.1", "position": "last/none"},
    "test": {"accuracy": FIGURE, "auroc": FIGURE},
    "p_test": 0.01,
    "p_sweep": None,
    "stability": FIGURE,
    "baselines": {
        "bag_of_words": {"accuracy": FIGURE, "auroc": FIGURE},
        "random_direction": FIGURE,
        "beyond_words": FIGURE,
    },
    "used": {"add": FIGURE, "ablate": None, "kl": FIGURE, "verdict": "steers-only"},
    "verdict": "found",
    "warnings": [],
    "notes": [],
    "sweep": [],
    "looks": 1,
    "seconds": 1.5,
}


class FakeStudy:
    notes = ("skipped paired-pca: needs pairs",)

    def summary(self):
        return SUMMARY

    def write(self, folder):
        (folder / "summary.json").write_text(json.dumps(SUMMARY))

    def __str__(self):
        return "mood in tiny"


@pytest.fixture
def asked(model, monkeypatch):
    """What `covec.study` was last asked; put an error under "raise" to have it raised."""
    seen = {}

    def study(model, examples, **options):
        seen.update(options, examples=examples)
        if "raise" in seen:
            raise seen["raise"]
        return FakeStudy()

    monkeypatch.setitem(vars(covec), "study", study)
    monkeypatch.setitem(vars(covec), "Study", FakeStudy)
    return seen


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mood.csv"
    rows = [f"a {word} day number {n},{label}" for n in range(12) for word, label in (("fine", 1), ("bad", 0))]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def test_the_document_is_printed_and_written(run, asked, file, tmp_path):
    ran = run("study", file, "--model", "tiny", "--out", tmp_path / "out", "--json")
    assert ran.document == SUMMARY
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == SUMMARY
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert str(tmp_path / "out" / "report.html") in ran.err


def test_a_study_in_the_place_of_another_says_so(run, asked, file, tmp_path):
    first, second = (run("study", file, "--model", "tiny", "--out", tmp_path / "out") for _ in range(2))
    assert "in place of the study that was there" not in first.err
    assert "in place of the study that was there" in second.err


@pytest.mark.parametrize("name", ["report.html", "summary.json"])
def test_files_that_no_study_wrote_are_left_alone(run, asked, file, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("[1, 2]")
    ran = run("study", file, "--model", "tiny", "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"holds {name}, which no study wrote" in ran.err
    assert [(path.name, path.read_text()) for path in (tmp_path / "out").iterdir()] == [(name, "[1, 2]")]


def test_too_few_rows_are_told_before_a_model_is_loaded(run, tmp_path):
    (tmp_path / "few.csv").write_text("text,label\ngood,1\nbad,0\n")
    ran = run("study", tmp_path / "few.csv", "--model", tmp_path / "no-such-model")
    assert ran.code == 2
    assert "few has 1 independent positive examples" in ran.err


def test_without_out_nothing_is_written(run, asked, file, tmp_path):
    ran = run("study", file, "--model", "tiny")
    assert (ran.code, ran.out, ran.err) == (0, "mood in tiny\n", "skipped paired-pca: needs pairs\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mood.csv"]


def test_every_option_reaches_the_library(run, asked, file):
    words = (
        "--sites resid.1 --finders ridge,raptor --position mean --split-seed 4 --seed 5 --quick --nulls 99 "
        "--exact-permutations 20 --batch-tokens 64"
    )
    assert run("study", file, "--model", "tiny", *words.split()).code == 0
    (examples,) = asked.pop("examples").values()
    assert len(examples) == 24
    del asked["progress"]
    assert asked == {
        "sites": "resid.1",
        "finders": "ridge,raptor",
        "position": "mean",
        "continuations": None,
        "split_seed": 4,
        "seed": 5,
        "quick": True,
        "nulls": 99,
        "exact_permutations": 20,
        "batch_tokens": 64,
    }


def test_classes_and_columns_reach_the_examples(run, asked, tmp_path):
    path = tmp_path / "colours.csv"
    rows = [f"{colour} thing {n},{colour}" for n in range(9) for colour in ("red", "green", "blue")]
    path.write_text("\n".join(["said,colour", *rows]) + "\n")
    columns = ["--model", "tiny", "--text-column", "said", "--label-column", "colour"]
    assert "red" in run("study", path, *columns).err
    assert run("study", path, *columns, "--positive", "red").code == 0
    assert [int(one.labels.sum()) for one in asked["examples"].values()] == [9]
    assert run("study", path, *columns, "--each-class").code == 0
    assert set(asked["examples"]) == {"red", "green", "blue"}


BAD = {
    "empty": b"",
    "half-written": b'{"text": "a", "label": 1}\n{"text": "b", "la',
    "encoding": "text,label\ncaf\u00e9,1\n".encode("utf-16"),
    "one class": b"text,label\n" + b"".join(b"text %d,1\n" % n for n in range(20)),
    "blank text": b"text,label\n" + b"".join(b"text %d,%d\n" % (n, n % 2) for n in range(20)) + b" ,1\n",
    "both labels": b"text,label\n" + b"".join(b"text %d,%d\n" % (n // 2, n % 2) for n in range(40)),
    "three labels": b"text,label\n" + b"".join(b"text %d,%d\n" % (n, n % 3) for n in range(40)),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_line_and_leaves_nothing(run, asked, tmp_path, kind):
    path = tmp_path / ("bad.jsonl" if kind == "half-written" else "bad.csv")
    path.write_bytes(BAD[kind])
    ran = run("study", path, "--model", "tiny", "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (covec.CovecError("no site 'resid.99' in this model"), 2),
        (MemoryError(), 2),
        (KeyboardInterrupt(), 130),
        (RuntimeError("a fault"), None),
    ],
)
def test_a_study_that_fails_leaves_nothing(run, asked, file, tmp_path, error, code):
    asked["raise"] = error
    if code is None:
        with pytest.raises(RuntimeError):
            run("study", file, "--model", "tiny", "--out", tmp_path / "out")
    else:
        assert run("study", file, "--model", "tiny", "--out", tmp_path / "out").code == code
    assert [found.name for found in tmp_path.iterdir()] == [file.name]


def test_a_text_that_is_too_long_is_told_by_its_line(run, model, tmp_path):
    path = tmp_path / "long.jsonl"
    rows = [{"text": f"word {n} {'water ' * (200 if n == 11 else 1)}", "label": n % 2} for n in range(20)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    ran = run("study", path, "--model", "tiny", "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("\n"), (tmp_path / "out").exists()) == (2, 1, False)
    assert "long.jsonl, line 12 has " in ran.err


def test_an_unknown_column_is_one_line(run, asked, file):
    ran = run("study", file, "--model", "tiny", "--text-column", "said")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "'said'" in ran.err


@pytest.mark.parametrize("missing", ["missing.csv", "folder"])
def test_a_missing_file_is_one_line(run, asked, tmp_path, missing):
    (tmp_path / "folder").mkdir()
    ran = run("study", tmp_path / missing, "--model", "tiny", "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("\n"), (tmp_path / "out").exists()) == (2, 1, False)


def test_an_unwritable_place_is_refused_before_any_work(run, asked, file):
    ran = run("study", file, "--model", "tiny", "--out", file / "out")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "examples" not in asked
