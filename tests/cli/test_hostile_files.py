"""Whatever a file holds and whatever a place is, the command line says one line, exits with 2 and leaves nothing."""

import os
from dataclasses import replace

import pytest

from concepts.hostile.cases import CASES, GOOD
from covec.concepts.bank import Bank, load_vector


def refused(ran, words=""):
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert len(ran.err) < 620
    assert words in ran.err


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_vector_stops_a_command_before_it_writes(run, tmp_path, name):
    vector = tmp_path / "v.safetensors"
    vector.write_bytes(CASES[name][0])
    refused(run("export", vector, "--out", tmp_path / "new" / "v.gguf"), "is no valid ")
    assert os.listdir(tmp_path) == ["v.safetensors"]


@pytest.fixture
def odd_places(tmp_path):
    """Things that are no ordinary files, under the endings that commands know."""
    home = tmp_path / "odd"
    home.mkdir()
    for ending in ("safetensors", "csv", "jsonl", "parquet", "txt"):
        os.mkfifo(home / f"pipe.{ending}")
        (home / f"zero.{ending}").symlink_to("/dev/zero")
        (home / f"loop.{ending}").symlink_to(f"loop.{ending}")
        (home / f"folder.{ending}").mkdir()
        with (home / f"huge.{ending}").open("wb") as file:
            file.truncate(2**40)
    return home


PLACES = ("pipe", "zero", "loop", "folder", "huge", "none", "a" * 300, "up/../none")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", [["compare"], ["export", "--out", "new/v.gguf"], ["steer", "--prompt", "a"]])
def test_an_odd_vector_is_refused(run, model, odd_places, tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    refused(run(*command, odd_places / f"{place}.safetensors", *(["--model", "tiny"] if "steer" in command else [])))
    assert os.listdir(tmp_path) == ["odd"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_odd_examples_are_refused(run, model, odd_places, tmp_path, ending, place):
    ran = run("study", odd_places / f"{place}.{ending}", "--model", "tiny", "--out", tmp_path / "new" / "out")
    refused(ran)
    assert os.listdir(tmp_path) == ["odd"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "txt"])
@pytest.mark.parametrize("command", ["detect", "capture"])
def test_an_odd_corpus_is_refused(run, model, vector_file, odd_places, tmp_path, command, ending, place):
    corpus = odd_places / f"{place}.{ending}"
    given = [vector_file, "--file", corpus] if command == "detect" else [corpus]
    refused(run(command, *given, "--model", "tiny", "--out", tmp_path / "new" / "out.parquet"))
    assert sorted(os.listdir(tmp_path)) == ["odd", vector_file.name]


@pytest.mark.parametrize("place", ["odd/pipe.txt", "odd/zero.txt", "odd/loop.txt", "odd", "odd/huge.txt/v", "a" * 300])
def test_an_odd_place_to_write_is_refused_and_left_as_it_is(run, model, odd_places, vector_file, tmp_path, place):
    (tmp_path / "corpus.txt").write_text("one\ntwo\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    refused(run("export", vector_file, "--out", tmp_path / place))
    refused(run("study", "none.csv", "--out", tmp_path / place))
    refused(run("capture", tmp_path / "corpus.txt", "--model", "tiny", "--out", tmp_path / place))
    refused(run("detect", vector_file, "--model", "tiny", "--file", tmp_path / "corpus.txt", "--out", tmp_path / place))
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "name", ["a/b", "\u0639\u0631\u0628", "caf\u00e9 \U0001f600", "-rf", "con", "a" * 200, "~", "$(id)", "*"]
)
def test_a_name_never_becomes_a_path(run, vector, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.safetensors").write_bytes(GOOD)
    good = load_vector("good.safetensors")
    Bank([replace(good, name=name), replace(good, name="other")]).save("bank.safetensors")
    assert run("export", "bank.safetensors", "--concept=" + name, "--out", "v.npy", "--format", "npy").code == 0
    assert run("compare", "bank.safetensors", "--json").code == 0
    assert sorted(os.listdir(tmp_path)) == ["bank.safetensors", "good.safetensors", "v.npy"]


def test_a_path_that_is_no_text_is_told_in_the_result_too(run, vector_file, tmp_path):
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.npy")
    ran = run("export", vector_file, "--format", "npy", "--out", place, "--json")
    assert (ran.code, ran.document["path"]) == (0, place)
