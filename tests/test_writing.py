"""Files and folders appear whole or not at all."""

import os

import pytest

from covec.errors import FileError
from covec.writing import whole_file, whole_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_the_block_ends(tmp_path):
    with whole_file(tmp_path / "deep" / "a.txt") as draft:
        draft.write_text("one")
        assert not (tmp_path / "deep").exists()
    assert (tmp_path / "deep" / "a.txt").read_text() == "one"
    assert names(tmp_path) == ["deep"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    (tmp_path / "a.txt").write_text("before")
    with pytest.raises(error), whole_file(tmp_path / "a.txt") as draft:
        draft.write_text("half")
        raise error
    with pytest.raises(error), whole_folder(tmp_path / "out") as draft:
        (draft / "b.txt").write_text("half")
        raise error
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "before"


def test_a_folder_keeps_its_other_files(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    (out / "b.txt").write_text("old")
    with whole_folder(out) as draft:
        (draft / "b.txt").write_text("new")
    assert {path.name: path.read_text() for path in out.iterdir()} == {"mine.txt": "mine", "b.txt": "new"}
    assert names(tmp_path) == ["out"]


def test_a_new_folder_appears_with_its_parents(tmp_path):
    with whole_folder(tmp_path / "x" / "out") as draft:
        (draft / "b.txt").write_text("new")
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x" / "out" / "b.txt").read_text() == "new"


@pytest.mark.parametrize("whole", [whole_file, whole_folder])
def test_a_place_that_cannot_be_written_is_refused_before_work(tmp_path, whole):
    (tmp_path / "file").write_text("")
    begun = False
    with pytest.raises(FileError, match="cannot write|is a f"), whole(tmp_path / "file" / "under"):
        begun = True
    assert not begun


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="cannot write"), whole_file(tmp_path / "a.txt"):
        pass


def test_kinds_are_not_confused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a folder"), whole_file(tmp_path):
        pass
    with pytest.raises(FileError, match="is a file"), whole_folder(tmp_path / "file"):
        pass
