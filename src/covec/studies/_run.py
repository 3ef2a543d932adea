"""The study, from examples to verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np

from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.detect._calibrate import calibrate
from covec.measure._baselines import balance_warning, leakage_warning
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.statistics.figure import Figure
from covec.statistics.splits import independent_groups, regime
from covec.studies import _judge as judge
from covec.studies._exact import exact_p
from covec.studies._holdout import Found, holdout
from covec.studies._illustrate import illustrate
from covec.studies._looks import count_look
from covec.studies._nested import nested
from covec.studies._settings import Names, Settings, check_settings
from covec.studies._several import cosines, multiplicity_warnings, wrong_concepts
from covec.studies._sweep import Data, captured
from covec.studies._use import dtype_note, precise_model, test_of_use
from covec.studies.result import Illustrations, Studies, Study

TRIED = 20  # cells that a vector remembers


def study(
    model: TextModel,
    examples: Examples | Mapping[str, Examples],
    *,
    sites: str | Site | Sequence[str | Site] = "resid.*",
    finders: Names | None = None,
    position: str | Position | Sequence[str | Position] = "last,mean",
    continuations: Any = None,
    split_seed: int = 0,
    seed: int = 0,
    quick: bool = False,
    nulls: int = 19,
    exact_permutations: int | None = None,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> Study | Studies:
    """Find a concept in a model, test it on held-out rows, and test whether the model uses it.

    Parameters
    ----------
    examples
        One concept, or several by name; several are captured together.
    sites, position
        Where to look: patterns, and positions that give one row an input.
    finders
        Methods to try; left out, all whose requirements the examples meet.
    continuations
        A file (`text,label`) or `Examples` of continuations for the test of use; left out, held-out texts.
    split_seed, seed
        The salt of the split, and the seed of everything else.
    quick
        Every third block and closed forms only, and no test of use.
    nulls
        Shuffled-label vectors that use is judged against.
    exact_permutations
        Refit everything for this many permutations of the labels.

    Returns
    -------
    Study or Studies
        Studies where several concepts were given.

    Raises
    ------
    CovecError
        Before any work, where an option or an input cannot be honoured.
    """
    begun = time.monotonic()
    given = {examples.name: examples} if isinstance(examples, Examples) else examples
    concepts = {name: replace(one, name=name) for name, one in given.items()}
    settings = check_settings(
        model, concepts, sites=sites, finders=finders, position=position, continuations=continuations,
        split_seed=split_seed, seed=seed, quick=quick, nulls=nulls, exact_permutations=exact_permutations,
        batch_tokens=batch_tokens,
    )  # fmt: skip
    data = captured(
        model, concepts, settings.sites, settings.positions, batch_tokens=settings.batch_tokens, progress=progress
    )
    precise = None if quick else precise_model(model)
    studies = {name: _one(model, precise, one, data, settings, progress) for name, one in data.items()}
    seconds = time.monotonic() - begun
    if len(studies) == 1:
        return replace(next(iter(studies.values())), seconds=seconds)
    together = Studies(studies, cosines(data, studies), (), seconds)
    return replace(together, warnings=multiplicity_warnings(together))


def _one(
    model: TextModel,
    precise: TextModel | None,
    data: Data,
    others: Mapping[str, Data],
    settings: Settings,
    progress: Progress,
) -> Study:
    """The study of one concept, whose activations are there."""
    begun = time.monotonic()
    examples = data.examples
    independent = independent_groups(examples.units, data.labels)
    enough = regime(min(independent))
    kind = "holdout" if examples.splits is not None else enough
    found = (holdout if kind == "holdout" else nested)(model, data, settings, progress)
    if settings.exact_permutations:
        p_sweep, note = exact_p(data, found, settings, progress)
        found = replace(found, p_sweep=p_sweep, notes=(*found.notes, note))
    vector = _calibrated(model, data, found, progress)
    used = test_of_use(model, precise, data, found, vector, settings, progress)
    test = found.test.figures(float(np.mean(found.shuffles)), settings.seed)
    p_test = found.test.p(settings.seed)
    random_direction = judge.random_figure(found.randoms)
    beyond_words = found.test.beyond(found.words.scores, settings.seed)
    verdict, warnings = judge.verdict(
        too_little=enough == "too-little-data",
        p=p_test,
        auroc_value=test["auroc"].value,
        random_high=float(random_direction.high or 1.0),
        used=used.verdict,
        beyond_words=beyond_words,
    )
    suspicions = (leakage_warning(found.cues, test["auroc"]), balance_warning(found.words))
    best = _documented(vector, test, found)
    return Study(
        concept=examples.name,
        model=model.describe(),
        n=_counts(data, found, independent),
        regime=kind,
        selected=next(one for one in found.cells if (one.site, one.position, one.finder) == found.winner.cell),
        test=test,
        p_test=p_test,
        p_sweep=found.p_sweep,
        stability=found.stability,
        bag_of_words={"accuracy": found.words.accuracy, "auroc": found.words.auroc},
        random_direction=random_direction,
        cue=found.cues.auroc,
        beyond_words=beyond_words,
        used=used,
        verdict=verdict,
        best=best,
        cells=found.cells,
        wrong_concepts=wrong_concepts(data, found, others, settings.seed),
        illustrations=_illustrations(model, precise, data, found, vector, settings),
        warnings=(*warnings, *filter(None, suspicions)),
        notes=(*examples.notes, *settings.notes, *found.notes, dtype_note(model, precise)),
        settings={**settings.to_json(), "data_digest": examples.digest, "versions": dict(best.versions)},
        looks=count_look(examples.digest_of(found.test_rows)),
        seconds=time.monotonic() - begun,
    )


def _counts(data: Data, found: Found, independent: tuple[int, int]) -> dict[str, int]:
    """`Study.n`."""
    return {
        "rows": len(data.examples),
        "positive": int(data.labels.sum()),
        "negative": int((~data.labels).sum()),
        **found.sizes,
        "independent_positive": independent[0],
        "independent_negative": independent[1],
    }


def _calibrated(model: TextModel, data: Data, found: Found, progress: Progress) -> ConceptVector:
    """The vector, with aggregator, threshold and calibration from validation rows that its twin never saw."""
    twin = calibrate(model, found.calibrating, data.examples, found.validation, progress=progress)
    return replace(found.vector, aggregator=twin.aggregator, threshold=twin.threshold, calibration=twin.calibration)


def _documented(vector: ConceptVector, test: Mapping[str, Figure], found: Found) -> ConceptVector:
    """The vector with the figures that judge it, what was tried and lost, and the versions that made it."""
    return replace(
        vector,
        figures={"test_auroc": test["auroc"], "test_accuracy": test["accuracy"], "stability": found.stability},
        tried=[{**one.to_json(), "auroc": one.auroc.value} for one in found.cells[:TRIED]],
        versions={name: version(name) for name in ("covec", "torch", "transformers", "scikit-learn", "numpy")},
    )


def _illustrations(
    model: TextModel,
    precise: TextModel | None,
    data: Data,
    found: Found,
    vector: ConceptVector,
    settings: Settings,
) -> Illustrations:
    inputs = [data.examples.inputs[row] for row in found.test_rows]
    labels = data.labels[found.test_rows]
    return illustrate(model, precise or model, vector, inputs, labels, write=not settings.quick)
