"""What a command prints: results on stdout, all else on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from covec.errors import FileError

_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
_PICTURES |= dict.fromkeys(range(128, 160), 0xFFFD)


@contextlib.contextmanager
def working() -> Iterator[None]:
    """While a command works, whatever prints goes to stderr, so that stdout holds the result alone."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def show(document: Any, as_json: bool, text: Callable[[], str]) -> None:
    """Print `document` as JSON, or the text that says the same to a person.

    Raises
    ------
    FileError
        Standard output is closed, or what it goes to is full.
    """
    if sys.stdout is None:
        raise FileError("the result cannot be printed: standard output is closed; send it to a file or a terminal")
    result = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) if as_json else text()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        result.encode(encoding)
    except UnicodeEncodeError:  # the name of a file that is no text, or letters that a terminal does not have
        plain = result.encode(encoding, "backslashreplace").decode(encoding)
        result = json.dumps(document, indent=2, allow_nan=False) if as_json else plain
    try:
        print(result, flush=True)
    except BrokenPipeError:  # the reader, `head` say, has had enough
        _print_no_more()
    except OSError as error:
        _print_no_more()
        raise FileError(f"the result cannot be printed: {error.strerror or error}; send it elsewhere") from error


def _print_no_more() -> None:
    """Let what is left in the buffer, which would fail again on leaving, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def visible(text: str) -> str:
    """`text` of the same length, with pictures of the control characters that a terminal would obey."""
    return text.translate(_PICTURES)


def note(text: str) -> None:
    """Say something beside the result."""
    print(text, file=sys.stderr)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns padded to their widest cell; numbers stand to the right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float) for row in rows) for column in range(len(header))
    ]
    lines = []
    for row in cells:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)
