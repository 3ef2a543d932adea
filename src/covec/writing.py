"""Files and folders that appear whole or not at all, whatever happens meanwhile.

What is written goes to a hidden folder beside the target first, is synced, and takes its name when the block ends well.
The hidden folder is made when the block begins, so that a place that cannot be written is refused before any work; it
is locked while its process lives, so that the next one to write there removes what a killed process left.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from covec.errors import FileError

if TYPE_CHECKING:
    from filelock import BaseFileLock

_PREFIX = ".covec-draft-"
_LOCK, _DRAFT = "lock", "draft"
_TRIES = 100  # a second one is rare
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; what was written there becomes `path` when the block ends without an error.

    Missing folders appear with the file. A link stays, and what it points to is written.

    Raises
    ------
    FileError
        `path` is a folder or a device, or its folder cannot be written: before the block runs. The block meets an
        error of the system, or the disk is full: what was there before is untouched.
    """
    target = place_of_file(path)
    with _drafted(path, target, target.parent) as draft, _told(path):
        yield draft


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder whose files become those of `path` when the block ends without an error.

    A new folder appears at once. One that exists keeps its other files; the new ones take their places one after the
    other, each of them whole.

    Raises
    ------
    FileError
        `path` is a file, or cannot be written: before the block runs. The disk is full, or a folder stands where a file
        is to be: what was there before is untouched.
    """
    check_name(path)
    target, mode = _found(path)
    if mode and not stat.S_ISDIR(mode):
        raise FileError(f"{path} is a file; name a folder to write into")
    with _drafted(path, target, target) as draft, _told(path, only=_NO_ROOM):
        draft.mkdir(exist_ok=True)
        yield draft


def place_of_file(path: str | Path) -> Path:
    """`path` with links followed; raises `FileError` where something stands there that no file may replace."""
    target, mode = _found(path)
    if stat.S_ISDIR(mode):
        raise FileError(f"{path} is a folder; name a file to write")
    if mode and not stat.S_ISREG(mode):
        raise FileError(f"{path} is no ordinary file; name a file to write")
    return target


def check_apart(out: str | Path, *read: str | Path) -> None:
    """Refuse to write a file in the place of one that is read for it."""
    for path in read:
        if os.path.exists(out) and os.path.exists(path) and os.path.samefile(out, path):
            raise FileError(f"{out} is what is read, and writing would replace it; name another file to write")


def check_name(path: str | Path) -> None:
    """Refuse what is not UTF-8: not every library that writes to a file takes bytes for its name."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise FileError(f"cannot write {str(path)!r}: the name is not UTF-8; choose another") from None


def sync(path: Path) -> None:
    """Bring a file, or all files of a folder, to the disk."""
    for file in filter(Path.is_file, path.rglob("*")) if path.is_dir() else (path,):
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())


def _found(path: str | Path) -> tuple[Path, int]:
    """`path` with links followed, and the mode of what is there (0: nothing)."""
    if "\0" in str(path):
        raise FileError(f"cannot write {str(path)!r}: a name holds no zero byte; choose another")
    target = Path(os.path.realpath(path))
    with _told(path):
        try:
            return target, target.stat().st_mode
        except FileNotFoundError:
            return target, 0


@contextmanager
def _told(path: str | Path, only: set[int] | None = None) -> Iterator[None]:
    """A scope whose errors of the system, or those of them that are in `only`, become one line."""
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        raise FileError(f"cannot write {path}: {error.strerror or error}; choose another place") from error


@contextmanager
def _drafted(path: str | Path, target: Path, folder: Path) -> Iterator[Path]:
    """A place to write what will be `target`, on its file system: in `folder`, or the nearest one above that exists."""
    with _told(path):
        base, *above = (place for place in (folder, *folder.parents) if place.exists())
        for place in (base, *above):  # a killed process may have made the folders below its draft
            _remove_orphans(place)
        scratch, lock = _scratch(base)
    try:
        draft = scratch / _DRAFT / target.relative_to(base)
        with _told(path):
            draft.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        with _told(path):
            sync(draft)
            _move(scratch / _DRAFT, base)
    except FileError as error:  # of a file of the folder, under the name it would have had
        raise FileError(str(error).replace(str(scratch / _DRAFT), str(base))) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release()


def _move(draft: Path, target: Path) -> None:
    """Give everything in the folder `draft` its place in the folder `target`."""
    places = {entry: target / entry.name for entry in sorted(draft.iterdir())}
    for entry, place in places.items():
        if place.is_dir() and not entry.is_dir():
            raise FileError(f"{place} is a folder, and a file of that name is to be written: choose another place")
    for entry, place in places.items():
        try:
            os.replace(entry, place)
        except OSError:  # a folder that is there already takes the new files one by one
            if not (entry.is_dir() and place.is_dir()):
                raise
            _move(entry, place)


def _scratch(base: Path) -> tuple[Path, BaseFileLock]:
    """A new folder in `base`, and the lock that says its process lives."""
    from filelock import FileLock, Timeout

    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        lock = FileLock(folder / _LOCK, timeout=0)
        with suppress(Timeout, FileNotFoundError, FileExistsError):  # another process took it for an orphan at birth
            lock.acquire()
            if (folder / _LOCK).exists():
                return folder, lock
            lock.release()
    raise FileError(f"cannot write to {base}: what is made there does not stay; choose another place")


def _remove_orphans(base: Path) -> None:
    """Remove what killed processes left in `base`: folders of ours whose lock is free."""
    from filelock import FileLock, Timeout

    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError, Timeout):
            if not folder.is_symlink() and {entry.name for entry in folder.iterdir()} <= {_LOCK, _DRAFT}:
                with FileLock(folder / _LOCK, timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)
