"""Folders of examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covec.concepts._folders import tables
from covec.concepts.examples import Examples, read_concepts
from covec.errors import ExamplesError


def lists(folder: Path, positive: str = "good\nfine\n", negative: str | None = "bad\r\n\r\npoor") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "positive.txt").write_bytes(positive.encode())
    if negative is not None:
        (folder / "negative.txt").write_bytes(negative.encode())
    return folder


def test_two_lists_are_a_concept_named_after_their_folder(tmp_path: Path) -> None:
    examples = Examples.read(lists(tmp_path / "quality"))
    assert examples.name == "quality"
    assert examples.positive == ("good", "fine")
    assert examples.negative == ("bad", "poor")
    assert examples.pairs is None


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    (table,) = tables(lists(tmp_path / "quality"))
    assert table.places[-1].endswith("negative.txt, line 3")


def test_files_and_folders_in_a_folder_are_a_concept_each(tmp_path: Path) -> None:
    lists(tmp_path / "quality")
    (tmp_path / "truth.csv").write_text("text,label\nwater is wet,1\nice is hot,0\n")
    (tmp_path / "mood.jsonl").write_text('{"text": "hooray", "label": "joy"}\n{"text": "ugh", "label": "anger"}\n')
    (tmp_path / "README.md").write_text("what this is")
    (tmp_path / ".hidden.csv").write_text("nothing")
    with pytest.raises(ExamplesError, match="mood.jsonl has the labels 'joy', 'anger'"):
        read_concepts(tmp_path)
    assert [table.name for table in tables(tmp_path)] == ["mood", "quality", "truth"]
    (tmp_path / "mood.jsonl").unlink()
    concepts = read_concepts(tmp_path)
    assert list(concepts) == ["quality", "truth"]
    assert concepts["quality"].notes == (f"{tmp_path}: skipped, as no examples: 'README.md'",)
    assert concepts["truth"].positive == ("water is wet",)
    with pytest.raises(
        ExamplesError, match=r"has 2 concepts \('quality', 'truth'\); read them with covec.read_concepts"
    ):
        Examples.read(tmp_path)


def test_classes_of_several_files_carry_the_file_in_their_names(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("text,label\nhooray,joy\nugh,anger\n")
    assert list(read_concepts(tmp_path, each_class=True)) == ["a-joy", "a-anger", "b-joy", "b-anger"]


def test_two_concepts_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "a.tsv"):
        (tmp_path / name).write_text("text,label\nwet,1\nhot,0\n".replace(",", "," if name == "a.csv" else "\t"))
    with pytest.raises(ExamplesError, match="two concepts called 'a'; rename a file"):
        read_concepts(tmp_path)


def test_half_of_the_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExamplesError, match=r"no file .*negative.txt"):
        tables(lists(tmp_path / "quality", negative=None))
    with pytest.raises(ExamplesError, match=r"negative.txt is empty"):
        tables(lists(tmp_path / "quality", negative=" \n"))


def test_a_folder_without_examples_says_what_it_has_and_needs(tmp_path: Path) -> None:
    (tmp_path / "bible.txt").write_text("So he arose.")
    with pytest.raises(ExamplesError, match=r"has no examples: it has bible.txt; it needs positive.txt and negative"):
        tables(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ExamplesError, match="it has nothing"):
        tables(tmp_path / "empty")


def test_the_same_text_in_both_lists_is_refused(tmp_path: Path) -> None:
    folder = lists(tmp_path / "quality", positive="good\nfine\n", negative="bad\nFine!\n")
    with pytest.raises(ExamplesError, match=r"negative.txt, line 2 has the text of .*positive.txt, line 2 .* other"):
        Examples.read(folder)


@pytest.mark.parametrize("name", ["pipe.csv", "zero.jsonl", "loop.tsv", "folder.parquet"])
def test_what_is_no_file_in_a_folder_of_concepts_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "joy.csv").write_text("text,label\ngood,1\nbad,0\n")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.jsonl").symlink_to("/dev/zero")
    (tmp_path / "loop.tsv").symlink_to("loop.tsv")
    (tmp_path / "folder.parquet").mkdir()
    for other in {"pipe.csv", "zero.jsonl", "loop.tsv", "folder.parquet"} - {name}:
        (tmp_path / other).rename(tmp_path / f".{other}")
    with pytest.raises(ExamplesError, match=name):
        read_concepts(tmp_path)


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2J", "\udcff", "a\u202eb"])
def test_the_name_of_a_file_is_told_so_that_no_terminal_obeys_it(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.csv").write_text("text,label\ngood,1\n")
    with pytest.raises(ExamplesError) as caught:
        read_concepts(tmp_path)
    assert str(caught.value).isprintable()


def test_two_lists_that_are_no_files_are_refused(tmp_path: Path) -> None:
    lists(tmp_path / "quality", negative=None)
    os.mkfifo(tmp_path / "quality" / "negative.txt")
    with pytest.raises(ExamplesError, match="a pipe or a device"):
        Examples.read(tmp_path / "quality")
