"""Plain values: what the metadata of a concept vector may hold, so that it survives a file unchanged."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from covec.errors import CovecError
from covec.statistics.figure import Figure

DEPTH = 32  # nesting a reader accepts; honest metadata needs four or five
_FIGURE_KEYS = frozenset(Figure(0.0).to_json())
_DIGITS = 20  # of an integer: enough for 64 bits, too few to be a bomb


def plain(value: Any, where: str, depth: int = DEPTH) -> Any:
    """`value` as nested dicts, lists, strings, numbers, booleans, None and Figures; what is none of these raises.

    Tuples become lists, NumPy and torch scalars Python ones, numbers that are not finite None.

    Raises
    ------
    CovecError
        Something in `value` cannot be kept in a file, or it is nested deeper than 32.
    """
    if not depth:
        raise CovecError(f"{where} is nested more than {DEPTH} deep")
    if isinstance(value, Mapping):
        return {_text(key, where): plain(item, where, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, where, depth - 1) for item in value]
    if isinstance(value, str):
        return _text(value, where)
    if not isinstance(value, bool | int | float) and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_DIGITS:
        raise CovecError(f"{where} holds an integer of more than {_DIGITS} digits")
    if isinstance(value, Figure):
        _text(value.how, where)
        plain(value.n, where)
    if value is None or isinstance(value, bool | int | Figure):
        return value
    raise CovecError(f"{where} holds a {type(value).__name__}, which cannot be kept in a file; make it text or numbers")


def to_json(value: Any) -> str:
    """One line of JSON for a plain value; a Figure becomes the object of its six fields."""
    return json.dumps(value, default=Figure.to_json, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def from_json(text: str | bytes, *, figures: bool = True) -> Any:
    """Read JSON that others wrote: no duplicate keys, no NaN, no infinite or boundless number, no bottomless nesting.

    With `figures`, an object of exactly a figure's six fields becomes a `Figure`.

    Raises
    ------
    ValueError
        It is not such JSON; the message says why.
    FileError
        An object looks like a figure and is none.
    """

    def build(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key stands twice")
        return Figure.from_json(found) if figures and found.keys() == _FIGURE_KEYS else found

    try:
        return json.loads(
            text, object_pairs_hook=build, parse_int=_integer, parse_float=_number, parse_constant=_constant
        )
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise CovecError(f"{where} holds {value!r}, where there must be text"[:200])
    try:
        value.encode()
    except UnicodeEncodeError:
        raise CovecError(f"{where} holds text that is not valid Unicode") from None
    return value


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > _DIGITS:
        raise ValueError(f"an integer has more than {_DIGITS} digits")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is too large")
    return number


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")
