"""What two concept vectors, or two sets of directions, have in common: five figures, each beside its null.

The figures are of the directions themselves, so they carry no interval. What they would be by chance is drawn: sets of
as many random directions as the second side has. Of those the mean is the null, and `how` tells what one in twenty of
them reaches. Isotropic directions are easy to beat; where `rows` of activations are given, the random ones are
differences of means between halves of the rows, which lean where the activations do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from covec.concepts.bank import Bank
from covec.concepts.dictionary import Dictionary
from covec.concepts.vector import ConceptVector
from covec.errors import BudgetError, CovecError
from covec.models.sites import Site
from covec.statistics.densities import Densities
from covec.statistics.figure import Figure

Directions = ConceptVector | Bank | Dictionary | Tensor
_LARGEST = 4096  # directions a side: matching takes the cube of them
_PAIRS = 2**22  # pairs of directions in all draws of the null together, of which there are three at least
_MOST_ROWS = 1024  # that random directions are made of
_SAME = "compare vectors of one model"


@dataclass(frozen=True)
class Comparison:
    """What two sides have in common; `pairs` are the numbers of the directions that were matched.

    Attributes
    ----------
    angle
        Degrees between two single directions, 0 to 180; of two sets, the mean of the principal angles of their spans.
    magnitude_ratio
        Length of the second side's shifts over that of the first's (root mean squares); the null is 1.
    procrustes
        Cosine of the two sets after the rotation that brings them nearest, row on row (by name, where both have names):
        1 where they are one arrangement, whatever its place. Not a number where they have no two rows in common.
    matching
        Mean cosine of the directions in the one-to-one matching that makes it largest (Hungarian).
    jensen_shannon
        Mean distance between the distributions of the rows along matched directions, 0 to 1; the null is what it is
        where both are one distribution. Not a number without rows.
    """

    angle: Figure
    magnitude_ratio: Figure
    procrustes: Figure
    matching: Figure
    jensen_shannon: Figure
    pairs: tuple[tuple[int, int], ...] = ()

    def figures(self) -> dict[str, Figure]:
        """The five figures by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "pairs"}

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return {name: figure.to_json() for name, figure in self.figures().items()}

    def __str__(self) -> str:
        return "\n".join(f"{name.replace('_', ' '):<16} {figure}" for name, figure in self.figures().items())


@dataclass(frozen=True, eq=False)
class _Side:
    """Unit directions [k, d], lengths of the shifts [k], names where there are any, and the model's fingerprint."""

    unit: Float[Tensor, "k d"]
    lengths: Float[Tensor, "k"]
    names: tuple[str, ...] | None
    model: str

    @classmethod
    def of(cls, given: Directions, site: Site | None) -> _Side:
        if isinstance(given, Dictionary):
            return cls._of_rows(given.directions, given.directions, None, str(given.model.get("fingerprint") or ""))
        if isinstance(given, Bank | ConceptVector):
            vectors = [given] if isinstance(given, ConceptVector) else list(given.values())
            read = [(vector, vector.parts[site]) for vector in vectors if site in vector.parts] if site else []
            directions, write = (torch.cat([getattr(part, key) for _, part in read]) for key in ("direction", "write"))
            names = tuple(vector.name for vector, part in read for _ in range(part.rank))
            models = {str(found) for vector, _ in read if (found := vector.model.get("fingerprint"))}
            if len(models) > 1:
                raise CovecError("these vectors were found in different models: compare those of one model at a time")
            return cls._of_rows(directions, write, names if isinstance(given, Bank) else None, min(models, default=""))
        rows = torch.as_tensor(given).detach()
        rows = rows[None] if rows.ndim == 1 else rows
        return cls._of_rows(rows, rows, None, "")

    @classmethod
    def _of_rows(cls, directions: Tensor, write: Tensor, names: tuple[str, ...] | None, model: str) -> _Side:
        rows, shifts = directions.to("cpu", torch.float64), write.to("cpu", torch.float64)
        if rows.ndim != 2 or 0 in rows.shape or not bool(torch.isfinite(rows).all() and rows.any(1).all()):
            raise CovecError("directions are rows [k, d] of finite numbers, none of them all zero")
        if len(rows) > _LARGEST:
            raise BudgetError(f"{len(rows)} directions cannot be matched here; compare at most {_LARGEST} of them")
        return cls(torch.nn.functional.normalize(rows, dim=1), shifts.norm(dim=1), names, model)


def compare(
    a: Directions,
    b: Directions,
    *,
    site: str | Site | None = None,
    rows: Float[Tensor, "n d"] | None = None,
    nulls: int = 100,
    seed: int = 0,
    force: bool = False,
) -> Comparison:
    """Compare two concept vectors, banks, dictionaries or tensors of directions [k, d], at one site of one model.

    Parameters
    ----------
    site
        Where vectors are compared; may be left out where the two sides share one site.
    rows
        Activations [n, d] at that site: they make the null harder, and give the distance of distributions.
    nulls
        Random sets that the null is the mean of; fewer for large sets, at least three.
    force
        Compare vectors of two models, whose axes then must mean the same: a model and what it was tuned to.

    Raises
    ------
    CovecError
        The two sides share no site or several, are of different widths or models, or hold no directions.
    """
    place = _site(a, b, None if site is None else Site.parse(site))
    one, other = _Side.of(a, place), _Side.of(b, place)
    if one.unit.shape[1] != other.unit.shape[1]:
        raise CovecError(f"directions of width {one.unit.shape[1]} and {other.unit.shape[1]} share no space: {_SAME}")
    if one.model and other.model and one.model != other.model and not force:
        raise CovecError(f"these directions were found in different models: {_SAME}, or force it for a tuned copy")
    cells = None if rows is None else _rows(rows, one.unit.shape[1])
    draws = max(3, min(nulls, _PAIRS // (len(one.unit) * len(other.unit)))) if nulls else 0
    chance = list(_random(len(other.unit), one.unit.shape[1], draws, cells, np.random.default_rng(seed)))
    kind = "random directions" if cells is None else "differences between random halves of the rows"
    told = f"null: mean over {draws} sets of {kind}"
    pairs = _matched(one.unit, other.unit)
    shift = [float(side.lengths.square().mean().sqrt()) for side in (one, other)]
    return Comparison(
        angle=_angle(one.unit, other.unit, chance, told),
        magnitude_ratio=Figure(shift[1] / shift[0], null=1.0, n=len(other.unit), how="root mean squares of the shifts"),
        procrustes=_procrustes(one, other, chance, told),
        matching=_figure(lambda unit: _mean_cosine(one.unit, unit), other.unit, chance, f"mean matched cosine; {told}"),
        jensen_shannon=_distributions(one, other, pairs, cells, seed),
        pairs=tuple((int(i), int(j)) for i, j in pairs),
    )


def _site(a: Directions, b: Directions, site: Site | None) -> Site | None:
    """The site at which both sides have parts; None where neither has any."""
    shared: list[set[Site]] = []
    for side in (a, b):
        if isinstance(side, Bank | ConceptVector):
            vectors = [side] if isinstance(side, ConceptVector) else side.values()
            shared.append({place for vector in vectors for place, part in vector.parts.items() if part.reads})
        elif isinstance(side, Dictionary) and side.site is not None:
            shared.append({side.site})
    if not shared:
        return site
    common = sorted(set.intersection(*shared))
    if site is not None and site in common:
        return site
    listed = ", ".join(map(str, common[:6])) or "none"
    if site is not None or not common:
        raise CovecError(f"the two sides are not both read at {site or 'one site'}; sites they share: {listed}")
    if len(common) > 1:
        raise CovecError(f"the two sides share several sites; choose one of {listed}")
    return common[0]


def _rows(rows: Float[Tensor, "n d"], width: int) -> Float[Tensor, "n d"]:
    cells = torch.as_tensor(rows).detach().to("cpu", torch.float64)
    if cells.ndim != 2 or cells.shape[1] != width or len(cells) < 4 or not bool(cells.isfinite().all()):
        raise CovecError(f"rows are activations [n, {width}], four at least and finite, not {list(cells.shape)}")
    return cells


def _random(
    count: int, width: int, draws: int, cells: Tensor | None, rng: np.random.Generator
) -> Iterator[Float[Tensor, "k d"]]:
    """Sets of random unit directions: isotropic, or differences of means between random halves of the rows."""
    if cells is not None:
        cells = cells[np.sort(rng.permutation(len(cells))[:_MOST_ROWS])]
        cells = cells - cells.mean(0)
    for _ in range(draws):
        if cells is None:
            drawn = torch.from_numpy(rng.standard_normal((count, width)))
        else:
            signs = np.ones((count, len(cells)))
            signs[:, : len(cells) // 2] = -1
            drawn = torch.from_numpy(rng.permuted(signs, axis=1)) @ cells
        yield torch.nn.functional.normalize(drawn, dim=1)


def _figure(
    measure: Callable[[Tensor], float], unit: Tensor, chance: list[Tensor], how: str, *, nearest: float = 0.95
) -> Figure:
    """`measure` of the second side, beside its mean over random sets; `nearest` is the quantile that is nearest."""
    drawn = [measure(one) for one in chance]
    if not drawn:
        return Figure(measure(unit), n=len(unit), how=how)
    how += f", of which one in twenty is beyond {np.quantile(drawn, nearest):.3g}"
    return Figure(measure(unit), null=float(np.mean(drawn)), n=len(unit), how=how)


def _angle(one: Tensor, other: Tensor, chance: list[Tensor], told: str) -> Figure:
    if len(one) == len(other) == 1:
        return _figure(
            lambda unit: float(torch.rad2deg(torch.arccos((one[0] @ unit[0]).clamp(-1, 1)))),
            other, chance, f"degrees; {told}", nearest=0.05,
        )  # fmt: skip
    basis = _basis(one)

    def mean_angle(unit: Tensor) -> float:
        cosines = torch.linalg.svdvals(basis @ _basis(unit).T).clamp(max=1)
        return float(torch.rad2deg(torch.arccos(cosines)).mean())

    return _figure(mean_angle, other, chance, f"degrees, mean of the principal angles; {told}", nearest=0.05)


def _basis(unit: Float[Tensor, "k d"]) -> Float[Tensor, "r d"]:
    """Orthonormal rows with the same span."""
    _, sizes, axes = torch.linalg.svd(unit, full_matrices=False)
    return axes[sizes > 1e-6 * sizes[0]]


def _procrustes(one: _Side, other: _Side, chance: list[Tensor], told: str) -> Figure:
    ours, theirs = _rows_in_common(one, other)
    if len(ours) < 2:
        return Figure(float("nan"), how="needs two rows that both sides have, by name or by number")
    factor = torch.linalg.qr(one.unit[ours].T).R

    def fit(unit: Tensor) -> float:
        both = factor @ torch.linalg.qr(unit[theirs].T).R.T  # the singular values of the product of the two sets
        return float(torch.linalg.matrix_norm(both, "nuc")) / len(ours)

    return _figure(fit, other.unit, chance, f"cosine after the best rotation, {len(ours)} rows; {told}")


def _rows_in_common(one: _Side, other: _Side) -> tuple[list[int], list[int]]:
    if one.names is not None and other.names is not None:
        named = {name: place for place, name in enumerate(other.names)}
        both = [(place, named[name]) for place, name in enumerate(one.names) if name in named]
        return [ours for ours, _ in both], [theirs for _, theirs in both]
    count = len(one.unit) if len(one.unit) == len(other.unit) else 0
    return list(range(count)), list(range(count))


def _matched(one: Tensor, other: Tensor) -> Int[np.ndarray, "pairs two"]:
    return np.stack(linear_sum_assignment((one @ other.T).numpy(), maximize=True), 1)


def _mean_cosine(one: Tensor, other: Tensor) -> float:
    cosines = (one @ other.T).numpy()
    return float(cosines[linear_sum_assignment(cosines, maximize=True)].mean())


def _distributions(
    one: _Side, other: _Side, pairs: Int[np.ndarray, "pairs two"], cells: Tensor | None, seed: int
) -> Figure:
    """Along each pair of directions; where both were one distribution, either could have come from either."""
    if cells is None:
        return Figure(float("nan"), how="needs rows: activations at the site")
    along = np.stack(
        [(cells @ side.unit[pairs[:, place]].T).numpy() for place, side in enumerate((one, other))]
    )  # [2, n, pairs]
    groups = np.repeat([0, 1], len(cells))
    swapped = np.random.default_rng(seed).random(along.shape[1:]) < 0.5
    mixed = np.stack([np.where(swapped, *along[::order]) for order in (1, -1)])
    found, null = (float(Densities.of(np.concatenate(list(both)), groups).distance().mean()) for both in (along, mixed))
    return Figure(found, null=null, n=len(cells), how="rows along matched directions; null: the two sides mixed")
