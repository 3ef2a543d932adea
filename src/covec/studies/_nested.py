"""A study with little data: five folds by group, with the whole selection repeated inside each.

Test figures pool out-of-fold scores, each standardised on its training fold. What is saved comes from one selection
over all rows, by cross-validation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from covec.measure._baselines import Baseline, bag_of_words, cue_probe
from covec.models.text import TextModel
from covec.progress import Progress
from covec.statistics.auroc import accuracy, auroc, best_threshold
from covec.statistics.intervals import accuracy_figure, auroc_figure
from covec.statistics.nested_null import nested_null
from covec.statistics.splits import Split, deal
from covec.studies import _judge as judge
from covec.studies import _sweep as sweeping
from covec.studies._holdout import Found, fitted, null_vectors, stability_of
from covec.studies._settings import Settings
from covec.studies._sweep import Candidate, Data, Rows

FOLDS = 5


def nested(model: TextModel, data: Data, settings: Settings, progress: Progress) -> Found:
    """Cross-validate selection and fit; the vector, its cell and its calibration come from all rows."""
    fold = deal(data.examples.units, data.labels, k=FOLDS, seed=settings.split_seed)
    kept = np.flatnonzero(fold >= 0)
    tests = [np.flatnonzero(fold == index) for index in range(FOLDS)]
    with progress("cross-validating", FOLDS + 1) as bar:
        outer = []
        for index in range(FOLDS):
            inner = [tests[other] for other in range(FOLDS) if other != index]
            outer.append(_select(data, inner, settings))
            bar.advance()
        whole = _select(data, tests, settings)
        bar.advance()
    scores, labels, right = _out_of_fold(model, data, fold, outer, settings)
    order = np.concatenate(tests)
    winner, candidates = whole
    train, validation = np.setdiff1d(kept, tests[0]), tests[0]
    swept = sweeping.null(data, train, validation, settings.sites, settings.positions, settings.seed)
    vector = fitted(model, data, winner, kept, settings)
    test = judge.Test(
        scores, labels, 0.0, data.groups(order), data.pairs(order), fold[order].tolist(), right,
        _null(data, order, fold, settings),
    )  # fmt: skip
    randoms, shuffles = _nulls(data, winner, tests, settings)
    return Found(
        winner=winner,
        cells=sweeping.cells(candidates, data.labels[order], None),  # the null is of the first fold alone
        p_sweep=swept.p_sweep,
        vector=vector,
        calibrating=fitted(model, data, winner, train, settings),
        train=train,
        validation=validation,
        test=test,
        test_rows=order,
        sizes={"train": len(order), "validation": 0, "test": len(order)},
        notes=("test figures are pooled over five folds; p_test repeats them with differences of means",),
        stability=stability_of(data, winner, kept, settings),
        randoms=randoms,
        shuffles=shuffles,
        words=_pooled(bag_of_words, data, tests, settings),
        cues=_pooled(cue_probe, data, tests, settings),
        nulls=null_vectors(data, winner, kept, vector, settings),
    )


def _select(data: Data, parts: list[Rows], settings: Settings) -> tuple[Candidate, list[Candidate]]:
    """The best cell by cross-validation over `parts`, and all cells with their pooled out-of-part scores."""
    pooled: dict[tuple[object, ...], list[Candidate]] = {}
    for index, part in enumerate(parts):
        rest = np.concatenate([other for place, other in enumerate(parts) if place != index])
        for one in sweeping.sweep(data, rest, part, settings.sites, settings.positions, settings.finders):
            pooled.setdefault(one.cell, []).append(one)
    labels = data.labels[np.concatenate(parts)]
    found = []
    for ones in pooled.values():
        scores = np.concatenate([one.scores for one in ones])
        share = float(accuracy(scores, labels, best_threshold(scores, labels)))
        found.append(replace(ones[0], scores=scores, auroc=float(auroc(scores, labels)), accuracy=share))
    return sweeping.best(found, lambda one: -found.index(one)), found


def _out_of_fold(
    model: TextModel, data: Data, fold: np.ndarray, outer: list[tuple[Candidate, list[Candidate]]], settings: Settings
) -> tuple[Float[np.ndarray, "n"], np.ndarray, np.ndarray]:
    """Standardised scores of every row by the winner chosen without it, its label, and whether it was called right."""
    scores, labels, right = [], [], []
    for index, (winner, _) in enumerate(outer):
        train, test = np.flatnonzero((fold >= 0) & (fold != index)), np.flatnonzero(fold == index)
        vector = fitted(model, data, winner, train, settings)
        at = (winner.site, winner.position)
        known, found = vector.score(data.at(*at, train)).numpy(), vector.score(data.at(*at, test)).numpy()
        inner = np.concatenate([np.flatnonzero(fold == other) for other in range(FOLDS) if other != index])
        threshold = best_threshold(winner.scores, data.labels[inner])
        scores.append((found - known.mean()) / known.std())
        labels.append(data.labels[test])
        right.append((found > threshold) == data.labels[test])
    return np.concatenate(scores), np.concatenate(labels), np.concatenate(right)


def _null(data: Data, order: Rows, fold: np.ndarray, settings: Settings) -> Float[np.ndarray, "permutations"]:
    """What selection and fit in every fold find in permuted labels."""
    cells = (data.at(site, position, order).numpy() for position in settings.positions for site in settings.sites)
    return nested_null(
        cells, data.labels[order], fold[order], data.groups(order), data.pairs(order), seed=settings.seed
    )


def _nulls(data: Data, winner: Candidate, tests: list[Rows], settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """AUROCs of random and of shuffled-label directions, averaged over the folds."""
    randoms, shuffles = [], []
    for index, test in enumerate(tests):
        train = np.concatenate([other for place, other in enumerate(tests) if place != index])
        rows, unseen = (data.at(winner.site, winner.position, part) for part in (train, test))
        labels, truth = data.labels[train], data.labels[test]
        randoms.append(judge.random_directions(rows, labels, unseen, truth, settings.seed))
        shuffles.append(
            judge.shuffled_directions(rows, labels, unseen, truth, data.groups(train), data.pairs(train), settings.seed)
        )
    return np.mean(randoms, 0), np.mean(shuffles, 0)


def _pooled(baseline: Callable[..., Baseline], data: Data, tests: list[Rows], settings: Settings) -> Baseline:
    """A text baseline cross-validated over the same folds, its ridge chosen on the next one."""
    scores, right, strongest = [], [], []
    for index, test in enumerate(tests):
        validation = tests[(index + 1) % FOLDS]
        rest = [other for place, other in enumerate(tests) if place not in (index, (index + 1) % FOLDS)]
        split = Split(np.concatenate(rest), validation, test)
        found = baseline(data.examples, split, seed=settings.seed)
        scores.append(found.standard)
        right.append((found.scores > 0) == data.labels[test])
        strongest.append(found.strongest)
    order = np.concatenate(tests)
    pooled, labels, groups = np.concatenate(scores), data.labels[order], data.groups(order)
    called = np.concatenate(right) == labels
    chance = float(max(labels.mean(), 1 - labels.mean()))
    return Baseline(
        pooled,
        pooled,
        auroc_figure(pooled, labels, groups, 0.5, seed=settings.seed),
        accuracy_figure(called.astype(float), labels, 0.5, groups, chance, seed=settings.seed),
        max(sorted(strongest), key=strongest.count),
    )
