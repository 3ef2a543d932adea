"""Comma- and tab-separated text, a row at a time: whoever reads the same file reads the same cells."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Literal

Row = tuple[int, list[str]]  # the number of the line it begins on, and its cells

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}


class Unreadable(ValueError):
    """Where the text ceases to be rows, and why."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


def delimiter_of(ending: str, head: str) -> str:
    """What separates the cells: what the file's `ending` says, unless its first line, `head`, has only another."""
    usual = DELIMITERS[ending]
    return usual if usual in head else next((mark for mark in ";\t" if mark in head), usual)


def rows(lines: Iterable[str], delimiter: str, *, quoted: bool = True) -> Iterator[Row]:
    """Each row that is not blank; where not `quoted`, quotes mean themselves.

    Raises
    ------
    Unreadable
        At a quote that is not closed, or after which the cell goes on.
    """
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    begin = 1
    try:
        for cells in reader:
            if cells:
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        reason = "a quote is opened and not closed" if "unexpected end" in str(error) else str(error)
        raise Unreadable(begin, reason) from None


def quotes_enclose(lines: Iterable[str], delimiter: str) -> bool:
    """Whether quotes stand around cells rather than for themselves, as they do in most tab-separated files.

    There they count as quoting only where all lines parse so, into rows of one width and no cell with a tab in it.
    """
    if delimiter != "\t":
        return True
    width = None
    try:
        for _, cells in rows(lines, delimiter):
            width = width or len(cells)
            if len(cells) != width or any("\t" in cell for cell in cells):
                return False
    except Unreadable:
        return False
    return True


def column_called(names: Iterable[str], *wanted: str) -> str | None:
    """The column called by the first of `wanted` that any is called by: exactly, or else but for case and blanks."""
    exact = list(names)
    for name in wanted:
        if name in exact:
            return name
        if found := next((other for other in exact if other.strip().casefold() == name.casefold()), None):
            return found
    return None
