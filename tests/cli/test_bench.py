"""`covec bench`: a small bench from the command line, its files, and what it refuses."""

from __future__ import annotations

import json

import pytest

from covec.bench import _texts
from covec.bench.concepts import packaged


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two concepts, a file each, and an encoder that needs no model."""
    import torch

    monkeypatch.setattr(
        _texts, "encoder", lambda model: (lambda texts: torch.tensor([[float(len(text))] for text in texts]), "")
    )
    made = tmp_path / "concepts"
    made.mkdir()
    for name, whole in list(packaged().items())[:2]:
        rows = [row for row in range(len(whole)) if row // 2 % 6 == 0]
        lines = [
            {"text": whole.inputs[row], "label": bool(whole.labels[row]), "pair": whole.pairs[row]} for row in rows
        ]
        (made / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return made


OPTIONS = ("--model", "tiny", "--sites", "resid.1", "--finders", "mean-difference")


def test_a_bench_prints_its_methods_and_writes_its_page(run, model, folder, tmp_path):
    found = run("bench", "detect", folder, *OPTIONS, "--out", tmp_path / "out")
    assert found.code == 0
    assert "mean-difference" in found.out
    assert "critical difference" in found.out
    assert "F1 of super-activators less that of mean" in found.out
    assert "bench.html" in found.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "bench.html", "bench.json", "bench.parquet", "rows"
    }  # fmt: skip


def test_its_json_keeps_to_the_schema_and_a_second_run_does_no_work(run, model, folder, tmp_path):
    first = run("bench", "detect", folder, *OPTIONS, "--out", tmp_path / "out", "--json")
    again = run("bench", "detect", folder, *OPTIONS, "--out", tmp_path / "out", "--json")
    assert first.document["reused"] == 0
    assert again.document["reused"] == len(again.document["rows"])
    assert again.document["rows"] == first.document["rows"]


def test_ways_to_steer_are_told_by_score_and_written(run, model, folder, tmp_path, monkeypatch):
    from covec.bench.steering import _run

    monkeypatch.setattr(_run, "_PROMPTS", 4)
    monkeypatch.setattr(_run, "encoder", _texts.encoder)
    options = ("--model", "tiny", "--methods", "addition", "--doses", "0.1", "--out", tmp_path / "out")
    found = run("bench", "steer", folder, *options)
    assert found.code == 0, found.err
    assert "shuffled labels" in found.out
    assert "bench.html" in found.err
    again = run("bench", "steer", folder, *options, "--json")
    assert again.document["reused"] == len(again.document["rows"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "erase"), "no bench 'erase'"),
        (("bench", "steer", "--sites", "resid.1"), "--sites is for `covec bench detect`"),
        (("bench", "detect", "--doses", "0.1"), "--doses is for `covec bench steer`"),
        (("bench", "steer", "--doses", "much"), "--doses cannot be 'much'"),
        (("bench", "steer", "--model", "tiny", "--doses", "-1"), "above 0"),
        (("bench", "steer", "--model", "tiny", "--methods", "none-such"), "none-such"),
        (("bench", "detect", "--positive", "x"), "are for a file"),
        (("bench", "detect", "nowhere.jsonl", "--model", "tiny"), "nowhere.jsonl"),
        (("bench", "detect", "--model", "tiny", "--finders", "none-such"), "none-such"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(run, model, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    found = run(*words, "--out", "out")
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1
    assert not (tmp_path / "out").exists()
