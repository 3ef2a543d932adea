"""Tables of examples, read from JSON, CSV, TSV and Parquet files and from objects in memory.

The parsing is done by the standard library and pyarrow; what is here names the file, the row and the mend.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from covec.concepts._labels import POSITIVE
from covec.delimited import DELIMITERS, Row, Unreadable, column_called, delimiter_of, quotes_enclose, rows
from covec.errors import ExamplesError
from covec.reading import ordinary_file, unique_keys

ENDINGS = (".jsonl", ".ndjson", ".json", ".parquet", *DELIMITERS)
_LARGEST = 2**30  # bytes of a table, which is read whole: a study of them would take days
_BATCH = 256  # rows of Parquet at a time: a page of a kilobyte may unpack to any number of long texts
KNOWN_COLUMNS = ("text", "messages", "label", "positive", "negative")


@dataclass(frozen=True)
class Table:
    """Columns of equal length; `places` says where each row stands, such as `films.csv, line 7`."""

    name: str
    source: str
    columns: dict[str, list[Any]]
    places: list[str]
    notes: tuple[str, ...] = ()

    def find(self, *names: str) -> str | None:
        """The first column called one of `names`, exactly or but for case."""
        return column_called(self.columns, *names)

    def take(self, rows: Sequence[int], name: str) -> Table:
        """The table of `rows` alone."""
        columns = {column: [values[row] for row in rows] for column, values in self.columns.items()}
        return replace(self, name=name, columns=columns, places=[self.places[row] for row in rows])


def read_table(path: Path, text_column: str | None = None, label_column: str | None = None) -> Table:
    """The table in the file at `path`, in the format its ending names.

    Two columns given as numbers, from 1, mean a file without a header. Where none is given and the columns are plain,
    a missing header is noticed.

    Raises
    ------
    ExamplesError
        The file is missing, empty, cut short, unreadable, not UTF-8, or of an unknown format.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        if not os.path.exists(path):
            raise ExamplesError(f"there is no file {path}; check the path")
        unknown = f"files ending in {ending}" if ending else "files without an ending"
        raise ExamplesError(f"{path}: covec does not read {unknown}; use one of {', '.join(ENDINGS)}")
    content = read_bytes(path)
    given = [column for column in (text_column, label_column) if column is not None]
    numbered = len(given) == 2 and all(column.isdecimal() for column in given)
    if ending in DELIMITERS:
        table = _delimited(path, content, headless=numbered, guess=not given)
    elif ending == ".parquet":
        table = _parquet(path, content)
    else:
        table = _json(path, content)
    if not table.places:
        raise ExamplesError(f"{path} has no rows; add examples")
    return table


def read_bytes(path: Path) -> bytes:
    """What the file at `path` holds; an empty file raises `ExamplesError` as a missing one does."""
    with ordinary_file(path, ExamplesError, largest=_LARGEST) as file:
        content = file.read()
    if not content.strip():
        raise ExamplesError(f"{path} is empty; add examples")
    return content


def decode(path: Path, content: bytes) -> str:
    """`content` as text, without a byte order mark; other encodings than UTF-8 raise and say where."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ExamplesError(f"{path} is in UTF-16, not UTF-8; save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        wrong = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise ExamplesError(f"{path}, line {line}: {wrong}; save the file as UTF-8, or write it whole again") from None
    if not text.strip():
        raise ExamplesError(f"{path} is empty; add examples")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ExamplesError(f"{path}, line {line}: a zero byte, so this is no text file; save it as UTF-8 text")
    return text


def table_of(data: Any, name: str) -> Table:
    """The table in `data`: a `datasets.Dataset`, a pandas DataFrame, a mapping of columns or a list of objects."""
    names = getattr(data, "column_names", getattr(data, "columns", None))
    if isinstance(data, Mapping) and (names is None or isinstance(names, Mapping)):
        if any(hasattr(part, "column_names") for part in data.values()):
            raise ExamplesError(f"{name} has splits ({', '.join(map(str, data))}); pass one of them, as data[...]")
        names = list(data)
    if names is not None:
        columns = {str(column): _class_names(data, column, list(data[column])) for column in names}
    elif isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
        columns = _columns_of(data)
    else:
        raise ExamplesError(f"{name} is no table; pass a Dataset, a DataFrame, a dict of columns or a list of dicts")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise ExamplesError(f"{name} has no rows, or columns of unequal length; give every column one value a row")
    return Table(name, name, columns, [f"{name}, row {row + 1}" for row in range(lengths.pop())])


def _class_names(data: Any, column: str, values: list[Any]) -> list[Any]:
    """`values` of a `datasets.ClassLabel` by their names, unless they are 0 and 1 and the names say less than that."""
    features: Mapping[str, Any] = getattr(data, "features", None) or {}
    names: Sequence[str] | None = getattr(features.get(column), "names", None)
    if names is None or (len(names) == 2 and not POSITIVE & {name.casefold() for name in names}):
        return values
    return [names[value] if value is not None and value >= 0 else None for value in values]


def _json(path: Path, content: bytes) -> Table:
    """A JSON list of objects, or one object a line, whatever the file's ending."""
    text = decode(path, content)
    if text.lstrip().startswith("["):
        rows = _parsed(text, f"{path}", path)
        places = [f"{path}, row {row + 1}" for row in range(len(rows))]
    else:
        # Only "\n" ends a line: JSON strings may hold the other separators that splitlines knows.
        lines = [(number + 1, line) for number, line in enumerate(text.split("\n")) if line.strip()]
        places = [f"{path}, line {number}" for number, _ in lines]
        if lines[0][1].strip() == "{":
            raise ExamplesError(f"{path} is one object over many lines; write one object a line, or a list of them")
        rows = [_parsed(line, place, path) for place, (_, line) in zip(places, lines, strict=True)]
    for place, row in zip(places, rows, strict=True):
        if not isinstance(row, dict):
            raise ExamplesError(f'{place} is not an object; write rows as {{"text": "...", "label": 1}}')
    return Table(path.stem, str(path), _columns_of(rows), places)


def _parsed(text: str, place: str, path: Path) -> Any:
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        place = place if place != str(path) else f"{path}, line {error.lineno}"
        raise ExamplesError(f"{place} is not JSON ({error.msg}); mend it, or write the file whole again") from None
    except ValueError as error:  # a key twice, or an integer of thousands of digits
        raise ExamplesError(f"{place} cannot be read ({str(error).partition(';')[0]}); mend it") from None
    except RecursionError:
        raise ExamplesError(f"{place} is nested too deeply; write rows as flat objects") from None


def _parquet(path: Path, content: bytes) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(content)) as file:
            names = file.schema_arrow.names
            columns: dict[str, list[Any]] = {name: [] for name in names}
            size = sum(file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups))
            batches = file.iter_batches(_BATCH) if size <= _LARGEST else ()
            for batch in batches:
                for name, values in batch.to_pydict().items():
                    columns[name] += values
                    size += sum(map(_size, values))
                if size > _LARGEST:
                    break
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # the last two: dates beyond the calendar
        raise ExamplesError(
            f"{path} is no Parquet file, or is cut short ({str(error)[:200]}); write it again"
        ) from None
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ExamplesError(f"{path} has two columns called {twice!r}; rename one")
    if size > _LARGEST:
        raise ExamplesError(f"{path} unpacks to more than {_LARGEST / 1e9:.1f} GB; it is read whole: give a part of it")
    count = max(map(len, columns.values()), default=0)
    return Table(path.stem, str(path), columns, [f"{path}, row {row + 1}" for row in range(count)])


def _size(value: Any) -> int:
    """About how many bytes a value takes."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 64 + (len(value) if isinstance(value, str | bytes) else sum(map(_size, inner)))


def _delimited(path: Path, content: bytes, *, headless: bool, guess: bool) -> Table:
    text = decode(path, content)
    delimiter = delimiter_of(path.suffix.lower(), text.lstrip().partition("\n")[0])
    notes: tuple[str, ...] = ()
    if delimiter != DELIMITERS[path.suffix.lower()]:
        notes = (f"{path}: columns are separated by {delimiter!r}",)
    table = _cells(path, text, delimiter)
    width = len(table[0][1])
    for line, cells in table:
        if len(cells) != width:
            mend = "put texts that hold a separator in quotes, or write the file whole again"
            raise ExamplesError(f"{path}, line {line}: {len(cells)} fields where the first row has {width}; {mend}")
    names = [str(index + 1) for index in range(width)] if headless else None
    if guess and (label := _plain_label(table)) is not None:
        names = ["label", "text"] if label == 0 else ["text", "label"]
        notes += (f"{path} has no header: column {2 - label} is read as text, column {label + 1} as label",)
    if names is None:
        names, table = table[0][1], table[1:]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ExamplesError(f"{path} has two columns called {twice!r}; rename one")
    columns = {name: [cells[index] for _, cells in table] for index, name in enumerate(names)}
    return Table(path.stem, str(path), columns, [f"{path}, line {line}" for line, _ in table], notes)


def _cells(path: Path, text: str, delimiter: str) -> list[Row]:
    def lines() -> io.StringIO:
        return io.StringIO(text, newline="")

    try:
        return list(rows(lines(), delimiter, quoted=quotes_enclose(lines(), delimiter)))
    except Unreadable as error:
        mend = "double the quotes inside a quoted text, or write the file whole again"
        raise ExamplesError(f"{path}, line {error.line}: {error.reason}; {mend}") from None


def _plain_label(rows: list[Row]) -> int | None:
    """The label's index in two columns without a header: the one column with at most two values."""
    names = {cell.strip().casefold() for cell in rows[0][1]}
    if len(rows[0][1]) != 2 or len(rows) < 3 or names & set(KNOWN_COLUMNS):
        return None
    few = [index for index in range(2) if len({cells[index].strip() for _, cells in rows}) <= 2]
    return few[0] if len(few) == 1 else None


def _columns_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    rows = list(rows)
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
