"""Stability: would other examples of the concept have given the same direction?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from covec.errors import ExamplesError
from covec.registry import method
from covec.statistics.auroc import checked_labels
from covec.statistics.figure import Figure
from covec.statistics.permutation import permuted_labels
from covec.statistics.splits import folds

HALVINGS = 5


@method("stability", verb="measure")
def stability(
    finder: Callable[[], Any],
    rows: Float[Tensor, "n d"],
    labels: Bool[np.ndarray, "n"],
    *,
    units: Sequence[Hashable],
    pairs: Sequence[Hashable | None] | None = None,
    columns: Mapping[str, Sequence[Any]] | None = None,
    halvings: int = HALVINGS,
    with_null: bool = True,
    seed: int = 0,
) -> Figure:
    """Mean cosine of the directions found on disjoint halves of the examples, beside its value for shuffled labels.

    Parameters
    ----------
    finder
        Makes an unfitted finder.
    units
        What must not be torn apart, by row.
    columns
        What else the finder requires, by name and row.
    halvings
        How often the examples are halved.
    with_null
        Whether to repeat everything under shuffled labels.

    Raises
    ------
    ExamplesError
        Rows, labels and units are not as many, or only one class has rows.
    """
    labels = checked_labels(labels)
    if not len(rows) == len(labels) == len(units):
        raise ExamplesError(f"{len(rows)} rows, {len(labels)} labels, {len(units)} units: give one each a row")
    carried = {"pairs": pairs, **(columns or {})}
    found = _cosines(finder, rows, labels, units, carried, halvings, seed)
    null = None
    if with_null:
        rng = np.random.default_rng(seed)
        shuffled = permuted_labels(labels, halvings, groups=units, pairs=pairs, rng=rng)
        null = float(np.mean([_cosines(finder, rows, one, units, carried, 1, seed)[0] for one in shuffled]))
    low, high = (float(min(found)), float(max(found))) if len(found) > 1 else (None, None)
    how = f"mean cosine over {halvings} halvings, with their range; null: shuffled labels"
    return Figure(float(np.mean(found)), low, high, null, len(labels), how)


def _cosines(
    finder: Callable[[], Any],
    rows: Tensor,
    labels: np.ndarray,
    units: Sequence[Hashable],
    carried: Mapping[str, Sequence[Any] | None],
    halvings: int,
    seed: int,
) -> list[float]:
    cosines = []
    for halving in range(halvings):
        directions = []
        for half, _ in folds(units, labels, k=2, seed=seed + halving):
            own = {name: None if column is None else [column[row] for row in half] for name, column in carried.items()}
            fitted = finder().fit(
                rows[torch.from_numpy(half)], labels[half], groups=[units[row] for row in half], **own
            )
            directions.append(fitted.direction_)
        cosines.append(float(directions[0] @ directions[1]))
    return cosines
