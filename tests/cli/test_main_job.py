"""The main job through the commands, on a tiny model: study, then detect, steer and export what it found."""

import json

import pytest

GOOD = ["fine", "kind", "clean", "warm", "lovely", "bright"]
BAD = ["dull", "cold", "dirty", "rude", "awful", "grim"]
THINGS = ["hotel", "film", "soup", "train", "song", "room", "town", "week", "talk", "walk", "book", "desk"]


@pytest.fixture
def file(tmp_path):
    """Sentences whose words tell the classes apart, two concepts of them."""
    rows = [
        {"text": f"The {thing} number {n} was {words[n % 6]}.", "label": label, "concept": concept}
        for concept, sides in {"mood": (GOOD, BAD), "coldness": (BAD, GOOD)}.items()
        for n in range(5)
        for thing in THINGS
        for words, label in zip(sides, (1, 0), strict=True)
    ]
    path = tmp_path / "concepts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


FILES = ["report.html", "summary.json", "sweep.parquet", "vectors.safetensors"]


def test_two_concepts_from_file_to_text(run, model, file, tmp_path):
    out = tmp_path / "out"
    ran = run("study", file, "--model", "tiny", "--out", out, "--quick", "--finders", "mean-difference,ridge", "--json")
    assert json.loads((out / "summary.json").read_text()) == ran.document
    assert [one["concept"] for one in ran.document["concepts"]] == ["mood", "coldness"]
    assert sorted(path.name for path in out.iterdir()) == FILES

    vectors = out / "vectors.safetensors"
    found = run("detect", vectors, "--text", "The hotel was lovely.", "--json").document["results"]
    assert [one["concept"] for one in found] == ["mood", "coldness"]
    assert all(one["probability"] is not None for one in found)
    steer = ["--prompt", "The hotel was", "--strength", "-1", "--strength", "1", "--max-new-tokens", 4]
    assert "mood, coldness" in run("steer", vectors, *steer).err
    assert len(run("steer", vectors, *steer, "--concept", "mood", "--json").document["results"]) == 2
    npy = ["--format", "npy", "--out", tmp_path / "mood.npy", "--concept", "mood"]
    assert run("export", vectors, *npy).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sites", "resid.99"], "resid.99"),
        (["--sites", "nowhere.1"], "nowhere.1"),
        (["--position", "middle"], "'middle'"),
        (["--position", "content"], "content/mean"),
        (["--finders", "magic"], "'magic'"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--continuations", "missing.csv"], "missing.csv"),
        (["--nulls", "0"], "--nulls"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_one_line(run, model, file, tmp_path, arguments, said):
    ran = run("study", file, "--model", "tiny", "--out", tmp_path / "out", *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert said in ran.err
    assert not (tmp_path / "out").exists()


def test_too_few_examples_are_refused(run, model, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(10)))
    ran = run("study", path, "--model", "tiny", "--out", tmp_path / "out")
    assert (ran.code, ran.err.count("\n"), (tmp_path / "out").exists()) == (2, 1, False)
    assert "8" in ran.err
