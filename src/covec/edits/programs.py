"""The least moves that bring several concepts within their limits: a small linear program a token, solved at once.

GCAV, "Controlling Large Language Models Through Concept Activation Vectors", arXiv:2501.05764, section on several
concepts: with e the activation and v_j the concepts' directions, minimise sum |s_j| such that each concept of
e + sum s_j v_j is at or above its limit (to be raised), or at or below it (to be lowered).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit, _common, _wide
from covec.errors import ModelError
from covec.models.plan import Pass
from covec.models.positions import Position
from covec.models.sites import Site

MOST = 5  # concepts at once: the program's corners multiply with each
APART = 100.0  # how many times as far as alone concepts may have to move because of one another
_ZERO = 1e-9


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WithinLimits(Edit):
    """The least sum of shifts along `directions` [k, d] after which every token is within all its limits.

    Concept i is within its limit where `signs[i] * (directions[i] . h - limits[i]) >= 0`. A token that is within all of
    them is left alone to the bit. The program's dual has the same corners for every token: the best corner is looked
    up, and the shifts are linear in what is missing (`moves` [corners, k, k], `prices` [corners, k]).
    """

    directions: Float[Tensor, "k d"]
    limits: Float[Tensor, "k"]
    signs: Float[Tensor, "k"]
    prices: Float[Tensor, "corners k"]
    moves: Float[Tensor, "corners k k"]

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = _wide(h)
        directions, limits, signs = (one.to(wide.dtype) for one in (self.directions, self.limits, self.signs))
        missing = (limits - wide @ directions.T) * signs  # above 0 where a limit is not kept
        costs = missing @ self.prices.to(wide.dtype).T
        best = costs.argmax(-1)
        shifts = (self.moves.to(wide.dtype)[best] @ missing[..., None])[..., 0]
        open_ones = (missing > 0).any(-1, keepdim=True)
        return torch.where(open_ones, (wide + shifts @ directions).to(h.dtype), h)


def within_limits(
    vectors: Sequence[ConceptVector],
    probabilities: Sequence[float],
    raised: Sequence[bool],
    *,
    position: str | Position | None = None,
    gate: Any = None,
) -> tuple[WithinLimits, ...]:
    """Edits that raise each vector's calibrated probability to its limit where it is lower, or lower it to that.

    Vectors may have different sites; at each, those that have a part there are brought within their limits together.

    Raises
    ------
    ModelError
        A probability does not lie between 0 and 1, a vector has none, or two limits contradict one another.
    """
    if not len(vectors) == len(probabilities) == len(raised) or not vectors:
        raise ModelError(f"{len(vectors)} vectors, {len(probabilities)} probabilities: give a limit for every vector")
    if len(vectors) > MOST:
        raise ModelError(f"{len(vectors)} concepts at once are too many for one linear program: give {MOST} at most")
    if len({one.model.get("fingerprint") for one in vectors} - {None}) > 1:
        raise ModelError("these vectors were found in different models: give vectors of one")
    targets = [_score(one, probability) for one, probability in zip(vectors, probabilities, strict=True)]
    common = _common(vectors[0], position, gate)
    sites = dict.fromkeys(site for vector in vectors for site in vector.sites)
    return tuple(WithinLimits(site=site, **_program(vectors, targets, raised, site), **common) for site in sites)


def _score(vector: ConceptVector, probability: float) -> float:
    if not 0 < probability < 1:
        raise ModelError(f"a probability lies between 0 and 1, not {probability}")
    if vector.calibration is None or vector.calibration[0] <= 0:
        raise ModelError(f"{vector.name} has no calibrated probability: fit it by a study, or calibrate it")
    slope, offset = vector.calibration
    return (math.log(probability / (1 - probability)) - offset) / slope


def _program(
    vectors: Sequence[ConceptVector], targets: Sequence[float], raised: Sequence[bool], site: Site
) -> dict[str, Any]:
    """The tensors of the edit at one site; refuses limits that no shift keeps together."""
    here = [place for place, vector in enumerate(vectors) if site in vector.parts]
    parts = [vectors[place].parts[site] for place in here]
    if wide := [vectors[place].name for place, part in zip(here, parts, strict=True) if part.rank != 1]:
        raise ModelError(f"a probability belongs to one direction, and {wide[0]} is a subspace")
    directions = torch.cat([part.direction.double() for part in parts])
    signs = torch.tensor([1.0 if raised[place] else -1.0 for place in here], dtype=torch.float64)
    gains = signs[:, None] * (directions @ directions.T)
    _check_apart([(vectors[place].name, raised[place]) for place in here], gains, site)
    prices, moves = corners(gains)
    limits = [targets[place] * part.scale[0] - part.intercept[0] for place, part in zip(here, parts, strict=True)]
    return {
        "directions": directions.float(),
        "limits": torch.stack(limits),
        "signs": signs.float(),
        "prices": prices.float(),
        "moves": moves.float(),
    }


def _check_apart(concepts: Sequence[tuple[str, bool]], gains: Float[Tensor, "k k"], site: Site) -> None:
    """Refuse limits that no shift keeps together, or only one many times as long as that of a single concept.

    There are such limits where shares y of the concepts (y >= 0, of sum 1) cancel one another: `gains' y` is zero.
    """
    from scipy.optimize import linprog

    count, columns = len(gains), gains.T.numpy()
    bound = -np.ones((count, 1))
    found = linprog(
        [*np.zeros(count), 1.0],
        A_ub=np.block([[columns, bound], [-columns, bound]]),
        b_ub=np.zeros(2 * count),
        A_eq=[[*np.ones(count), 0.0]],
        b_eq=[1.0],
    )
    if found.fun * APART > 1:
        return
    first, second = (concepts[at] for at in np.argsort(-found.x[:count])[:2])
    words = [f"{name!r} {'up' if up else 'down'}" for name, up in (first, second)]
    raise ModelError(
        f"{' and '.join(words)} contradict one another at {site}: their directions are nearly one, leave one out"
    )


def corners(gains: Float[Tensor, "k k"]) -> tuple[Float[Tensor, "corners k"], Float[Tensor, "corners k k"]]:
    """Corners of the dual of: minimise sum |s| such that `gains @ s >= b`, and the map from b to s of each.

    The dual is: maximise b . y over y >= 0 with |gains' y| <= 1. Its corners do not depend on b. At each, as many of
    its constraints as there are concepts hold with equality; by complementary slackness s is 0 but where a price is at
    its limit, and a concept with a price stands exactly at its limit. Where a corner is the best one, that map is
    feasible.
    """
    count = len(gains)
    eye = torch.eye(count, dtype=torch.float64)
    walls = torch.cat([eye, gains.T, -gains.T])  # walls @ y = levels, where they hold with equality
    levels = torch.cat([torch.zeros(count), torch.ones(2 * count)]).double()
    prices, moves = [torch.zeros(count, dtype=torch.float64)], [torch.zeros(count, count, dtype=torch.float64)]
    for chosen in map(list, combinations(range(3 * count), count)):
        if abs(float(torch.linalg.det(walls[chosen]))) < _ZERO:
            continue
        y = torch.linalg.solve(walls[chosen], levels[chosen])
        if (y < -_ZERO).any() or ((gains.T @ y).abs() > 1 + _ZERO).any():
            continue
        # b = gains @ s - surplus: in terms of the walls that hold, b = walls[chosen].T @ (what each of them bears).
        bears = torch.linalg.inv(walls[chosen].T)  # [chosen, k]: maps b to the multipliers of the walls
        move = torch.zeros(count, count, dtype=torch.float64)
        for place, wall in enumerate(chosen):
            if wall >= count:
                move[(wall - count) % count] += (1.0 if wall < 2 * count else -1.0) * bears[place]
        prices.append(y)
        moves.append(move)
    return torch.stack(prices), torch.stack(moves)
