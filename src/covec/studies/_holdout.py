"""A study with enough data: one split; chosen on validation, reported on test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covec.concepts.vector import ConceptVector
from covec.measure._baselines import Baseline, bag_of_words, cue_probe
from covec.measure.stability import stability
from covec.measure.used import NullVectors
from covec.models.text import TextModel
from covec.progress import Progress
from covec.statistics.auroc import best_threshold
from covec.statistics.figure import Figure
from covec.statistics.permutation import permuted_labels
from covec.statistics.splits import folds, independent_groups, split
from covec.studies import _judge as judge
from covec.studies import _sweep as sweeping
from covec.studies._settings import Settings
from covec.studies._sweep import Candidate, Data, Rows
from covec.studies.result import Cell

FOLDS = 5  # for the threshold


@dataclass(frozen=True)
class Found:
    """What a split of the rows led to: the winner, its vector, its test rows, and all that stands beside them."""

    winner: Candidate
    cells: tuple[Cell, ...]
    p_sweep: float
    vector: ConceptVector  # fitted on train and validation
    calibrating: ConceptVector  # fitted on train alone, so that validation rows are unseen
    train: Rows
    validation: Rows
    test: judge.Test
    test_rows: Rows
    sizes: dict[str, int]  # rows of each part
    notes: tuple[str, ...]  # what a reader of the figures has to know
    stability: Figure
    randoms: np.ndarray
    shuffles: np.ndarray
    words: Baseline
    cues: Baseline
    nulls: NullVectors


def holdout(model: TextModel, data: Data, settings: Settings, progress: Progress) -> Found:
    """Select on validation rows, refit on train and validation together, and score the test rows."""
    examples = data.examples
    parts = split(
        examples.keys, data.labels, groups=examples.groups, pairs=examples.pairs, fixed=examples.splits,
        seed=settings.split_seed,
    )  # fmt: skip
    train, validation, test = parts.train, parts.validation, parts.test
    known = np.concatenate([train, validation])
    cells = (settings.sites, settings.positions)
    candidates = sweeping.sweep(data, train, validation, *cells, settings.finders, progress=progress)
    winner = sweeping.best(candidates, lambda one: stability_of(data, one, train, settings, with_null=False).value)
    swept = sweeping.null(data, train, validation, *cells, settings.seed)
    vector = fitted(model, data, winner, known, settings)
    at = (winner.site, winner.position)
    unseen = data.at(*at, test)
    threshold = out_of_fold_threshold(model, data, winner, known, settings)
    judged = judge.Test(vector.score(unseen).numpy(), data.labels[test], threshold, data.groups(test), data.pairs(test))
    rows, labels = data.at(*at, known), data.labels[known]
    shuffles = judge.shuffled_directions(
        rows, labels, unseen, judged.labels, data.groups(known), data.pairs(known), settings.seed
    )
    return Found(
        winner=winner,
        cells=sweeping.cells(candidates, data.labels[validation], swept),
        p_sweep=swept.p_sweep,
        vector=vector,
        calibrating=fitted(model, data, winner, train, settings),
        train=train,
        validation=validation,
        test=judged,
        test_rows=test,
        sizes={"train": len(train), "validation": len(validation), "test": len(test)},
        notes=parts.warnings,
        stability=stability_of(data, winner, known, settings),
        randoms=judge.random_directions(rows, labels, unseen, judged.labels, settings.seed),
        shuffles=shuffles,
        words=bag_of_words(examples, parts, seed=settings.seed),
        cues=cue_probe(examples, parts, seed=settings.seed),
        nulls=null_vectors(data, winner, known, vector, settings),
    )


def fitted(model: TextModel, data: Data, winner: Candidate, rows: Rows, settings: Settings) -> ConceptVector:
    """The winner's finder, fitted on `rows`, as a concept vector."""
    activations = data.at(winner.site, winner.position, rows)
    make = settings.finders[winner.finder]
    columns, pairs = data.columns(rows, make), data.pairs(rows)
    finder = data.new(make, [winner.site]).fit(
        activations, data.labels[rows], groups=data.units(rows), pairs=pairs, **columns
    )
    return vector_of(model, data, finder, winner, settings)


def out_of_fold_threshold(model: TextModel, data: Data, winner: Candidate, rows: Rows, settings: Settings) -> float:
    """The threshold of highest accuracy on `rows`, each scored by the winner's finder fitted without its fold.

    Train and validation rows together are four times as many as validation rows alone, and the threshold so much surer.
    """
    units, labels = data.units(rows), data.labels[rows]
    count = min(FOLDS, *independent_groups(units, labels))
    if count < 2:  # by a split column of the user's own
        return 0.0
    scores = np.empty(len(rows))
    for known, unseen in folds(units, labels, k=count, seed=settings.split_seed):
        vector = fitted(model, data, winner, rows[known], settings)
        scores[unseen] = vector.score(data.at(winner.site, winner.position, rows[unseen])).numpy()
    return best_threshold(scores, labels)


def vector_of(model: TextModel, data: Data, finder: Any, winner: Candidate, settings: Settings) -> ConceptVector:
    """A concept vector of what `finder` learned, with where it came from."""
    return ConceptVector.from_direction(
        data.examples.name,
        winner.site,
        finder.direction_,
        finder.mean_positive_,
        finder.mean_negative_,
        read_position=winner.position,
        method=winner.finder,
        model=model.describe(),
        data=data.examples.describe(),
        seed=settings.seed,
    )


def null_vectors(data: Data, winner: Candidate, rows: Rows, vector: ConceptVector, settings: Settings) -> NullVectors:
    """Differences of class means under shuffled labels at the winner's cell, with the norm of its `write`."""
    labels = data.labels[rows]
    rng = np.random.default_rng(settings.seed)
    shuffled = permuted_labels(labels, settings.nulls, groups=data.groups(rows), pairs=data.pairs(rows), rng=rng)
    activations = data.at(winner.site, winner.position, rows)
    return NullVectors.of_labels(activations, shuffled, labels, float(vector.write.norm()))


def stability_of(data: Data, one: Candidate, rows: Rows, settings: Settings, *, with_null: bool = True) -> Figure:
    """How alike the directions are that a candidate's finder finds in halves of `rows`."""
    return stability(
        lambda: data.new(settings.finders[one.finder], [one.site]),
        data.at(one.site, one.position, rows),
        data.labels[rows],
        units=data.units(rows),
        pairs=data.pairs(rows),
        columns=data.columns(rows, settings.finders[one.finder]),
        with_null=with_null,
        seed=settings.seed,
    )
