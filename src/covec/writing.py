"""Files and folders that appear whole or not at all.

What is written goes to a temporary sibling first and takes its name when the block ends well. The sibling is made when
the block begins, so that a place that cannot be written is refused before any work.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from covec.errors import FileError


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; what was written there becomes `path` when the block ends without an error.

    Raises
    ------
    FileError
        `path` is a folder, or its folder cannot be written. Raised before the block runs.
    """
    path = Path(path)
    if path.is_dir():
        raise FileError(f"{path} is a folder; name a file to write")
    with _sibling(path) as folder:
        draft = folder / path.name
        yield draft
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(draft, path)


@contextmanager
def whole_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder whose files become those of `path` when the block ends without an error.

    A folder that exists keeps its other files.

    Raises
    ------
    FileError
        `path` is a file, or cannot be written. Raised before the block runs.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileError(f"{path} is a file; name a folder to write into")
    with _sibling(path / "any") as folder:
        draft = folder / "draft"
        draft.mkdir()
        yield draft
        path.mkdir(parents=True, exist_ok=True)
        for file in sorted(draft.iterdir()):
            os.replace(file, path / file.name)


@contextmanager
def _sibling(path: Path) -> Iterator[Path]:
    """A temporary folder in the nearest folder above `path` that exists (so on the same file system)."""
    above = next((folder for folder in path.absolute().parents if folder.exists()), None)
    try:
        folder = Path(tempfile.mkdtemp(prefix=".covec-", dir=above))
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}; choose another place") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
