"""A folder of finished shards, which a run that was killed leaves behind and the next one goes on from.

Shards appear whole and are named after the inputs they hold. Beside them a ledger says what they are made of: a run
goes on with the same alone. One process at a time has the folder in hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covec.errors import CovecError, FileError
from covec.writing import check_name, whole_file

LEDGER, _LOCK, _HIDDEN = "ledger.json", "lock", ".covec-"


@dataclass(frozen=True, order=True)
class Shard:
    """One file: what there is of the inputs `first` to `end` (half open)."""

    first: int
    end: int
    path: Path


def place(folder: Path, first: int, end: int, ending: str) -> Path:
    """Where the shard of the inputs `first` to `end` stands."""
    return folder / f"{first:012d}-{end:012d}{ending}"


def finished(folder: Path, ending: str) -> list[Shard]:
    """The finished shards in their order; raises `FileError` where one is missing between others."""
    found: list[Shard] = []
    for path in sorted(folder.glob(f"*{ending}")):
        first, _, end = path.stem.partition("-")
        if not (first.isdecimal() and end.isdecimal()):
            continue
        shard = Shard(int(first), int(end), path)
        done = found[-1].end if found else 0
        if shard.first != done:
            raise FileError(f"{folder} lacks the shard that begins with row {done}: delete the folder and begin anew")
        found.append(shard)
    return found


@contextmanager
def in_hand(folder: Path, made_of: Mapping[str, Any], instead: str) -> Iterator[None]:
    """Within the block the folder is this process's alone, and its ledger says `made_of`; both are made where missing.

    A folder that the block made, and in which it finished nothing before a `CovecError`, is removed again, with those
    above it that were made for it alone.

    Parameters
    ----------
    made_of
        What the shards depend on, by the words that an error names it with; plain JSON values.
    instead
        What else can be written to, in words, such as `another folder`.

    Raises
    ------
    FileError
        Another process has the folder, it was begun from something else, holds other files, or cannot be written.
    """
    from filelock import FileLock, Timeout

    check_name(folder)
    made = missing(folder)
    if not made:
        _check_ours(folder, made_of, instead)
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise FileError(f"another run is writing to {folder}: wait for it, or write to {instead}") from None
    except OSError as error:
        raise FileError(f"cannot write {folder}: {error.strerror or error}; choose another place") from error
    try:
        _agree(folder, made_of, instead)
        yield
    except CovecError:
        if made and not _others(folder):
            remove(folder, made)
        raise
    finally:
        lock.release()


def missing(folder: Path) -> list[Path]:
    """The folder and those above it, from below, as far as they do not exist."""
    return [above for above in (folder, *folder.parents) if not os.path.exists(above)]


def remove(folder: Path, made: Sequence[Path]) -> None:
    """Remove a folder, and of those that were `made` for it what holds nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # others write beside it
        for above in made[1:]:
            above.rmdir()


def _check_ours(folder: Path, made_of: Mapping[str, Any], instead: str) -> None:
    """Refuse, before anything is written to it, a file or a folder of something else."""
    if not folder.is_dir():
        raise FileError(f"{folder} is a file; name a folder to write into")
    if not (folder / LEDGER).exists() and (other := _others(folder)):
        raise FileError(f"{folder} holds other files, such as {other[0]}, and no ledger: write to {instead}")
    if (folder / LEDGER).exists():
        _agree(folder, made_of, instead)


def _agree(folder: Path, made_of: Mapping[str, Any], instead: str) -> None:
    """See that the folder was begun from `made_of`, or begin it."""
    if not (folder / LEDGER).exists():
        write_ledger(folder, made_of)
    known = read_ledger(folder)
    if not made_of.keys() & known.keys():
        raise FileError(f"{folder / LEDGER} is of something else: write to {instead}")
    if changed := [name for name, value in made_of.items() if known.get(name) != value]:
        raise FileError(f"the {changed[0]} changed since {folder} was begun: delete it, or write to {instead}")


def _others(folder: Path) -> list[str]:
    """Names of what is in the folder beside the ledger, the lock and drafts."""
    names = sorted(file.name for file in folder.iterdir())
    return [name for name in names if name not in (LEDGER, _LOCK) and not name.startswith(_HIDDEN)]


def read_ledger(folder: Path) -> dict[str, Any]:
    """The ledger of a folder; raises `FileError` where there is none or it is damaged."""
    path = folder / LEDGER
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}; check the path") from error
    except (ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise damaged(folder)
    return known


def damaged(folder: Path) -> FileError:
    """The error that says that a folder's ledger is."""
    return FileError(
        f"{folder / LEDGER} is damaged: write to another folder, or delete this one if it holds nothing else"
    )


def digest(ledger: Mapping[str, Any]) -> str:
    """What the files beside a ledger keep of it: a digest of what they are made of, not of how many there are."""
    made_of = {name: value for name, value in ledger.items() if name != "inputs"}
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()


def write_ledger(folder: Path, ledger: Mapping[str, Any]) -> None:
    """Write the ledger of a folder, whole or not at all."""
    with whole_file(folder / LEDGER) as draft:
        draft.write_text(json.dumps(ledger, indent=2), encoding="utf-8")
