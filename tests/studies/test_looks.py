"""Looks are counted, across processes, and never stand in the way."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from covec.studies._looks import count_look


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COVEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_every_look_at_the_same_rows_counts() -> None:
    assert [count_look("a"), count_look("a"), count_look("b"), count_look("a")] == [1, 2, 1, 3]


def test_no_look_is_lost_between_threads() -> None:
    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(count_look, ["a"] * 20))
    assert sorted(seen) == list(range(1, 21))


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"a": 1', '{"a": "many"}', "\x00"])
def test_a_damaged_file_is_begun_anew(cache: Path, content: str) -> None:
    count_look("a")
    (cache / "looks" / "looks.json").write_text(content)
    assert count_look("a") == 1
    assert json.loads((cache / "looks" / "looks.json").read_text()) == {"a": 1}


def test_a_cache_that_cannot_be_made_is_no_obstacle(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert [count_look("a"), count_look("a")] == [1, 1]


def test_a_cache_that_cannot_be_written_still_tells_what_it_knows(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count_look("a")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    assert [count_look("a"), count_look("a")] == [2, 2]


def test_a_lock_held_too_long_is_no_obstacle(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    count_look("a")
    monkeypatch.setattr("covec.studies._looks._PATIENCE", 0.01)
    with FileLock(cache / "looks" / "looks.lock"):
        assert count_look("a") == 2
    assert count_look("a") == 2
