"""The claim on truth vectors under context: rotations and stretches are recovered, and records turn truth (2601.06599).

Three parts. Planted rotations and stretches must come back. In a small model that knows facts and believes records that
stand before a statement, a record that contradicts must turn the truth vector further than one that agrees. In the
embedded model the paper's pattern is shown, and no rule rests on it.

Where the card leaves a choice: noise is a tenth of the vector, over 200 pairs of width 64; angles and ratios are those
of mean vectors, measured across halves; the middle layer is after block 1 of 4. That truth is readable is asked there,
where the angles are taken, and shown after the last block, too; the probe is a ridge regression, judged on statements
about people that it was not fitted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.find.ridge import Ridge
from covec.measure.truth_vector_context import ContextChange, truth_vector_context, truth_vectors
from covec.models.load import load
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.statistics.intervals import accuracy_figure
from covec.worlds import capitals, records
from covec.worlds.contexts import turned

DEGREES, SHARE, READABLE = 2.0, 0.05, 0.95  # the numbers of the rules
ROTATIONS, STRETCHES = (0.0, 30.0, 60.0, 90.0), (0.5, 1.0, 2.0)
MIDDLE, LAST = Site("resid", 1), Site("resid", 3)  # of the small model's four blocks


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    pairs: int = 200
    people: int = 24
    countries: int = 12


REDUCED = _Setting(60, 12, 4)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    return Claim("truth-vector-context", (*_planted(setting), *_records(setting), *_embedded(setting)))


def _planted(setting: _Setting) -> Iterator[ClaimFigure]:
    """The worst errors over all rotations and stretches."""
    angles, ratios, noises = [], [], []
    for seed, (degrees, stretch) in enumerate(product(ROTATIONS, STRETCHES)):
        found = truth_vector_context(
            *turned(setting.pairs, 64, degrees=degrees, stretch=stretch, noise=0.1, seed=seed), seed=seed
        )
        angles.append(abs(found.angle.value - degrees))
        ratios.append(abs(found.growth.value / stretch**2 - 1))
        noises.append(found.angle.null)
    count = len(angles)
    worst = Figure(max(angles), n=count, how=f"degrees, worst of {count} rotations and stretches")
    yield ClaimFigure("planted: error of the angle", worst, DEGREES, "at most the baseline", worst.value <= DEGREES)
    worst = Figure(max(ratios), n=count, how=f"share of the squared stretch, worst of {count}")
    yield ClaimFigure("planted: error of the ratio", worst, SHARE, "at most the baseline", worst.value <= SHARE)
    yield shown("planted: angle of two halves without context", mean_figure(noises, "degrees, noise alone"))


def _records(setting: _Setting) -> Iterator[ClaimFigure]:
    """The small model's truth vector: readable, and turned further by a record against it than by one for it."""
    model, labels = records.model(), [place % 2 == 0 for place in range(setting.people)]
    texts = records.statements(labels)
    told = {kind: records.records(texts, conflicting=kind == "conflicting") for kind in ("aligned", "conflicting")}
    yield at_least("records: truth is read by a probe in the middle", _readable(model, MIDDLE), READABLE)
    yield shown("records: truth is read by a probe after the last block", _readable(model, LAST), READABLE)

    def vectors(contexts: tuple[str, ...] | None) -> torch.Tensor:
        found = truth_vectors(
            model, texts, labels, contexts, sites=MIDDLE, template=records.TEMPLATE, tasks=records.TASKS
        )
        return found[MIDDLE]

    found = {kind: truth_vector_context(vectors(None), vectors(contexts)) for kind, contexts in told.items()}
    gap = mean_figure(
        found["conflicting"].thetas - found["aligned"].thetas, f"degrees at {MIDDLE}, paired over statements"
    )
    yield above("records: contradiction turns truth further than agreement", gap, 0.0)
    yield shown(
        "records: angle of mean vectors, contradiction and agreement",
        found["conflicting"].angle,
        found["aligned"].angle,
    )


def _readable(model: TextModel, site: Site) -> Figure:
    """Accuracy of a probe of what is right, on statements about that half of the people that it was not fitted on."""
    asked = list(product(records.PEOPLE, records.TOWNS, records.TASKS))
    prompts = [
        records.TEMPLATE.format(context="", statement=f"{person} {town}", task=task) for person, town, task in asked
    ]
    right = np.array([(records.homes()[person] == town) == (task == "support") for person, town, task in asked])
    known = np.array([person in records.PEOPLE[::2] for person, _, _ in asked])
    rows = model.capture(prompts, site, "last")[site]
    scores = Ridge().fit(rows[known], right[known]).decision_function(rows[~known])
    unseen = [person for (person, _, _), one in zip(asked, known, strict=True) if not one]
    return accuracy_figure(scores, right[~known], groups=unseen, null=0.5)


def _embedded(setting: _Setting) -> Iterator[ClaimFigure]:
    """The embedded model's angles by thirds of its depth, and the ratio at the last block."""
    model, given = load("smollm2-135m", dtype="float32"), capitals.statements(setting.countries)
    plain = truth_vectors(model, given.texts, given.labels)
    changes = {
        kind: _changes(plain, truth_vectors(model, given.texts, given.labels, contexts))
        for kind, contexts in given.contexts.items()
    }
    thirds = np.array_split(np.arange(len(plain)), 3)
    for kind, found in changes.items():
        for name, third in zip(("early", "middle", "late"), thirds, strict=True):
            thetas = np.mean([found[place].thetas for place in third], axis=0)
            yield shown(f"embedded model: {kind}, {name} blocks", mean_figure(thetas, "degrees, over statements"), 90.0)
        yield shown(f"embedded model: {kind}, ratio at the last block", found[-1].ratio, 1.0)
    for name, third in zip(("early", "middle", "late"), thirds, strict=True):
        gaps = [changes["irrelevant"][place].thetas - changes["aligned"][place].thetas for place in third]
        gap = mean_figure(np.mean(gaps, axis=0), "degrees, paired over statements")
        yield shown(f"embedded model: irrelevant beyond aligned evidence, {name} blocks", gap, 0.0)
    noise = mean_figure([found.angle.null or 0.0 for found in changes["aligned"]], "degrees, mean over blocks")
    yield shown("embedded model: angle of two halves without context", noise)


def _changes(plain: dict[Site, torch.Tensor], context: dict[Site, torch.Tensor]) -> list[ContextChange]:
    return [truth_vector_context(rows, context[site]) for site, rows in plain.items()]
