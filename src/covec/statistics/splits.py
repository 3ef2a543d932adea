"""Splits and folds that no duplicate, pair or group straddles, and that adding rows does not disturb.

A row's *unit* is what must stay together: its group, else its pair, else all rows of the same near-duplicate text. A
unit goes to train, validation or test by a salted hash of its own name, so that neither the order of the rows nor the
other rows decide where it stands.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from covec.errors import ExamplesError

PARTS = ("train", "validation", "test")
REFUSED_UNDER, TOO_LITTLE_UNDER, NESTED_UNDER = 8, 20, 50
_UPPER_ENDS = (0.6, 0.8, 1.0)  # of the hash, as a fraction: 60% train, 20% validation, 20% test

Regime = Literal["holdout", "nested", "too-little-data", "refused"]


@dataclass(frozen=True)
class Split:
    """Row indices of the three parts, ascending; rows left out stand in none of them.

    `warnings` are sentences a report prints.
    """

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]
    warnings: tuple[str, ...] = ()


def lot(unit: Hashable, seed: int) -> float:
    """A fraction in [0, 1) that depends on the unit's name and the salt alone: what is sorted by it is dealt fairly."""
    return _lot(f"{seed}\0{unit}")


@lru_cache(maxsize=1 << 16)  # the units of one study are dealt at every site, for every finder
def _lot(name: str) -> float:
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6]) / 2**48


def near_duplicate_key(text: str) -> str:
    """`text` after NFKC, case folding and removal of punctuation and white space, and nothing looser.

    Equal keys are the same text. A text of nothing but punctuation keeps it.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    letters = [mark for mark in folded if not mark.isspace()]
    return "".join(mark for mark in letters if not unicodedata.category(mark).startswith("P")) or "".join(letters)


def units(
    keys: Sequence[str],
    *,
    groups: Sequence[Hashable | None] | None = None,
    pairs: Sequence[Hashable | None] | None = None,
) -> list[str | None]:
    """The unit of every row, or None where the row is left out.

    A text found in two units is kept in the first (in the order of the rows). In the later one it is left out, and
    with it the rest of its pair, for half a pair is of no use.

    Parameters
    ----------
    keys
        The near-duplicate key of each row.
    groups, pairs
        Group and pair id of each row, or None.

    Raises
    ------
    ExamplesError
        A pair stands in two groups.
    """
    groups, pairs = groups or [None] * len(keys), pairs or [None] * len(keys)
    group_of_pair: dict[Hashable, Hashable | None] = {}
    for group, pair in zip(groups, pairs, strict=True):
        if pair is not None and group_of_pair.setdefault(pair, group) != group:
            raise ExamplesError(f"pair {str(pair)!r} stands in two groups; give both rows of a pair one group")
    names = [
        f"group {group}" if group is not None else f"pair {pair}" if pair is not None else f"text {key}"
        for key, group, pair in zip(keys, groups, pairs, strict=True)
    ]
    bundles: dict[Hashable, list[int]] = {}  # a pair's rows, else the row alone
    for row, pair in enumerate(pairs):
        bundles.setdefault(("row", row) if pair is None else ("pair", pair), []).append(row)
    home: dict[str, str] = {}
    chosen: list[str | None] = [None] * len(keys)
    for rows in bundles.values():
        if all(home.get(keys[row], names[row]) == names[row] for row in rows):
            for row in rows:
                home[keys[row]] = chosen[row] = names[row]
    return chosen


def independent_groups(units: Sequence[str | None], labels: Bool[np.ndarray, " n"]) -> tuple[int, int]:
    """Number of units that hold a positive row, and of those that hold a negative one."""
    seen = {(unit, bool(label)) for unit, label in zip(units, labels, strict=True) if unit is not None}
    return sum(label for _, label in seen), sum(not label for _, label in seen)


def regime(count: int) -> Regime:
    """What a study can do with `count` independent groups in its smaller class.

    `holdout` from 50; below, `nested` five-fold cross-validation; below 20 the same, but the verdict is
    `too-little-data`; below 8 it is `refused`.
    """
    if count >= NESTED_UNDER:
        return "holdout"
    if count >= TOO_LITTLE_UNDER:
        return "nested"
    return "too-little-data" if count >= REFUSED_UNDER else "refused"


def split(
    keys: Sequence[str],
    labels: Bool[np.ndarray, " n"],
    *,
    groups: Sequence[Hashable | None] | None = None,
    pairs: Sequence[Hashable | None] | None = None,
    fixed: Sequence[str] | None = None,
    seed: int = 0,
) -> Split:
    """60% train, 20% validation, 20% test, by a salted hash of each row's unit.

    Where a class would get no row in some part, units are dealt out by the rank of their hash instead.

    Parameters
    ----------
    keys, groups, pairs
        As in `units`.
    labels
        True for positives [n].
    fixed
        The part of each row where the user chose it; only rows without a unit are left out of it.
    seed
        The salt: the only thing that moves rows.

    Raises
    ------
    ExamplesError
        A part has no row of a class: `fixed` gives it none, or fewer than five units carry the class.
    """
    labels = np.asarray(labels, dtype=bool)
    names = units(keys, groups=groups, pairs=pairs)
    if fixed is not None:
        return _fixed(fixed, labels, names, [ids for ids in (keys, groups, pairs) if ids is not None])
    part = np.array([-1 if name is None else int(np.searchsorted(_UPPER_ENDS, lot(name, seed))) for name in names])
    if _lacking(part, labels):
        fold = deal(names, labels, k=5, seed=seed)
        part = np.select([fold < 0, fold == 0, fold == 1], [-1, 2, 1], 0)
    return _gathered(part, left_out(names))


def left_out(units: Sequence[str | None]) -> tuple[str, ...]:
    """The warning that rows are left out (unit None), where some are."""
    count = sum(unit is None for unit in units)
    return (f"rows left out, because their text stands in an earlier group or pair too: {count}",) if count else ()


def folds(
    units: Sequence[Hashable | None], labels: Bool[np.ndarray, " n"], *, k: int = 5, seed: int = 0
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """`k` pairs (train, test) of row indices, grouped by `units` and stratified; the law of `deal`."""
    fold = deal(units, labels, k=k, seed=seed)
    return [(np.flatnonzero((fold >= 0) & (fold != index)), np.flatnonzero(fold == index)) for index in range(k)]


def deal(
    units: Sequence[Hashable | None], labels: Bool[np.ndarray, " n"], *, k: int = 5, seed: int = 0
) -> Int[np.ndarray, " n"]:
    """The fold of every row, 0 to k - 1 (-1 where its unit is None).

    Units are sorted by their hash and dealt out in turn: those of one class alone, those with both, those of the other
    alone. Each class is thus one run of that line: with `k` units or more it reaches every fold. The class of the
    lowest hash comes first, so that the folds do not depend on which class is called positive.

    Raises
    ------
    ExamplesError
        Fewer than `k` units carry a class.
    """
    labels = np.asarray(labels, dtype=bool)
    classes: dict[Hashable, set[bool]] = {}
    for unit, label in zip(units, labels.tolist(), strict=True):
        if unit is not None:
            classes.setdefault(unit, set()).add(label)
    for label, name in ((True, "positive"), (False, "negative")):
        count = sum(label in held for held in classes.values())
        if count < k:
            raise ExamplesError(f"{count} independent {name} examples cannot fill {k} folds; add examples")
    lots = {unit: (lot(unit, seed), str(unit)) for unit in classes}
    pure = [unit for unit, held in classes.items() if len(held) == 1]
    first = classes[min(pure, key=lots.__getitem__)] if pure else set()
    line = sorted(classes, key=lambda unit: (len(first ^ classes[unit]), lots[unit]))
    fold_of = {unit: place % k for place, unit in enumerate(line)}
    return np.array([-1 if unit is None else fold_of[unit] for unit in units])


def _fixed(
    fixed: Sequence[str],
    labels: NDArray[np.bool_],
    units: Sequence[str | None],
    ids: Sequence[Sequence[Hashable | None]],
) -> Split:
    part = np.array([-1 if unit is None else PARTS.index(name) for name, unit in zip(fixed, units, strict=True)])
    if lacking := _lacking(part, labels):
        raise ExamplesError(f"the split column has no {lacking} rows; give each of {', '.join(PARTS)} both classes")
    straddling = np.zeros(len(part), dtype=bool)
    for column in ids:
        parts_of: dict[Hashable, set[int]] = {}
        for name, index in zip(column, part.tolist(), strict=True):
            parts_of.setdefault(name, set()).add(index)
        straddling |= [name is not None and len(parts_of[name] - {-1}) > 1 for name in column]
    count = int((straddling & (part >= 0)).sum())
    warning = f"rows that share their text, group or pair with another part of the split column: {count}"
    return _gathered(part, (*left_out(units), *((warning,) if count else ())))


def _gathered(part: NDArray[Any], warnings: tuple[str, ...]) -> Split:
    train, validation, test = (np.flatnonzero(part == index) for index in range(3))
    return Split(train, validation, test, warnings)


def _lacking(part: NDArray[Any], labels: NDArray[np.bool_]) -> str:
    """The first part and class without a row, such as `positive test`; empty where there is none."""
    for index, name in enumerate(PARTS):
        for label, class_name in ((True, "positive"), (False, "negative")):
            if not (labels[part == index] == label).any():
                return f"{class_name} {name}"
    return ""
