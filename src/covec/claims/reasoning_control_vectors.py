"""Control vectors' claim: the state of a solved task, added back, makes right answers likelier (ICLR 2025, IssPhpUsKt).

Deduction as in bAbI 15 ("Mice are afraid of wolves. Cats are afraid of sheep. Gertrude is a mouse. ..."), four animals,
one solved task before each, in the embedded model. 150 pairs of a right and a wrong answer give the vectors; of the
other tasks half choose the coefficient and half are tested. Answers are the likeliest of the animals as next word.

So that the claim stays within its two minutes, 40 tasks are tested instead of 200, and coefficients go by 0.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.steer.reasoning_control_vectors import Diagnosis, ReasoningControlVectors, Said

ANIMALS = {"mouse": "mice", "wolf": "wolves", "cat": "cats", "sheep": "sheep"}
NAMES = ["Gertrude", "Emily", "Winona", "Jessica", "Bernhard", "Greg", "Julius", "Lily", "Brian", "Sumit"]
STEP = 0.5  # the coefficient at which slopes are measured
SHOT = "Sheep are afraid of cats. Mice are afraid of wolves. Anna is a mouse. What is Anna afraid of? Answer: wolf\n"


@dataclass(frozen=True)
class _Setting:
    """Pairs that train, tasks that choose and test, coefficients, random vectors for the accuracy and for the slope."""

    train: int = 150
    test: int = 40
    coefficients: tuple[float, ...] = (-1.0, -0.5, 0.5, 1.0)
    randoms: int = 10
    sloped: int = 5


REDUCED = _Setting(12, 4, (-0.5, 0.5), 1, 1)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    known, asked = tasks(setting.train, setting.test)
    fitted = {kind: ReasoningControlVectors(kind).fit(model, known) for kind in ("contrast", "mean", "pca")}
    return Claim("reasoning-control-vectors", tuple(_figures(model, fitted, asked, setting)))


def tasks(train: int, test: int) -> tuple[Examples, list[tuple[str, str]]]:
    """Pairs of tasks with the right answer and with a wrong one, and other tasks with their right answers."""
    rng, made = np.random.default_rng(0), dict[str, str]()
    while len(made) < train + test:
        one, feared, other, third = (str(word) for word in rng.permutation(list(ANIMALS)))
        facts = [f"{ANIMALS[one].capitalize()} are afraid of {ANIMALS[feared]}.", _fact(other, third)]
        name = str(rng.choice(NAMES))
        text = " ".join(str(fact) for fact in rng.permutation(facts))
        made[f"{SHOT}{text} {name} is a {one}. What is {name} afraid of? Answer:"] = feared
    listed = list(made.items())
    wrong = [str(rng.choice([word for word in ANIMALS if word != right])) for _, right in listed[:train]]
    positive = [f"{task} {right}" for task, right in listed[:train]]
    negative = [f"{task} {word}" for (task, _), word in zip(listed[:train], wrong, strict=True)]
    return Examples.from_lists(positive, negative, paired=True, name="solved"), listed[train:]


def _fact(one: str, other: str) -> str:
    return f"{ANIMALS[one].capitalize()} are afraid of {ANIMALS[other]}."


def _figures(
    model: TextModel, fitted: dict[str, Any], asked: list[tuple[str, str]], setting: _Setting
) -> Iterator[ClaimFigure]:
    contrast = next(iter(fitted["contrast"].vectors.values()))
    prompts, correct = zip(*asked, strict=True)
    diagnosis = Diagnosis(model, contrast.site, prompts, list(ANIMALS), correct)
    said = {one: diagnosis.under(contrast.add(one)[0]) for one in setting.coefficients} | {0.0: diagnosis.under()}
    yield _divergence(said)
    yield from _accuracy(diagnosis, contrast, said, setting)
    yield from _slope(diagnosis, contrast, said, setting)
    yield from _beside(diagnosis, fitted, said)


def _divergence(said: dict[float, Said]) -> ClaimFigure:
    moved = {one: float(said[one].divergence.mean()) for one in sorted(said)}
    below, over = ([moved[one] for one in moved if sign * one >= 0] for sign in (-1, 1))
    grows = below == sorted(below, reverse=True) and over == sorted(over)
    listed = ", ".join(f"{one:g}: {nats:.3f}" for one, nats in moved.items())
    figure = Figure(over[-1], n=len(said[0.0].right), how=f"mean nats at the last of the coefficients {listed}")
    return ClaimFigure("KL grows with the coefficient", figure, None, "rises to both sides of 0", grows)


def _random(vector: ConceptVector, setting: _Setting, strength: float) -> list[Add]:
    """Random vectors as long as `vector`, the same at every strength."""
    generator = torch.Generator().manual_seed(0)
    drawn = normalize(torch.randn(setting.randoms, len(vector.write), generator=generator), dim=1)
    return [Add(site=vector.site, shift=strength * vector.write.norm() * one) for one in drawn]


def _accuracy(
    diagnosis: Diagnosis, vector: ConceptVector, said: dict[float, Said], setting: _Setting
) -> Iterator[ClaimFigure]:
    """The coefficient is chosen on the first half of the tasks and tested on the second."""
    half = setting.test // 2
    best = max(sorted(said, key=abs), key=lambda one: float(said[one].right[:half].mean()))
    right, plain = said[best].right[half:], said[0.0].right[half:]
    tested = Figure(float(right.mean()), n=len(right), how=f"accuracy at coefficient {best:g}, test half")
    yield at_least("accuracy at the chosen coefficient", tested, float(plain.mean()))
    yield shown("gain of accuracy", mean_figure(right - plain, "paired over tasks"), 0.0)
    others = [diagnosis.under(edit).right[half:].mean() for edit in _random(vector, setting, best or 1.0)]
    yield above("accuracy against random vectors", tested, mean_figure(others, "random vectors of the same norm"))


def _slope(
    diagnosis: Diagnosis, vector: ConceptVector, said: dict[float, Said], setting: _Setting
) -> Iterator[ClaimFigure]:
    """How the probability of the right animal goes with the coefficient, around 0."""
    change = said[STEP].probability - said[-STEP].probability
    rise = mean_figure(change, f"from -{STEP:g} to {STEP:g}, paired over tasks")
    both = zip(*(_random(vector, setting, sign * STEP)[: setting.sloped] for sign in (1, -1)), strict=True)
    others = [(diagnosis.under(up).probability - diagnosis.under(down).probability).mean() for up, down in both]
    steepest = Figure(float(np.abs(others).max()), n=len(others), how="steepest of random vectors, either way")
    name, low = "rise of the right answer's probability", rise.value if rise.low is None else rise.low
    yield ClaimFigure(name, rise, 0.0, "its interval is above the baseline", low > 0)
    yield above(f"{name}, against random vectors", rise, steepest)


def _beside(diagnosis: Diagnosis, fitted: dict[str, Any], said: dict[float, Said]) -> Iterator[ClaimFigure]:
    plain = said[0.0]
    steered = mean_figure(said[STEP].entropy, f"nats at {STEP:g}")
    yield shown("entropy", steered, mean_figure(plain.entropy, "unsteered"))
    for kind in ("mean", "pca"):
        (vector,) = fitted[kind].vectors.values()
        found = diagnosis.under(vector.add(STEP)[0])
        rise = mean_figure(found.probability - plain.probability, f"rise of the right answer's probability at {STEP:g}")
        yield shown(f"{kind} vector", rise, mean_figure(found.entropy - plain.entropy, "rise of the entropy"))
    (component,) = fitted["pca"].vectors.values()
    yield shown("cosine of PCA-C with R-C", component.figures["cosine"])
