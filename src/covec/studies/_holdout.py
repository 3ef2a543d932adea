"""A study with enough data: one split; chosen on validation, reported on test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from covec.concepts.vector import ConceptVector
from covec.measure._baselines import Baseline, bag_of_words, cue_probe
from covec.measure.stability import stability
from covec.measure.used import NullVectors
from covec.models.text import TextModel
from covec.progress import Progress
from covec.statistics.auroc import best_threshold
from covec.statistics.figure import Figure
from covec.statistics.permutation import permuted_labels
from covec.statistics.splits import Split, folds, independent_groups
from covec.studies import _judge as judge
from covec.studies import _sweep as sweeping
from covec.studies._plan import Plan
from covec.studies._sweep import Candidate, Data
from covec.studies.result import Cell

Rows = Int[np.ndarray, "n"]
FOLDS = 5  # for the threshold


@dataclass(frozen=True)
class Found:
    """What a split of the rows led to: the winner, its vector, its test rows, and all that stands beside them."""

    winner: Candidate
    cells: tuple[Cell, ...]
    p_sweep: float | None
    null_95: float | None
    vector: ConceptVector  # fitted on train and validation
    calibrating: ConceptVector  # fitted on train alone, so that validation rows are unseen
    train: Rows
    validation: Rows
    test: judge.Test
    test_rows: Rows
    stability: Figure
    randoms: np.ndarray
    shuffles: np.ndarray
    words: Baseline
    cues: Baseline
    nulls: NullVectors


def holdout(
    model: TextModel, data: Data, split: Split, plan: Plan, progress: Progress, *, with_null: bool = True
) -> Found:
    """Select on `split.validation`, refit on train and validation, and score `split.test`."""
    train, validation, test = split.train, split.validation, split.test
    known = np.concatenate([train, validation])
    candidates = sweeping.sweep(data, train, validation, plan.sites, plan.positions, plan.finders, progress=progress)
    winner = sweeping.best(candidates, lambda one: _stability(data, one, train, plan, with_null=False).value)
    swept = sweeping.null(data, train, validation, plan.sites, plan.positions, plan.seed) if with_null else None
    vector = fitted(model, data, winner, known, plan)
    at = (winner.site, winner.position)
    unseen = data.at(*at, test)
    threshold = out_of_fold_threshold(model, data, winner, known, plan)
    judged = judge.Test(vector.score(unseen).numpy(), data.labels[test], threshold, data.groups(test), data.pairs(test))
    rows, labels = data.at(*at, known), data.labels[known]
    shuffles = judge.shuffled_directions(
        rows, labels, unseen, judged.labels, data.groups(known), data.pairs(known), plan.seed
    )
    return Found(
        winner=winner,
        cells=sweeping.cells(candidates, data.labels[validation], swept),
        p_sweep=None if swept is None else swept.p_sweep,
        null_95=None if swept is None else swept.null_95,
        vector=vector,
        calibrating=fitted(model, data, winner, train, plan),
        train=train,
        validation=validation,
        test=judged,
        test_rows=test,
        stability=_stability(data, winner, known, plan),
        randoms=judge.random_directions(rows, labels, unseen, judged.labels, plan.seed),
        shuffles=shuffles,
        words=bag_of_words(data.examples, split, seed=plan.seed),
        cues=cue_probe(data.examples, split, seed=plan.seed),
        nulls=null_vectors(data, winner, known, vector, plan),
    )


def fitted(model: TextModel, data: Data, winner: Candidate, rows: Rows, plan: Plan) -> ConceptVector:
    """The winner's finder, fitted on `rows`, as a concept vector."""
    activations = data.at(winner.site, winner.position, rows)
    finder = plan.finders[winner.finder]()
    finder.fit(activations, data.labels[rows], groups=data.units(rows), pairs=data.pairs(rows))
    return vector_of(model, data, finder, winner, plan)


def out_of_fold_threshold(model: TextModel, data: Data, winner: Candidate, rows: Rows, plan: Plan) -> float:
    """The threshold of highest accuracy on `rows`, each scored by the winner's finder fitted without its fold.

    Train and validation rows together are four times as many as validation rows alone, and the threshold so much surer.
    """
    units, labels = data.units(rows), data.labels[rows]
    count = min(FOLDS, *independent_groups(units, labels))
    if count < 2:  # by a split column of the user's own
        return 0.0
    scores = np.empty(len(rows))
    for known, unseen in folds(units, labels, k=count, seed=plan.split_seed):
        vector = fitted(model, data, winner, rows[known], plan)
        scores[unseen] = vector.score(data.at(winner.site, winner.position, rows[unseen])).numpy()
    return best_threshold(scores, labels)


def vector_of(model: TextModel, data: Data, finder: Any, winner: Candidate, plan: Plan) -> ConceptVector:
    """A concept vector of what `finder` learned, with where it came from."""
    examples = data.examples
    return ConceptVector.from_direction(
        examples.name,
        winner.site,
        finder.direction_,
        finder.mean_positive_,
        finder.mean_negative_,
        read_position=winner.position,
        method=winner.finder,
        model=model.describe(),
        data={"name": examples.name, "digest": examples.digest, "n": len(examples)},
        seed=plan.seed,
    )


def null_vectors(data: Data, winner: Candidate, rows: Rows, vector: ConceptVector, plan: Plan) -> NullVectors:
    """Differences of class means under shuffled labels at the winner's cell, with the norm of its `write`."""
    labels = data.labels[rows]
    rng = np.random.default_rng(plan.seed)
    shuffled = permuted_labels(labels, plan.nulls, groups=data.groups(rows), pairs=data.pairs(rows), rng=rng)
    activations = data.at(winner.site, winner.position, rows)
    return NullVectors.of_labels(activations, shuffled, labels, float(vector.write.norm()))


def _stability(data: Data, one: Candidate, rows: Rows, plan: Plan, *, with_null: bool = True) -> Figure:
    return stability(
        plan.finders[one.finder],
        data.at(one.site, one.position, rows),
        data.labels[rows],
        units=data.units(rows),
        pairs=data.pairs(rows),
        with_null=with_null,
        seed=plan.seed,
    )
