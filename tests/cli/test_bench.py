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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench", "steer"), "no bench 'steer'"),
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
