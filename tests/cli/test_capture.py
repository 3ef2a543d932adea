"""`covec capture`: a folder of rows or of moments, taken up again, and refused where it belongs to something else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import covec
from covec.activations import stream

TEXTS = [f"The hotel was {'very ' * (row % 5)}clean on day {row}." for row in range(60)]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    rows = ({"text": text, "kind": "even" if row % 2 == 0 else "odd", "day": row} for row, text in enumerate(TEXTS))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_are_what_the_python_api_gives(run, model, corpus, tmp_path):
    out = tmp_path / "made" / "store"
    ran = run(
        "capture", corpus, "--model", "tiny", "--sites", "resid.1", "--out", out, "--label-column", "kind", "--json"
    )
    rows = model.capture(TEXTS, "resid.1", "content/none")
    expected = {
        "path": str(out), "content": "rows", "model": "tiny", "sites": ["resid.1"], "position": "content/none",
        "dtype": "float32", "inputs": 60, "tokens": sum(len(item.ids) for item in model.tokenize(TEXTS)),
        "rows": len(rows["resid.1"]), "resumed": 0,
    }  # fmt: skip
    assert {name: ran.document[name] for name in expected} == expected
    assert ran.document["bytes"] == sum(file.stat().st_size for file in out.iterdir())
    store = covec.load_store(out, model)
    assert store.labels()[:2] == ["even", "odd"]
    torch.testing.assert_close(store.activations()["resid.1"], rows["resid.1"], rtol=0, atol=1e-5)


def test_moments_alone_are_small(run, model, corpus, tmp_path):
    arguments = ("--model", "tiny", "--position", "mean", "--moments", "--label-column", "kind", "--json")
    document = run("capture", corpus, *arguments, "--out", tmp_path / "m").document
    assert (document["content"], document["rows"], len(document["sites"])) == ("moments", 60, model.blocks)
    moments = covec.load_moments(tmp_path / "m")[covec.Site.parse("resid.2")]
    torch.testing.assert_close(
        moments.mean("odd").float(), model.capture(TEXTS[1::2], "resid.2", "mean")["resid.2"].mean(0)
    )
    again = run("capture", corpus, *arguments, "--out", tmp_path / "m").document
    assert (again["resumed"], again["rows"], again["tokens"]) == (60, 60, document["tokens"])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_without_json_two_lines(run, model, corpus, tmp_path, dtype):
    arguments = (
        "capture",
        corpus,
        "--model",
        "tiny",
        "--position",
        "last",
        "--rows-dtype",
        dtype,
        "--out",
        tmp_path / "s",
    )
    first, second = run(*arguments).out.splitlines()
    assert first.startswith("60 inputs, ")
    assert f"rows at {model.blocks} sites in {dtype}" in first
    assert second == f"written to {tmp_path / 's'}"
    again = run(*arguments)
    assert (again.code, again.out.splitlines()[1]) == (0, second)
    assert "60 of 60 texts were there from an earlier run" in again.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sites", "resid.9"], "no site 'resid.9'"),
        (["--position", "here"], "is not a position"),
        (["--position", "90"], "line 1, which has"),
        (["--rows-dtype", "int8"], "cannot be kept as 'int8'"),
        (["--moments", "--rows-dtype", "float16"], "leave one of the two out"),
        (["--text-column", "words"], "'words'"),
        (["--label-column", "class"], "'class'"),
        (["--batch-tokens", "0"], "--batch-tokens"),
        (["--model", "other"], "no model 'other'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(run, model, corpus, tmp_path, arguments, said):
    chosen = [] if "--model" in arguments else ["--model", "tiny"]
    ran = run("capture", corpus, "--out", tmp_path / "made" / "store", *chosen, *arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.jsonl", "", "no rows"),
        ("half.jsonl", '{"text": "a"}\n{"te', "line 2 is not JSON"),
        ("long.jsonl", json.dumps({"text": "a"}) + "\n" + json.dumps({"text": "a b " * 200}) + "\n", "line 2 has 4"),
        ("a.docx", "a", "ending in"),
    ],
)
def test_bad_corpora_are_one_line(run, model, tmp_path, name, content, said):
    (tmp_path / name).write_text(content)
    ran = run("capture", tmp_path / name, "--model", "tiny", "--out", tmp_path / "store")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err
    assert not (tmp_path / "store").exists()


def test_labels_that_are_missing_are_told_by_their_line(run, model, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\na b,yes\nc d,\n")
    ran = run("capture", tmp_path / "a.csv", "--model", "tiny", "--label-column", "label", "--out", tmp_path / "s")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "line 3: the label is missing" in ran.err


def test_another_position_is_refused(run, model, corpus, tmp_path):
    arguments = ("capture", corpus, "--model", "tiny", "--out", tmp_path / "s", "--position")
    assert run(*arguments, "last").code == 0
    ran = run(*arguments, "mean")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "the position changed" in ran.err


COMMAND = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import covec, torch
from covec import cli
from covec.activations import store, stream
from covec.models.text import TextModel
from tiny import tiny_model

written, write = [], store.write_shard

def interrupted(folder, window, *args, **options):
    write(folder, window, *args, **options)
    written.append(window)
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGINT)

store.write_shard = interrupted
torch.set_num_threads(1)
stream.WINDOW_TOKENS, stream._AT_ONCE = 40, 4
model = TextModel(*tiny_model("llama"), name="tiny")
vars(covec)["load"] = lambda *_, **__: model
cli.main(sys.argv[2:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another signal there")
def test_ctrl_c_leaves_what_the_next_run_goes_on_from(run, model, tmp_path, monkeypatch):
    corpus, out = tmp_path / "long.txt", tmp_path / "s"
    corpus.write_text("\n".join(TEXTS * 4))
    words = ["capture", str(corpus), "--model", "tiny", "--position", "mean", "--out", str(out)]
    command = [sys.executable, "-c", COMMAND, str(Path(__file__).parents[1]), *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert "Traceback" not in ran.stderr
    assert len(list(out.glob("*.safetensors"))) == 3
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 40)
    done = len(covec.load_store(out, partial=True))
    assert 0 < done < 240
    document = run(*words, "--json").document
    assert (document["resumed"], document["rows"]) == (done, 240)


@pytest.mark.parametrize(("ledger", "words"), [("[1", "is damaged"), ('{"a": 1}', "is of something else")])
def test_a_folder_with_a_ledger_of_something_else_is_left_as_it_is(run, model, corpus, tmp_path, ledger, words):
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "ledger.json").write_text(ledger)
    ran = run("capture", corpus, "--model", "tiny", "--sites", "resid.1", "--out", tmp_path / "books")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert words in ran.err
    assert [(path.name, path.read_text()) for path in (tmp_path / "books").iterdir()] == [("ledger.json", ledger)]


def test_a_column_of_labels_that_is_not_there_is_told_with_those_that_are(run, model, corpus, tmp_path):
    ran = run("capture", corpus, "--model", "tiny", "--out", tmp_path / "c", "--label-column", "stars")
    assert (ran.code, (tmp_path / "c").exists()) == (2, False)
    assert "no column 'stars'; it has 'text', 'kind', 'day'; name one of these" in ran.err
