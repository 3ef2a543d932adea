"""Which column of a table means what: texts, labels, pairs, spans, splits and the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from covec.concepts._checks import identity
from covec.concepts._tables import Table
from covec.delimited import DELIMITERS
from covec.errors import ExamplesError, listed

_SPLITS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}
_TEXT, _LABEL = ("text", "messages"), ("label",)


def unpaired(table: Table) -> Table:
    """A table with columns `positive` and `negative` as one with two rows a pair; other tables as they are."""
    columns = table.find("positive"), table.find("negative")
    if None in columns or table.find(*_TEXT, *_LABEL):
        return table
    if pair := table.find("pair"):
        raise ExamplesError(f"{table.source}: each row is a pair already; call the column {pair!r} 'group', or drop it")
    both = [row for row in range(len(table.places)) for _ in range(2)]
    long = table.take(both, table.name)
    positives, negatives = (table.columns[column or ""] for column in columns)
    pairs = list(zip(positives, negatives, strict=True))
    replaced = {
        "text": [text for pair in pairs for text in pair],
        "label": [True, False] * len(pairs),
        "pair": [identity(*pairs[row]) for row in both],
    }
    others = {name: values for name, values in long.columns.items() if name not in columns}
    places = [f"{place} ({columns[row % 2]})" for row, place in enumerate(long.places)]
    return replace(long, columns=others | replaced, places=places)


def text_and_label(table: Table, text_column: str | None, label_column: str | None) -> tuple[str, str, Table]:
    """The names of the two columns that every table has; a guess is noted in the table returned."""
    text = _given(table, text_column, "text") if text_column else table.find(*_TEXT)
    label = _given(table, label_column, "label") if label_column else table.find(*_LABEL)
    names = list(table.columns)
    if len(names) == 2 and (text is None) != (label is None):
        known = text or label
        other = names[1 - names.index(known or "")]
        text, label = (text or other), (label or other)
        role = "text" if label == known else "label"
        table = replace(table, notes=(*table.notes, f"{table.source}: column {other!r} is read as {role}"))
    for role, found in (("text", text), ("label", label)):
        if found is None:
            raise ExamplesError(f"{table.source} has no column '{role}'; it has {listed(names)}; {_mend(table, role)}")
    if text == label:
        raise ExamplesError(f"{table.source}: column {text!r} cannot be both text and label; name another")
    return str(text), str(label), table


def ids(table: Table, name: str) -> tuple[str | None, ...] | None:
    """The ids in column `name`, None where a row has none; None where no row has one."""
    column = table.find(name)
    if column is None:
        return None
    found = tuple(None if _missing(value) else _id(value) for value in table.columns[column])
    return found if any(value is not None for value in found) else None


def spans(table: Table) -> tuple[tuple[int, int] | None, ...] | None:
    """The character ranges in columns `span_start` and `span_end`, None where a row has none."""
    names = table.find("span_start"), table.find("span_end")
    if names == (None, None):
        return None
    if None in names:
        missing = "span_start" if names[0] is None else "span_end"
        raise ExamplesError(f"{table.source} has no column {missing!r}; spans need both ends, in characters")
    starts, ends = (table.columns[name or ""] for name in names)
    return tuple(_span(ends_, place) for *ends_, place in zip(starts, ends, table.places, strict=True))


def splits(table: Table) -> tuple[str, ...] | None:
    """The part of each row in column `split`, as train, validation or test."""
    column = table.find("split")
    if column is None:
        return None
    parts = [_SPLITS.get(str(value).strip().casefold(), "") for value in table.columns[column]]
    if "" in parts:
        row = parts.index("")
        value = table.columns[column][row]
        raise ExamplesError(f"{table.places[row]}: {value!r} is no split; write train, validation or test")
    return tuple(parts)


def _given(table: Table, name: str, role: str) -> str:
    if name in table.columns:
        return name
    if found := table.find(name):
        return found
    raise ExamplesError(
        f"{table.source} has no column {name!r}; it has {listed(table.columns)}; name one with --{role}-column"
    )


def _mend(table: Table, role: str) -> str:
    if role == "label" and table.find("concept"):
        return "if 'concept' is the label, say --label-column concept"
    number = ", or number both, from 1, if the file has no header" if table.source.endswith(tuple(DELIMITERS)) else ""
    return f"name one with --{role}-column{number}"


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or not str(value).strip()


def _id(value: Any) -> str:
    """Ids as text; 3.0 is 3, for a column with gaps comes as floats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _span(ends: Sequence[Any], place: str) -> tuple[int, int] | None:
    if all(map(_missing, ends)):
        return None
    try:
        start, end = map(float, ends)
    except (TypeError, ValueError, OverflowError):
        start = end = math.nan
    if not (start.is_integer() and end.is_integer()):
        raise ExamplesError(f"{place}: span_start and span_end are counts of characters; write both or none")
    return int(start), int(end)
