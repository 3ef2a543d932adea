"""Corpora a row at a time: texts from files that need not fit in memory."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, AnyStr

from covec.delimited import Unreadable, column_called, delimiter_of, quotes_enclose, rows
from covec.errors import ExamplesError, listed
from covec.models.tokens import Input
from covec.reading import is_blank, ordinary_file, unique_keys

Rows = Iterator[tuple[str, Any]]  # where it stands, and what stands there

_COLUMNS, _PAIR = ("text", "messages"), ("positive", "negative")
_LONGEST_LINE = 2**26  # more than any model reads of one text
_BATCH = 256  # rows of Parquet at a time: a page of a kilobyte may unpack to any number of long texts


@dataclass(frozen=True)
class Texts:
    """The texts of a corpus: read from the file whenever they are iterated, never kept.

    Parameters are those of `texts`. `len` reads them all once, which finds what is wrong before any work.
    """

    path: Path
    column: str | None = None

    def __iter__(self) -> Iterator[Input]:
        return texts(self.path, self.column)

    def placed(self) -> Iterator[tuple[str, Input]]:
        """Each text with its place in the file, such as `corpus.txt, line 3`."""
        return placed_texts(self.path, self.column)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return sum(1 for _ in self)


def texts(path: Path, column: str | None = None) -> Iterator[Input]:
    """The texts (or chats) of a corpus, one a row: `.jsonl`, `.csv`, `.tsv`, `.parquet`, or `.txt` with one a line.

    Parameters
    ----------
    column
        Where the texts stand; `text` or `messages` unless given, or `positive` and `negative`, which are two texts a
        row. Blank lines are no rows.

    Raises
    ------
    ExamplesError
        At the first row that is no text, and where the file cannot be read; it names the line or row.
    """
    for _, text in placed_texts(path, column):
        yield text


def placed_texts(path: Path, column: str | None = None) -> Iterator[tuple[str, Input]]:
    """As `texts`, each with its place in the file."""
    place = None
    for place, value in _reader(path)(path, column):
        if is_blank(value):
            raise ExamplesError(f"{place}: the text is empty; fill it in, or remove the row")
        yield place, value
    if place is None:
        raise ExamplesError(f"{path} has no rows; add texts")


def labels(path: Path, column: str) -> Iterator[Any]:
    """The labels of a corpus, one a row, as they stand in `column`; `texts` tells what is refused."""
    for place, value in _reader(path)(path, column):
        if is_blank(value):
            raise ExamplesError(f"{place}: the label is missing; fill it in, or remove the row")
        yield value


def digest(path: Path) -> str:
    """SHA-256 of the file's content."""
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reader(path: Path) -> Callable[[Path, str | None], Rows]:
    readers: dict[str, Callable[[Path, str | None], Rows]] = {
        ".jsonl": _objects, ".ndjson": _objects, ".csv": _cells, ".tsv": _cells, ".tab": _cells,
        ".parquet": _parquet, ".txt": _plain,
    }  # fmt: skip
    if path.suffix.lower() not in readers:
        raise ExamplesError(f"{path}: a corpus is a file ending in {', '.join(readers)}")
    return readers[path.suffix.lower()]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    with _opened(path) as file:
        for number, line in enumerate(_bounded(path, file), 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise ExamplesError(f"{path}, line {number} is not UTF-8; save the file as UTF-8") from None
            if text.strip():
                yield f"{path}, line {number}", text.rstrip("\r\n")


def _opened(path: Path) -> AbstractContextManager[io.BufferedReader]:
    return ordinary_file(path, ExamplesError, largest=sys.maxsize)


def _bounded(path: Path, file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of a file, which may be larger than memory, but not for want of line breaks."""
    number = 1
    while line := file.readline(_LONGEST_LINE + 1):
        if len(line) > _LONGEST_LINE:
            raise ExamplesError(f"{path}, line {number} is longer than {_LONGEST_LINE >> 20} MiB; break it into texts")
        if line.find(b"\0" if isinstance(line, bytes) else "\0") >= 0:
            raise ExamplesError(f"{path}, line {number}: a zero byte, so this is no text file; save it as UTF-8 text")
        yield line
        number += 1


def _plain(path: Path, column: str | None) -> Rows:
    if column is not None:
        raise ExamplesError(f"{path} has no columns: every line is a text; leave the text column out")
    yield from _lines(path)


def _objects(path: Path, column: str | None) -> Rows:
    for place, line in _lines(path):
        try:
            row = json.loads(line, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError):
            raise ExamplesError(f"{place} is not JSON; mend it, or write the file whole again") from None
        if not isinstance(row, dict):
            raise ExamplesError(f'{place} is not an object; write rows as {{"text": "..."}}')
        for name in (found := _columns(place, list(row), column)):
            yield _placed(place, name, found), row[name]


def _cells(path: Path, column: str | None) -> Rows:
    with _characters(path) as lines:
        head = next((line for line in lines if line.strip()), "")
    delimiter = delimiter_of(path.suffix.lower(), head)
    with _characters(path) as lines:
        quoted = quotes_enclose(lines, delimiter)
    with _characters(path) as lines:
        table = rows(lines, delimiter, quoted=quoted)
        _, names = next(table, (0, []))
        if not names:
            raise ExamplesError(f"{path} is empty; add a header and texts")
        found = _columns(str(path), names, column)
        places = [names.index(name) for name in found]
        for line, cells in table:
            if len(cells) != len(names):
                where = f"{path}, line {line}"
                raise ExamplesError(f"{where}: {len(cells)} fields where the header has {len(names)}; mend the row")
            for name, place in zip(found, places, strict=True):
                yield _placed(f"{path}, line {line}", name, found), cells[place]


@contextmanager
def _characters(path: Path) -> Iterator[Iterator[str]]:
    """The lines of the file as text, with their ends, which a quoted cell may hold."""
    try:
        with _opened(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            yield _bounded(path, text)
    except Unreadable as error:
        mend = "mend it, or write the file whole again"
        raise ExamplesError(f"{path}, line {error.line}: {error.reason}; {mend}") from None
    except UnicodeDecodeError:
        raise ExamplesError(f"{path} is not UTF-8; save it as UTF-8") from None


def _parquet(path: Path, column: str | None) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _opened(path) as opened:
        try:
            with pq.ParquetFile(opened) as file:
                found = _columns(str(path), file.schema_arrow.names, column)
                row = 0
                for batch in file.iter_batches(_BATCH, columns=found):
                    for values in zip(*(batch.column(name).to_pylist() for name in found), strict=True):
                        row += 1
                        for name, value in zip(found, values, strict=True):
                            yield _placed(f"{path}, row {row}", name, found), value
        except ExamplesError:
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # the last two: dates out of range
            raise ExamplesError(f"{path} is no Parquet file, or is cut short ({str(error)[:200]})") from None


def _columns(place: str, names: list[str], wanted: str | None) -> list[str]:
    """The column of the texts; the two of pairs, as studies take them, where there is none."""
    looked_for = (wanted,) if wanted else _COLUMNS
    one = column_called(names, *looked_for)
    pair = [column_called(names, name) for name in _PAIR] if one is None and not wanted else []
    chosen = [name for name in (one, *pair) if name is not None]
    if not chosen or None in pair:
        lacking = " or ".join(map(repr, looked_for))
        mend = "name one of these" if wanted else "name one with --text-column"
        raise ExamplesError(f"{place} has no column {lacking}; it has {listed(names) or 'none'}; {mend}")
    if twice := next((name for name in chosen if names.count(name) > 1), None):
        raise ExamplesError(f"{place} has two columns called {twice!r}; rename one")
    return chosen


def _placed(place: str, name: str, of: list[str]) -> str:
    return place if len(of) == 1 else f"{place} ({name})"
