"""Only what is a file, and can be held, is opened."""

import os
import tempfile

import pytest

from covec import reading
from covec.errors import CovecError, ExamplesError, FileError
from covec.reading import is_blank, ordinary_file


def refusal(path, **options):
    with pytest.raises(CovecError) as caught, ordinary_file(path, **options):
        raise AssertionError("the block must not run")
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_file_is_opened(tmp_path):
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "link").symlink_to("a")
    for name in "a", "link":
        with ordinary_file(tmp_path / name) as file:
            assert file.read() == b"one"


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer for ever
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    for path, reason in {
        tmp_path / "none": "check the path",
        tmp_path: "it is a folder",
        tmp_path / "pipe": "it is a pipe or a device",
        "/dev/zero": "it is a pipe or a device",
        tmp_path / "loop": "cannot read",
        tmp_path / "dangling": "there is no file",
        tmp_path / "file" / "under": "cannot read",
        tmp_path / ("a" * 300): "cannot read",
        "a\0b": "zero byte",
        "": "there is no file",
    }.items():
        assert reason in str(refusal(path))


def test_the_error_is_of_the_kind_that_was_asked_for(tmp_path):
    assert isinstance(refusal(tmp_path / "none"), FileError)
    assert isinstance(refusal(tmp_path / "none", error=ExamplesError), ExamplesError)


def test_a_file_larger_than_memory_or_the_limit_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert "1099.5 GB; it is read whole" in str(refusal(path))
    os.truncate(path, 2**31)
    assert "1.0 are the most" in str(refusal(path, largest=10**9))
    assert reading._memory() >= 2**28


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError(5, "Input/output error"), "Input/output"), (MemoryError(), "does not fit")]
)
def test_what_goes_wrong_while_it_is_read_is_one_line(error, reason):
    with tempfile.NamedTemporaryFile() as made:
        with pytest.raises(FileError, match=reason), ordinary_file(made.name):
            raise error
        with pytest.raises(KeyError), ordinary_file(made.name):
            raise KeyError


@pytest.mark.parametrize(
    ("value", "blank"),
    [
        (None, True),
        (float("nan"), True),
        ("", True),
        (" \t\n", True),
        ("a", False),
        (0, False),
        (0.0, False),
        ([], False),
    ],
)
def test_a_cell_that_holds_nothing_is_blank(value, blank):
    assert is_blank(value) == blank
