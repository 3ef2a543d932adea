"""How well concepts can be told apart by single units, such as neurons or the codes of a sparse autoencoder.

"Evaluating Sparse Autoencoders for Monosemantic Representation", arXiv:2508.15094. Its attenuation of units is an edit:
`covec.edits.attenuation`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from covec.errors import CovecError
from covec.registry import method
from covec.statistics.densities import BINS, Densities
from covec.statistics.figure import Figure


@dataclass(frozen=True, eq=False)
class Separability:
    """Jensen-Shannon distances between the values of units in different concepts, 0 to 1.

    Attributes
    ----------
    figure
        Of a concept's values from those of all others, in the units that tell it best; mean over concepts and units.
    every, active, top
        Of all concepts at once: over all units, as published; over those that are ever not zero; and over the best.
    overlap
        Share of the best units that two concepts have in common: low where units are of one concept each.
    concepts, units
        The concepts, and the numbers of the units that tell each best, the best first [k, top].
    densities
        How the values are distributed, for an attenuation.
    """

    figure: Figure
    every: Figure
    active: Figure
    top: Figure
    overlap: Figure
    concepts: tuple[Hashable, ...]
    units: Int[np.ndarray, "k top"]
    densities: Densities


class _Scores(NamedTuple):
    figure: float
    every: float
    active: float
    top: float
    overlap: float


@method("sae-separability-app", verb="measure", card="sae-separability-app")
def sae_separability_app(
    values: Float[ArrayLike, "n m"],
    concepts: Sequence[Hashable],
    *,
    top: int = 5,
    bins: int = BINS,
    nulls: int = 5,
    seed: int = 0,
) -> Separability:
    """How far the values of units tell concepts apart; the null is the same with the concepts shuffled among the rows.

    The best units of a concept are those whose mean differs most from that of the other concepts, in standard
    deviations; they are chosen anew under the null. As many rows of each concept count, drawn where there are more.

    Parameters
    ----------
    values
        A row an input: neurons, coordinates of the stream, or codes.
    concepts
        The concept of each row [n].
    top
        Units a concept.

    Raises
    ------
    CovecError
        There is one concept only, a concept has fewer than four rows, or values are not finite.
    """
    table, names = np.asarray(values, dtype=np.float64), list(dict.fromkeys(concepts))
    if table.ndim != 2 or not np.isfinite(table).all():
        raise CovecError(f"values are rows [n, m] of finite numbers, not of shape {list(table.shape)}")
    if len(concepts) != len(table) or len(names) < 2:
        raise CovecError(f"{len(names)} concepts of {len(concepts)} rows for {len(table)}: name two or more, one a row")
    if not 0 < top <= table.shape[1]:
        raise CovecError(f"the best {top} of {table.shape[1]} units cannot be had")
    place = {name: number for number, name in enumerate(names)}
    groups, rng = np.array([place[name] for name in concepts]), np.random.default_rng(seed)
    least = int(np.bincount(groups).min())
    if least < 4:
        raise CovecError(f"a concept has {least} rows; four at least are needed to see how values are distributed")
    kept = np.sort(
        np.concatenate([rng.choice(np.flatnonzero(groups == one), least, replace=False) for one in range(len(names))])
    )
    table, groups = table[kept], groups[kept]
    densities, units, found = _scores(table, groups, top, bins)
    drawn = [_scores(table, rng.permutation(groups), top, bins)[2] for _ in range(nulls)]
    chance = [float(np.mean(each)) for each in zip(*drawn, strict=True)] if drawn else [None] * len(found)
    told = f"{{}}; null: concepts shuffled, {nulls} times"
    how = (
        f"distance of a concept from the others, {top} best units each",
        "distance of all concepts, all units",
        "distance of all concepts, units that are ever not zero",
        f"distance of all concepts, {top} best units each",
        f"share of the {top} best units that two concepts share",
    )
    one, every, active, best, overlap = (
        Figure(value, null=null, n=len(table), how=told.format(words))
        for value, null, words in zip(found, chance, how, strict=True)
    )
    return Separability(one, every, active, best, overlap, tuple(names), units, densities)


def _scores(
    table: Float[np.ndarray, "n m"], groups: Int[np.ndarray, "n"], top: int, bins: int
) -> tuple[Densities, Int[np.ndarray, "k top"], _Scores]:
    densities = Densities.of(table, groups, bins)
    means = np.stack([table[groups == one].mean(0) for one in range(groups.max() + 1)])
    others = (means.sum(0) - means) / (len(means) - 1)
    spread = table.std(0)
    contrast = np.abs(means - others) / np.where(spread > 0, spread, 1)
    units = np.argsort(-contrast, axis=1, kind="stable")[:, :top]
    each, rest = densities.distance(), densities.against_rest()
    active = table.any(0)
    shared = [len(np.intersect1d(units[a], units[b])) / top for a, b in combinations(range(len(units)), 2)]
    scores = _Scores(
        float(np.take_along_axis(rest, units, 1).mean()),
        float(each.mean()),
        float(each[active].mean()) if active.any() else 0.0,
        float(each[units].mean()),
        float(np.mean(shared)),
    )
    return densities, units, scores
