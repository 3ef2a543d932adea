"""What a bench has finished, so that it can be stopped at any moment and goes on where it was."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from covec.errors import FileError
from covec.writing import whole_file

SCHEMA = 1


class Kept(Protocol):
    """What a file can hold: a row of a bench."""

    def to_json(self) -> dict[str, Any]: ...

    @classmethod
    def from_json(cls, document: Any) -> Self: ...


Row = TypeVar("Row", bound=Kept)


@dataclass(frozen=True)
class Ledger(Generic[Row]):
    """A file a concept and method in `folder`, each with the digest of all that its rows depend on; None keeps none."""

    folder: Path | None
    row: type[Row]

    def rows(self, concept: str, method: str, key: str) -> list[Row] | None:
        """The rows of an earlier run under the same key; None where there are none, or the file is damaged."""
        if self.folder is None:
            return None
        try:
            document = json.loads(self._path(concept, method).read_text(encoding="utf-8"))
            return [self.row.from_json(row) for row in document["rows"]] if document["key"] == key else None
        except (OSError, ValueError, KeyError, TypeError, FileError):
            return None

    def keep(self, concept: str, method: str, key: str, rows: Iterable[Row]) -> None:
        """Write finished rows, whole or not at all."""
        if self.folder is not None:
            with whole_file(self._path(concept, method)) as draft:
                document = {"key": key, "rows": [row.to_json() for row in rows]}
                draft.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")

    def _path(self, concept: str, method: str) -> Path:
        assert self.folder is not None
        return self.folder / "rows" / hashlib.sha256(concept.encode()).hexdigest()[:12] / f"{method}.json"


def digest(**parts: Any) -> str:
    """Of everything that rows depend on."""
    return hashlib.sha256(json.dumps([SCHEMA, parts], sort_keys=True, default=str).encode()).hexdigest()


def source(thing: Any) -> str:
    """The code of a method's file."""
    return inspect.getsource(inspect.getmodule(thing) or thing)
