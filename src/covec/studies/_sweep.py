"""The sweep: every finder at every site and position, fitted on training rows and judged on validation rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from covec.activations.capture import capture_tokens
from covec.activations.rows import Activations
from covec.concepts.examples import Examples
from covec.find import fit_together
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.progress import Progress, silent
from covec.statistics.auroc import accuracy, auroc, best_threshold
from covec.statistics.intervals import auroc_figure
from covec.statistics.sweep import SweepNull, SweepTest
from covec.studies.result import Cell

Rows = Int[np.ndarray, "n"]
_TIE = 1e-12
_TOGETHER = 8  # sites fitted in one call
_TIED_CELLS = 12  # of more equal cells the stability is not compared


@dataclass(frozen=True)
class Data:
    """One concept's activations with its labels; every row index below points into these."""

    examples: Examples
    activations: Mapping[Position, Activations]
    model: TextModel | None = None

    @property
    def labels(self) -> Bool[np.ndarray, "n"]:
        """True for positives."""
        return self.examples.labels

    def at(self, site: Site, position: Position, rows: Rows) -> Float[Tensor, "n d"]:
        """The activations of `rows` in one cell."""
        return self.activations[position][site][torch.from_numpy(rows)]

    def difference_of_means(self, site: Site, position: Position, rows: Rows | None = None) -> Float[Tensor, "d"]:
        """The mean of all positives minus that of all negatives, in one cell; of `rows` alone where given."""
        rows = np.arange(len(self.labels)) if rows is None else rows
        activations, truth = self.at(site, position, rows), torch.from_numpy(self.labels[rows])
        return activations[truth].mean(0) - activations[~truth].mean(0)

    def units(self, rows: Rows) -> list[Any]:
        """What must not straddle a split, by row."""
        return [self.examples.units[row] for row in rows]

    def pairs(self, rows: Rows) -> list[Any] | None:
        """The pair of each row, None where there are none."""
        return None if self.examples.pairs is None else [self.examples.pairs[row] for row in rows]

    def new(self, finder: Any, sites: Sequence[Site]) -> Any:
        """An unfitted finder of a class, which knows the model and the sites where it needs them."""
        return self.moved(finder(), sites)

    def moved(self, finder: Any, sites: Sequence[Site]) -> Any:
        """The same finder, at other sites."""
        return finder.at(self.model, sites) if finder.entry.needs == "model" else finder

    def columns(self, rows: Rows, *finders: Any) -> dict[str, list[Any]]:
        """What `finders` require of the examples besides pairs, by name, one entry a row."""
        names = {name for finder in finders for name in finder.entry.requires} - {"pairs"}
        found = {name: self.examples.column(name) or () for name in sorted(names)}
        return {name: [column[row] for row in rows] for name, column in found.items()}

    def groups(self, rows: Rows) -> list[Any] | None:
        """The group of each row; None where rows stand for themselves (a near-duplicate is of its text's group)."""
        units = self.units(rows)
        return units if self.examples.groups is not None or len(set(units)) < len(units) else None


def captured(
    model: TextModel,
    concepts: Mapping[str, Examples],
    sites: Sequence[Site],
    positions: Sequence[Position],
    *,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> dict[str, Data]:
    """Activations of all concepts from one capture; an input that stands in several runs once."""
    tokens: list[Tokenized] = []
    rows_of: dict[str, slice] = {}
    for name, examples in concepts.items():
        start = len(tokens)
        tokens += model.tokenize(examples.inputs, spans=examples.spans, places=examples.places)
        rows_of[name] = slice(start, len(tokens))
    rows = capture_tokens(model, tokens, sites, positions, batch_tokens=batch_tokens, progress=progress)
    return {
        name: Data(
            examples,
            {
                position: Activations({site: whole[rows_of[name]] for site, whole in found.rows.items()}, position)
                for position, found in rows.items()
            },
            model,
        )
        for name, examples in concepts.items()
    }


@dataclass(frozen=True)
class Candidate:
    """A fitted cell: its validation scores, in units of the concept, and how good they are."""

    site: Site
    position: Position
    finder: str
    scores: Float[np.ndarray, "m"]
    auroc: float
    accuracy: float

    @property
    def cell(self) -> tuple[Site, Position, str]:
        """Its place in the sweep."""
        return self.site, self.position, self.finder


def sweep(
    data: Data,
    train: Rows,
    validation: Rows,
    sites: Sequence[Site],
    positions: Sequence[Position],
    finders: Mapping[str, Any],
    *,
    progress: Progress = silent,
) -> list[Candidate]:
    """Fit all cells on `train` and score `validation`."""
    labels = data.labels[validation]
    units, pairs, columns = data.units(train), data.pairs(train), data.columns(train, *finders.values())
    made = {name: data.new(finder, sites) for name, finder in finders.items()}
    found = []
    with progress("fitting", len(positions) * len(sites)) as bar:
        for position in positions:
            for same in alike(data.activations[position], sites):
                stacked = torch.stack([data.at(site, position, train) for site in same])
                unseen = torch.stack([data.at(site, position, validation) for site in same])
                here = {name: data.moved(one, same) for name, one in made.items()}
                fits = fit_together(here, stacked, data.labels[train], groups=units, pairs=pairs, **columns)
                for name, fit in fits.items():
                    scores = fit.score(unseen)
                    areas = np.atleast_1d(auroc(scores, labels))
                    for site, row, area in zip(same, scores, areas, strict=True):
                        share = float(accuracy(row, labels, best_threshold(row, labels)))
                        found.append(Candidate(site, position, name, row, float(area), share))
                bar.advance(len(same))
    return found


def best(candidates: Sequence[Candidate], stability: Any) -> Candidate:
    """The cell of the highest validation AUROC; ties go to accuracy, then to `stability(candidate)`, then to order."""
    top = max(one.auroc for one in candidates)
    tied = [one for one in candidates if one.auroc >= top - _TIE]
    most = max(one.accuracy for one in tied)
    tied = [one for one in tied if one.accuracy >= most - _TIE]
    if len(tied) == 1:
        return tied[0]
    return max(tied[:_TIED_CELLS], key=stability)


def null(
    data: Data, train: Rows, validation: Rows, sites: Sequence[Site], positions: Sequence[Position], seed: int
) -> SweepTest:
    """The maximum over all cells under permuted labels, of the finders that are linear in the labels."""
    rows = np.concatenate([train, validation])
    test = SweepNull(
        data.labels[train], data.labels[validation], groups=data.groups(rows), pairs=data.pairs(rows), seed=seed
    )
    for position in positions:
        for site in sites:
            test.add((site, position), data.at(site, position, train), data.at(site, position, validation))
    return test.finish()


def cells(candidates: Sequence[Candidate], labels: Bool[np.ndarray, "m"], test: SweepTest | None) -> tuple[Cell, ...]:
    """The sweep as the report shows it, best first; intervals take rows as independent."""
    ranked = sorted(candidates, key=lambda one: (-one.auroc, -one.accuracy))
    return tuple(
        Cell(
            one.site,
            one.position,
            one.finder,
            auroc_figure(one.scores, labels, null=None if test is None else test.null_95),
            one.accuracy,
            None if test is None else test.cells.get(((one.site, one.position), one.finder)),
        )
        for one in ranked
    )


def alike(activations: Activations, sites: Sequence[Site]) -> Iterator[list[Site]]:
    """Sites of equal width, a few at a time: enough to share their folds, few enough to keep copies small."""
    widths: dict[int, list[Site]] = {}
    for site in sites:
        widths.setdefault(activations[site].shape[1], []).append(site)
    for same in widths.values():
        yield from (same[start : start + _TOGETHER] for start in range(0, len(same), _TOGETHER))
