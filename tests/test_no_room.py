"""A disk that is full at any byte: every writer says so in one line, keeps the old file and leaves no litter."""

import contextlib
import json
import os
import resource
from pathlib import Path

import pytest

from concepts.made import direction
from covec.concepts.bank import Bank, load_bank
from covec.concepts.exports import export
from covec.errors import FileError
from covec.studies._looks import count_look
from report.fabricated import study

SMALL, LARGE = direction(), Bank([direction(f"c{index}", seed=index, width=2000) for index in range(3)])


@contextlib.contextmanager
def room_for(size):
    """A scope in which no file of this process grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


WRITERS = {
    "v.safetensors": LARGE.save,
    "v.gguf": lambda place: export(LARGE["c0"], "gguf", place),
    "v.npy": lambda place: export(LARGE["c0"], "npy", place),
    "report.html": study().report,
    "out": study().write,
}


def content(folder):
    """What is in a folder, hidden files too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("name", WRITERS)
def test_a_disk_that_is_full_at_any_byte_changes_nothing(tmp_path, name, old):
    write, place = WRITERS[name], tmp_path / name
    write(place)
    size = max(map(len, content(tmp_path).values()))
    if not old:
        for path in sorted(tmp_path.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    before = content(tmp_path)
    for room in {0, 1, 7, size // 3, size // 2, size - 1} if name.startswith("v.") else {7, size - 1}:
        with pytest.raises(FileError, match=r"cannot write .*; choose another place") as caught, room_for(room):
            write(place)
        assert str(place) in str(caught.value)
        assert content(tmp_path) == before
        assert old or not list(tmp_path.iterdir())
    write(place)
    assert place.exists()


def test_a_look_that_cannot_be_remembered_is_no_obstacle(tmp_path, monkeypatch):
    monkeypatch.setenv("COVEC_CACHE", str(tmp_path))
    assert [count_look("a"), count_look("a")] == [1, 2]
    with room_for(3):
        assert count_look("a") == 3
    assert json.loads((tmp_path / "looks" / "looks.json").read_text()) == {"a": 2}
    assert os.listdir(tmp_path) == ["looks"]
    assert not [path for path in Path(tmp_path / "looks").iterdir() if path.name.startswith(".covec")]


def test_what_was_written_before_the_disk_was_full_is_read(tmp_path):
    LARGE.save(tmp_path / "v.safetensors")
    with pytest.raises(FileError, match="cannot write"), room_for(100):
        SMALL.save(tmp_path / "v.safetensors")
    assert load_bank(tmp_path / "v.safetensors") == LARGE
