"""Labels of any type as classes: integers, booleans, strings, one-hot rows, categories and sets of labels agree."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from covec.errors import ExamplesError, UnclearLabelsError, listed

POSITIVE = frozenset({"1", "true", "positive", "pos", "yes"})
_WHOLE_NUMBER = re.compile(r"([+-]?\d{1,400})(\.0*)?")  # of more digits than any float has, but not of boundless ones


@dataclass(frozen=True)
class Labels:
    """The classes of every row (nearly always one) and, for each class, its first spelling."""

    classes: tuple[frozenset[str], ...]
    spelling: dict[str, str]

    @classmethod
    def parse(cls, values: Iterable[Any], places: Sequence[str] | None = None) -> Labels:
        """The labels in `values` [n]; one-hot rows [n, k] count as the index of their one.

        Raises
        ------
        ExamplesError
            A label is missing, or of a type that names no class; `places` say where.
        """
        rows = _one_hot_indices([_plain(value) for value in values])
        places = places or [f"row {row + 1}" for row in range(len(rows))]
        spelling: dict[str, str] = {}
        classes = []
        for row, place in zip(rows, places, strict=True):
            names = {_class(value, place): str(value).strip() for value in (row if isinstance(row, list) else [row])}
            classes.append(frozenset(names))
            spelling |= {name: text for name, text in names.items() if name not in spelling}
        unjoined = _unjoined(classes)
        used = frozenset[str]().union(*unjoined)
        return cls(unjoined, {name: text for name, text in spelling.items() if name in used})

    def binary(self, source: str, positive: str | None = None) -> NDArray[np.bool_]:
        """Which rows are positive [n]: those of class `positive`, else of the class whose name says so.

        Raises
        ------
        ExamplesError
            There is no class `positive`; or none is given and there are not two classes, of which one is called 1,
            true, positive, pos or yes.
        """
        if positive is not None:
            wanted = _class(positive, "positive")
            if wanted not in self.spelling:
                raise ExamplesError(f"{source} has no label {str(positive)!r}; it has {self.named()}")
            return self.against_rest(wanted)
        names = set(self.spelling)
        if len(names) == 1:
            raise ExamplesError(f"{source} has one label only, {self.named()}; add examples of the other class")
        if len(names) > 2:
            mend = "say which is the concept with --positive LABEL, or take them all with --each-class"
            raise UnclearLabelsError(f"{source} has {len(names)} labels ({self.named()}); {mend}")
        hits = names & POSITIVE
        # Of 1 and 2, either may be the concept: data sets are published both ways.
        numbered = hits == {"1"} and bool(_WHOLE_NUMBER.fullmatch(other := (names - hits).pop())) and int(other) > 0
        if len(hits) != 1 or numbered:
            raise UnclearLabelsError(
                f"{source} has the labels {self.named()}; say which is the concept with --positive LABEL"
            )
        return self.against_rest(hits.pop())

    def concepts(self, source: str, positive: str | None, each_class: bool) -> dict[str, NDArray[np.bool_]]:
        """The positive rows of every concept these labels make; the only one of two classes has the name ""."""
        if each_class:
            return {text: self.against_rest(name) for name, text in self.spelling.items()}
        rows = self.binary(source, positive)
        named = positive is not None and len(self.spelling) > 2
        return {self.spelling[_class(positive, "positive")] if named else "": rows}

    def against_rest(self, name: str) -> NDArray[np.bool_]:
        """Which rows are of class `name` [n]."""
        return np.array([name in classes for classes in self.classes])

    def named(self) -> str:
        """The classes in words, the first dozen of them."""
        return listed(self.spelling.values())


def _plain(value: Any) -> Any:
    """`value` as Python's own type: tensors and arrays as lists, their single items as numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple | set | frozenset) else value


def _one_hot_indices(rows: list[Any]) -> list[Any]:
    widths = {len(row) if isinstance(row, list) else 0 for row in rows}
    if len(widths) != 1 or widths & {0, 1}:
        return rows
    return [row.index(1) for row in rows] if all(map(_is_one_hot, rows)) else rows


def _is_one_hot(row: list[Any]) -> bool:
    return all(isinstance(value, int | float) for value in row) and sorted(row) == [0] * (len(row) - 1) + [1]


def _class(value: Any, place: str) -> str:
    """The canonical name of a label: without case, numbers without a fraction of zero, booleans as 1 and 0."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise ExamplesError(f"{place}: the label is missing; fill it in, or remove the row")
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise ExamplesError(f"{place}: a label is a name or a number, not {type(value).__name__}")
    name = str(value).strip().casefold()
    if not name or name == "nan":
        raise ExamplesError(f"{place}: the label is missing; fill it in, or remove the row")
    whole = _WHOLE_NUMBER.fullmatch(name)
    return str(int(whole[1])) if whole else name  # by way of a float, neighbours above 2**53 would become one


def _unjoined(classes: list[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Labels such as `3,4` as both 3 and 4, where every part is also the label of some other row."""
    known = frozenset[str]().union(*classes)
    parts = {name: frozenset(part.strip() for part in name.split(",")) for name in known if "," in name}
    parts = {name: several for name, several in parts.items() if several <= known}
    return tuple(frozenset[str]().union(*(parts.get(name, {name}) for name in row)) for row in classes)
