"""Files that others made: opened only where they are files and can be held, and read without guessing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from covec.errors import CovecError, FileError


@contextmanager
def ordinary_file(
    path: str | Path, error: type[CovecError] = FileError, *, largest: int | None = None
) -> Iterator[BufferedReader]:
    """Open the file at `path` for reading.

    Parameters
    ----------
    error
        What is raised.
    largest
        The most bytes it may have; those of the memory of this machine unless given.

    Raises
    ------
    CovecError
        There is nothing, a folder, a pipe (which might never end) or a device; the file may not be read, or is too
        large. An error of the system inside the block is told in one line too.
    """
    if "\0" in str(path):
        raise error(f"there is no file {str(path)!r}: a name holds no zero byte")
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device; save what it gives as a file"
            raise error(f"there is no file {path}: it is {what}")
        if found.st_size > (limit := largest or _memory()):
            raise error(
                f"{path} has {found.st_size / 1e9:.1f} GB; it is read whole, and {limit / 1e9:.1f} are the most"
            )
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise error(f"there is no file {path}; check the path") from None
    except OSError as refusal:
        raise error(f"cannot read {path}: {refusal.strerror or refusal}; check that you may read it") from refusal
    except MemoryError:
        raise error(f"{path} does not fit into memory") from None


def is_blank(value: Any) -> bool:
    """Whether a cell of a table holds nothing: None, NaN, or white space alone."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads(..., object_pairs_hook=unique_keys)`: a key that stands twice is a `ValueError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {max(names, key=names.count)[:50]!r} stands twice")
    return found


def _memory() -> int:
    """Bytes of memory that this machine has; where it does not say, as much as an address can name."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 2**63
