"""Sheets: safetensors files with one JSON document; both it and every tensor are checked before they are used.

A sheet says what it belongs to, so that one that was copied from elsewhere is told.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from covec.errors import FileError
from covec.writing import whole_file

ENDING = ".safetensors"
_KEY = "covec"  # one entry: safetensors writes several in an order that changes from run to run


def save(path: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any], *, of: str) -> None:
    """Write a sheet that belongs to what has the digest `of`, whole or not at all; the same content, the same bytes."""
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    checks = {name: _checksum(tensor) for name, tensor in whole.items()}
    text = json.dumps({**document, "checks": checks, "of": of})
    with whole_file(path) as draft:
        draft.touch()
        mode = draft.stat().st_mode  # safetensors makes files that their owner alone may read
        try:
            safetensors.torch.save_file(whole, draft, {_KEY: f"{_check(text):08x} {text}"})
        except safetensors.SafetensorError as error:  # the disk is full, say, in its words
            raise FileError(f"cannot write {path}: {error}; make room, or choose another place") from error
        draft.chmod(mode)


class Sheet:
    """A sheet that is read: its document now, its tensors through the memory map when they are asked for.

    Raises
    ------
    FileError
        The file is no whole sheet, it belongs to something else than `of`, or a tensor is not what was written.
    """

    def __init__(self, path: Path, *, of: str) -> None:
        self.path = path
        try:
            check, _, text = self._open().metadata()[_KEY].partition(" ")
            if int(check, 16) != _check(text):
                raise self.damaged()
            self.document: dict[str, Any] = json.loads(text)
            self._checks: dict[str, int] = dict(self.document["checks"])
            belongs = self.document["of"] == of
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise self.damaged() from error
        if not belongs:
            raise self.foreign()
        self._checked: set[tuple[str, tuple[int, ...]]] = set()  # names, with the file that was read

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name, a view of the file; checked when it is first read, and once the file is another."""
        try:
            read = (name, _file(self.path))
            tensor: Tensor = self._open().get_tensor(name)
            if read not in self._checked and _checksum(tensor) != self._checks[name]:
                raise self.damaged()
        except (OSError, LookupError, safetensors.SafetensorError) as error:
            raise self.damaged() from error
        self._checked.add(read)
        return tensor

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Copies of the tensors whose names begin with `prefix`, by what follows it."""
        names = [name for name in self._checks if name.startswith(prefix)]
        return {name.removeprefix(prefix): self.tensor(name).clone() for name in names}

    def _open(self) -> Any:
        """The file; opened anew each time, which takes less than it costs to keep thousands open."""
        try:
            return safetensors.safe_open(self.path, "pt")
        except (OSError, safetensors.SafetensorError) as error:
            raise self.damaged() from error

    def damaged(self) -> FileError:
        """The error that says so."""
        return FileError(f"{self.path} is damaged: delete it with all that was written after it, and capture again")

    def foreign(self) -> FileError:
        """The error that says that it belongs elsewhere."""
        return FileError(
            f"{self.path} was made from something else than what stands beside it: delete it with all that was written "
            "after it, and capture again"
        )


def _file(path: Path) -> tuple[int, ...]:
    """What tells one file from another, and from itself once it was changed."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _check(text: str) -> int:
    return zlib.crc32(text.encode())


def _checksum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
