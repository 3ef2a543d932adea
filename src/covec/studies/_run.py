"""The study, from examples to verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from covec.activations.capture import capture_tokens
from covec.activations.rows import Activations
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_prompts, neutral_texts
from covec.concepts.vector import ConceptVector
from covec.detect._calibrate import calibrate
from covec.errors import CovecError
from covec.measure._baselines import balance_warning, leakage_warning
from covec.measure._readout import Continuation
from covec.measure.used import Used, used
from covec.models.batching import TOKEN_BUDGET
from covec.models.load import reread
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.progress import Progress, silent
from covec.statistics.figure import Figure
from covec.statistics.splits import independent_groups, regime, split
from covec.studies import _judge as judge
from covec.studies._exact import exact_p
from covec.studies._holdout import Found, holdout
from covec.studies._illustrate import illustrate
from covec.studies._looks import count_look
from covec.studies._nested import nested
from covec.studies._plan import Names, Plan, plan
from covec.studies._sweep import Candidate, Data
from covec.studies.result import Cell, Studies, Study

NEUTRAL_TEXTS = 16  # on which the divergence of an edit is measured
SOURCES = 16  # held-out texts a class that serve as continuations
ABLATED = 40  # held-out inputs a class on which ablation is measured


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
    asked = plan(
        model, concepts, sites=sites, finders=finders, position=position, continuations=continuations,
        split_seed=split_seed, seed=seed, quick=quick, nulls=nulls, exact_permutations=exact_permutations,
        batch_tokens=batch_tokens,
    )  # fmt: skip
    data = _captured(model, concepts, asked, progress)
    precise = None if quick else _precise(model)
    studies = {name: _one(model, precise, one, asked, data, progress) for name, one in data.items()}
    seconds = time.monotonic() - begun
    if len(studies) == 1:
        return replace(next(iter(studies.values())), seconds=seconds)
    together = Studies(studies, _cosines(data, studies), (), seconds)
    return replace(together, warnings=_multiplicity_warnings(together))


def _captured(model: TextModel, concepts: Mapping[str, Examples], asked: Plan, progress: Progress) -> dict[str, Data]:
    """Activations of all concepts from one capture; an input that stands in several runs once."""
    tokens: list[Tokenized] = []
    spans_of: dict[str, slice] = {}
    for name, examples in concepts.items():
        start = len(tokens)
        tokens += model.tokenize(examples.inputs, spans=examples.spans, places=examples.places)
        spans_of[name] = slice(start, len(tokens))
    rows = capture_tokens(
        model, tokens, asked.sites, asked.positions, batch_tokens=asked.batch_tokens, progress=progress
    )
    return {
        name: Data(
            examples,
            {
                position: Activations({site: whole[spans_of[name]] for site, whole in found.rows.items()}, position)
                for position, found in rows.items()
            },
        )
        for name, examples in concepts.items()
    }


def _one(
    model: TextModel,
    precise: TextModel | None,
    data: Data,
    asked: Plan,
    others: Mapping[str, Data],
    progress: Progress,
) -> Study:
    begun = time.monotonic()
    examples = data.examples
    counts = independent_groups(examples.units, data.labels)
    kind = regime(min(counts)) if examples.splits is None else "holdout"
    if kind == "holdout":
        parts = split(
            examples.keys, data.labels, groups=examples.groups, pairs=examples.pairs, fixed=examples.splits,
            seed=asked.split_seed,
        )  # fmt: skip
        found = holdout(model, data, parts, asked, progress)
        sizes = {"train": len(parts.train), "validation": len(parts.validation), "test": len(parts.test)}
        notes = parts.warnings
    else:
        found = nested(model, data, asked, progress)
        sizes = {"train": len(found.test_rows), "validation": 0, "test": len(found.test_rows)}
        notes = ("test figures are pooled over five folds, p_test is approximate",)
    p_sweep = found.p_sweep
    if asked.exact_permutations:
        p_sweep, note = exact_p(data, found, asked, progress)
        notes = (*notes, note)
    vector = _calibrated(model, data, found, progress)
    tested = _used(model, precise, data, found, vector, asked, progress)
    figures = found.test.figures(float(np.median(found.shuffles)), asked.seed)
    beyond = found.test.beyond(found.words.scores, asked.seed)
    p = found.test.p(asked.seed)
    randoms = judge.random_figure(found.randoms)
    verdict, warned = judge.verdict(
        too_little=kind == "too-little-data",
        p=p,
        auroc_value=figures["auroc"].value,
        random_high=float(randoms.high or 1.0),
        used=tested.verdict,
        beyond_words=beyond,
    )
    suspicions = (leakage_warning(found.cues, figures["auroc"]), balance_warning(found.words))
    illustrations = illustrate(
        model,
        precise or model,
        vector,
        [examples.inputs[row] for row in found.test_rows],
        data.labels[found.test_rows],
        write=not asked.quick,
    )
    cell = next(one for one in found.cells if _same(one, found.winner))
    vector = replace(
        vector,
        figures={"test_auroc": figures["auroc"], "test_accuracy": figures["accuracy"], "stability": found.stability},
        tried=[{**one.to_json(), "auroc": one.auroc.value} for one in found.cells[:20]],
        versions={name: version(name) for name in ("covec", "torch", "transformers", "scikit-learn", "numpy")},
    )
    return Study(
        concept=examples.name,
        model=model.describe(),
        n={
            "rows": len(examples), "positive": int(data.labels.sum()), "negative": int((~data.labels).sum()), **sizes,
            "independent_positive": counts[0], "independent_negative": counts[1],
        },
        regime=kind,
        selected=cell,
        test=figures,
        p_test=p,
        p_sweep=p_sweep,
        stability=found.stability,
        bag_of_words={"accuracy": found.words.accuracy, "auroc": found.words.auroc},
        random_direction=randoms,
        cue=found.cues.auroc,
        beyond_words=beyond,
        used=tested,
        verdict=verdict,
        best=vector,
        cells=found.cells,
        wrong_concepts=_wrong(data, found, others, asked),
        illustrations=illustrations,
        warnings=(*warned, *(warning for warning in suspicions if warning)),
        notes=(*examples.notes, *asked.notes, *notes, *_dtype_notes(model, precise, asked)),
        settings={**asked.settings(), "data_digest": examples.digest, "versions": dict(vector.versions)},
        looks=count_look(examples.digest_of(found.test_rows)),
        seconds=time.monotonic() - begun,
    )  # fmt: skip


def _cosines(data: Mapping[str, Data], studies: Mapping[str, Study]) -> dict[str, Any]:
    """Cosines between the concepts' differences of means, at the cell that most of them selected."""
    chosen = [(one.selected.site, one.selected.position) for one in studies.values()]
    site, position = max(chosen, key=chosen.count)
    directions = []
    for one in data.values():
        rows, truth = one.rows[position].rows[site], torch.from_numpy(one.labels)
        directions.append(torch.nn.functional.normalize(rows[truth].mean(0) - rows[~truth].mean(0), dim=0))
    matrix = torch.stack(directions) @ torch.stack(directions).T
    return {str(site): {"concepts": list(data), "matrix": [[float(value) for value in row] for row in matrix]}}


def _multiplicity_warnings(studies: Studies) -> tuple[str, ...]:
    """Which verdicts do not outlive having asked for several concepts."""
    fragile = [
        f"{name} (p {p:.2g})"
        for name, p in studies.p_holm.items()
        if studies[name].verdict not in ("not-found", "too-little-data") and p > judge.LEVEL
    ]
    if not fragile:
        return ()
    told = f"corrected for having looked for {len(studies)} concepts (Holm), p is above {judge.LEVEL:g} for"
    return (f"{told} {', '.join(fragile)}: that they were found may be luck",)


def _same(cell: Cell, winner: Candidate) -> bool:
    return (cell.site, cell.position, cell.finder) == (winner.site, winner.position, winner.finder)


def _calibrated(model: TextModel, data: Data, found: Found, progress: Progress) -> ConceptVector:
    """The vector, with aggregator, threshold and calibration from validation rows that its twin never saw."""
    twin = calibrate(model, found.calibrating, data.examples, found.validation, progress=progress)
    return replace(found.vector, aggregator=twin.aggregator, threshold=twin.threshold, calibration=twin.calibration)


def _wrong(data: Data, found: Found, others: Mapping[str, Data], asked: Plan) -> dict[str, Figure]:
    """Difference-of-means vectors of the other concepts, at the winner's cell, on this concept's test rows."""
    at = (found.winner.site, found.winner.position)
    scores = {}
    for name, other in others.items():
        if other is data:
            continue
        rows = other.rows[at[1]].rows[at[0]]
        truth = torch.from_numpy(other.labels)
        direction = rows[truth].mean(0) - rows[~truth].mean(0)
        scores[name] = (data.at(*at, found.test_rows) @ direction).numpy()
    return judge.wrong_concepts(scores, found.test.labels, asked.seed)


def _precise(model: TextModel) -> TextModel:
    """The model in float32, read again where it was loaded in less; a live one is taken as it is."""
    if model.dtype == torch.float32:
        return model
    return reread(model, torch.float32) or model


def _dtype_notes(model: TextModel, precise: TextModel | None, asked: Plan) -> tuple[str, ...]:
    read = str(model.dtype).removeprefix("torch.")
    if asked.quick or precise is None:
        return (f"activations were read in {read}",)
    causal = str(precise.dtype).removeprefix("torch.")
    return (f"activations were read in {read}, the causal part ran in {causal}",)


def _used(
    model: TextModel,
    precise: TextModel | None,
    data: Data,
    found: Found,
    vector: ConceptVector,
    asked: Plan,
    progress: Progress,
) -> Used:
    if precise is None:
        return Used(why="a quick study does not test it")
    if not model.generates:
        return Used(why=f"{model.name} continues no text, from which a use could be read")
    inputs: dict[bool, list[Any]] = {True: [], False: []}
    for row in found.test_rows:
        inputs[bool(data.labels[row])].append(data.examples.inputs[row])
    continuations = asked.continuations or tuple(
        Continuation(given, sign, given)
        for sign, held_out in inputs.items()
        for given in [text for text in held_out if isinstance(text, str)][:SOURCES]
    )
    if {one.positive for one in continuations} != {True, False}:
        return Used(why="chats are no continuations: give some by --continuations")
    try:
        return used(
            precise,
            vector,
            prompts=neutral_prompts(),
            neutral=neutral_texts()[:NEUTRAL_TEXTS],
            positives=_later(inputs[True]),
            negatives=_later(inputs[False]),
            continuations=continuations,
            nulls=found.nulls,
            after="" if asked.continuations else "\n",
            seed=asked.seed,
            progress=progress,
        )
    except CovecError as error:
        return Used(why=str(error))


def _later(inputs: Sequence[Any]) -> list[Any]:
    """Inputs to ablate, those first that do not serve as continuations."""
    return [*inputs[SOURCES:], *inputs[:SOURCES]][:ABLATED]
