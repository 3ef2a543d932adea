"""The seal of a folder: what its files were when it was finished, by which damage is noticed before they are read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

_SEAL = "seal.json"


def seal(folder: Path) -> None:
    """Note size, time and SHA-256 of every file of `folder` in a file of its own."""
    files = {path.name: _state(path) for path in sorted(folder.iterdir())}
    (folder / _SEAL).write_text(json.dumps(files, indent=1), encoding="utf-8")


def sealed(folder: Path) -> bool:
    """Whether `folder` holds the files of its seal, no other, each as it was; what kept its time is not read for it."""
    try:
        noted = json.loads((folder / _SEAL).read_text(encoding="utf-8"))
        found = {path.name: path for path in folder.iterdir() if path.name != _SEAL}
        return bool(noted) and noted.keys() == found.keys() and all(_same(found[name], noted[name]) for name in noted)
    except (OSError, ValueError, KeyError, AttributeError):  # no seal, or none that says anything
        return False


def _same(path: Path, noted: dict[str, int | str]) -> bool:
    status = path.stat()
    if status.st_size != noted["bytes"]:
        return False
    return status.st_mtime_ns == noted["time"] or sha256(path) == noted["sha256"]


def _state(path: Path) -> dict[str, int | str]:
    status = path.stat()
    return {"bytes": status.st_size, "time": status.st_mtime_ns, "sha256": sha256(path)}


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
