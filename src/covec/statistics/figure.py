"""The form of every number that leaves covec: a value with its interval, its null, its sample size and its method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

from covec.errors import FileError

_UNKNOWN = "n/a"
_PLAIN_FROM, _PLAIN_UNDER = 1e-4, 1e4  # the numbers that are written without an exponent
_ROUNDING = 1e-6  # an end computed along another path may miss the value by rounding in float32


@dataclass(frozen=True)
class Figure:
    """A number and what is needed to judge it; prints as `0.91 [0.86, 0.95], null 0.52, n 180`.

    Parameters
    ----------
    value
        The estimate; NaN where it could not be had.
    low, high
        Ends of the 95% interval; None where there is none.
    null
        What the estimate would be by chance.
    n
        Number of rows it rests on; `how` says how many groups they form, where that matters.
    how
        How value and interval were got, in a few words.

    Raises
    ------
    ValueError
        A number is infinite, `n` is negative, or the interval does not hold the value.
    """

    value: float
    low: float | None = None
    high: float | None = None
    null: float | None = None
    n: int | None = None
    how: str = ""

    def __post_init__(self) -> None:
        numbers = {name: _number(getattr(self, name)) for name in ("value", "low", "high", "null")}
        numbers["value"] = math.nan if numbers["value"] is None else numbers["value"]
        for name, number in numbers.items():
            object.__setattr__(self, name, number)
        object.__setattr__(self, "n", None if self.n is None else int(self.n))
        if self.n is not None and self.n < 0:
            raise ValueError(f"a figure's n is a count, not {self.n}")
        middle = None if math.isnan(self.value) else self.value
        ends = [end for end in (self.low, middle, self.high) if end is not None]
        if any(right < left - _ROUNDING * max(1.0, abs(left)) for left, right in pairwise(ends)):
            raise ValueError(f"a figure's interval holds its value: {self.value} is not in [{self.low}, {self.high}]")

    def __str__(self) -> str:
        written = _written((self.value, self.low, self.high))
        parts = [written(self.value)]
        if self.low is not None or self.high is not None:
            parts[0] += f" [{written(self.low)}, {written(self.high)}]"
        if self.null is not None:
            parts.append(f"null {written(self.null)}")
        if self.n is not None:
            parts.append(f"n {self.n}")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The six fields as JSON values: a value that could not be had is null."""
        document = asdict(self)
        return document | {"value": None if math.isnan(self.value) else self.value}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Figure:
        """Read back what `to_json` wrote; a document that is no figure raises `FileError`."""
        names = {field.name for field in fields(cls)}
        if not isinstance(document, Mapping) or set(document) != names:
            raise FileError(f"not a figure: needs exactly the keys {', '.join(sorted(names))}")
        numbers = [document[name] for name in ("value", "low", "high", "null")]
        if not (
            all(number is None or type(number) in (int, float) for number in numbers)
            and (document["n"] is None or type(document["n"]) is int)
            and isinstance(document["how"], str)
        ):
            raise FileError("not a figure: value, low, high, null are numbers or null, n is a count, how a text")
        try:
            return cls(**document)
        except (TypeError, ValueError) as error:
            raise FileError(f"not a figure: {error}") from error


def _number(value: float | None) -> float | None:
    """`value` as a plain float; None where it is NaN."""
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        raise ValueError("a figure is finite, or NaN where it could not be had")
    return float(value)


def _written(numbers: Sequence[float | None]) -> Callable[[float | None], str]:
    """How a value and its ends are written: with the same decimals, two of which the largest of them fills at least."""
    largest = max((abs(number) for number in numbers if number is not None and not math.isnan(number)), default=0.0)
    if largest >= _PLAIN_UNDER or 0 < largest < _PLAIN_FROM:
        return lambda number: _UNKNOWN if number is None or math.isnan(number) else f"{number:.2g}"
    decimals = 2 if largest == 0 else max(2, 1 - math.floor(math.log10(largest)))
    return lambda number: _UNKNOWN if number is None or math.isnan(number) else f"{number:.{decimals}f}"
