"""Methods that give a vector: fitted everywhere, read at every token, and judged with every aggregator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from covec.bench._meter import Cost, metered
from covec.bench._subject import Subject
from covec.bench.result import Row, judged_row
from covec.detect._aggregator import Aggregator, aggregators
from covec.find import fit_together
from covec.measure.stability import stability
from covec.models.positions import Position
from covec.models.sites import Site
from covec.progress import Bar
from covec.statistics.auroc import auroc, best_f1_threshold, f1
from covec.statistics.figure import Figure
from covec.studies._sweep import alike

HALVINGS = 3  # for the stability

Make = Callable[[Subject, Position, Sequence[Site]], Any]  # an unfitted finder for these cells


@dataclass(frozen=True)
class Contestant:
    """A method that gives a vector: how it is made, and what kind of method it is."""

    name: str
    kind: str
    make: Make
    steady: bool = True  # whether its stability says anything


@dataclass(frozen=True)
class _Fitted:
    """A contestant's directions over their scales at every site, one position a row, and what finding them cost."""

    contestant: Contestant
    directions: Mapping[Site, Float[Tensor, "positions d"]]
    offsets: Mapping[Site, Float[Tensor, "positions"]]
    cost: Cost


def rows_of(subject: Subject, contestants: Sequence[Contestant], bar: Bar) -> Iterator[tuple[str, list[Row]]]:
    """Each contestant's rows, one an aggregator; the texts are read once for all of them."""
    fitted = [_fit(subject, one) for one in contestants]
    directions = {site: torch.cat([one.directions[site] for one in fitted]) for site in subject.sites}
    offsets = {site: torch.cat([one.offsets[site] for one in fitted]) for site in subject.sites}
    read = subject.read(directions, offsets)
    width = len(subject.positions)
    for place, one in enumerate(fitted):
        own = {site: scores[:, place * width : (place + 1) * width] for site, scores in read.items()}
        yield one.contestant.name, _rows(subject, one, own)
        bar.advance()


def _fit(subject: Subject, contestant: Contestant) -> _Fitted:
    data, rows = subject.data, subject.rows
    labels, units, pairs = data.labels, data.units(rows), data.pairs(rows)
    directions: dict[Site, list[Tensor]] = {site: [] for site in subject.sites}
    offsets: dict[Site, list[Tensor]] = {site: [] for site in subject.sites}

    def fit() -> None:
        for position in subject.positions:
            for sites in alike(data.activations[position], subject.sites):
                finder = contestant.make(subject, position, sites)
                stacked = torch.stack([data.at(site, position, rows) for site in sites])
                columns = data.columns(rows, finder) if hasattr(finder, "entry") else {}
                fits = fit_together({"": finder}, stacked, labels, groups=units, pairs=pairs, **columns)[""]
                for index, site in enumerate(sites):
                    directions[site].append(fits.directions[index] / fits.scales[index])
                    offsets[site].append(fits.intercepts[index] / fits.scales[index])

    _, cost = metered(fit)
    stacked = [{site: torch.stack(some) for site, some in found.items()} for found in (directions, offsets)]
    return _Fitted(contestant, stacked[0], stacked[1], cost)


@dataclass(frozen=True)
class _Cell:
    """Where a vector was found, and what one aggregator makes of its scores."""

    site: Site
    position: Position
    scores: Float[np.ndarray, "rows"]
    threshold: float
    auroc: float  # on validation
    f1: float


def _rows(subject: Subject, fitted: _Fitted, read: Mapping[Site, Float[np.ndarray, "tokens positions"]]) -> list[Row]:
    steady: dict[tuple[Site, Position], Figure] = {}
    found = []
    for name, kind in aggregators().items():
        best = max(_cells(subject, kind, read), key=lambda cell: (cell.auroc, cell.f1))
        at = best.site, best.position
        if fitted.contestant.steady and at not in steady:
            steady[at] = _stability(subject, fitted.contestant, *at)
        found.append(
            judged_row(
                subject.trial, best.scores, best.threshold,
                method=fitted.contestant.name, kind=fitted.contestant.kind, aggregator=name, site=str(best.site),
                position=str(best.position), stability=steady.get(at), seconds=fitted.cost.seconds,
                memory=fitted.cost.megabytes, seed=subject.seed,
            )
        )  # fmt: skip
    return found


def _cells(
    subject: Subject, kind: type[Aggregator], read: Mapping[Site, Float[np.ndarray, "tokens positions"]]
) -> Iterator[_Cell]:
    """Every cell whose AUROC on validation is the highest."""
    chosen, offsets = subject.offsets(kind.selection())
    size = len(subject.trial.validation)
    labels, known = subject.trial.labels(subject.trial.validation), int(offsets[size])
    cells = [(site, place) for site in read for place in range(len(subject.positions))]
    tokens = np.stack([read[site][chosen, place] for site, place in cells])
    scores = np.stack([kind().aggregate(one, offsets) for one in tokens])
    areas = np.atleast_1d(auroc(scores[:, :size], labels))
    for best in np.flatnonzero(areas == areas.max()):
        site, place = cells[best]
        threshold = _threshold(kind, tokens[best, :known], offsets[: size + 1], labels, subject.inside[chosen][:known])
        yield _Cell(
            site, subject.positions[place], scores[best], threshold, float(areas[best]),
            f1(scores[best, :size], labels, threshold),
        )  # fmt: skip


def _threshold(
    kind: type[Aggregator],
    scores: Float[np.ndarray, "tokens"],
    offsets: Int[np.ndarray, "n_plus_1"],
    labels: Bool[np.ndarray, "n"],
    inside: Bool[np.ndarray, "tokens"],
) -> float:
    """That of the highest F1 on validation, unless the aggregator has a rule of its own."""
    if kind.fit is Aggregator.fit:
        return best_f1_threshold(kind().aggregate(scores, offsets), labels)
    unmarked = ~np.logical_or.reduceat(inside, offsets[:-1])  # its span is at tokens that are not read
    return kind().fit(scores, offsets, labels, inside | np.repeat(unmarked, np.diff(offsets))).threshold


def _stability(subject: Subject, contestant: Contestant, site: Site, position: Position) -> Figure:
    data, rows = subject.data, subject.rows
    finder = contestant.make(subject, position, [site])
    return stability(
        lambda: contestant.make(subject, position, [site]),
        data.at(site, position, rows),
        data.labels,
        units=data.units(rows),
        pairs=data.pairs(rows),
        columns=data.columns(rows, finder) if hasattr(finder, "entry") else {},
        halvings=HALVINGS,
        seed=subject.seed,
    )
