"""Task arithmetic's claim: what fine-tuning changed in the weights forgets, adds up and carries over (2212.04089).

The small vision transformer of the world of shapes, which knows all tasks a little, is fine-tuned on colour, shape and
texture, heads frozen. Strengths are chosen on validation pictures, figures are of others.

Where the card leaves a choice: colour "falls towards chance" where at least half of what it had above chance is gone;
the control is shape; the random vector has the norm of every tensor's change and the same strength. For the analogy
the task is colour and shape at once, and the strength of the sum is chosen on blue squares, as the paper does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, shown
from covec.claims._shapes import task_vector, tuned
from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.concepts.weights import combined, cosine
from covec.edits.weights import patch_weights
from covec.errors import CovecError
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson
from covec.steer.task_arithmetic import TaskArithmetic
from covec.worlds.shapes import PAIR, TASKS, Network, Scenes, accuracy, network, scenes

FORGOTTEN, KEPT, NORMALISED, APART = 0.5, 0.95, 0.85, 0.2  # the numbers of the rules
FORGET, CONTROL, THIRD = "colour", "shape", "texture"


@dataclass(frozen=True)
class _Setting:
    """Steps of fine-tuning on a task and on a part of the pictures, pictures to judge with, and strengths to try."""

    steps: int = 200
    part: int = 60
    pictures: int = 400
    strengths: tuple[float, ...] = tuple(step / 20 for step in range(21))


REDUCED = _Setting(2, 2, 40, (0.0, 0.5, 1.0))


class _Bench:
    """The network, its task vectors, and pictures to choose strengths with and to judge by."""

    def __init__(self, setting: _Setting) -> None:
        self.setting, self.base = setting, network()
        self.tuned = {task: tuned(self.base, task, setting.steps) for task in (FORGET, CONTROL, THIRD)}
        self.vectors = {task: task_vector(self.base, module, task) for task, module in self.tuned.items()}
        self.validation, self.test = (scenes(setting.pictures, seed=seed) for seed in (1, 2))

    def under(self, vector: ConceptVector, strength: float, task: str, pictures: Scenes | None = None) -> Figure:
        """Accuracy in `task` on test pictures with `strength` times `vector` in the weights."""
        with patch_weights(self.base, vector, strength):
            return self.accuracy(self.base, task, pictures)

    def accuracy(self, module: Network, task: str, pictures: Scenes | None = None) -> Figure:
        """Accuracy of a network in `task` on test pictures."""
        judged = self.test if pictures is None else pictures
        value = accuracy(module, judged, task)
        low, high = wilson(value, len(judged))
        return Figure(value, low, high, 1 / TASKS[task], len(judged), f"accuracy in {task}, Wilson")

    def strength(self, vector: ConceptVector, *, tasks: tuple[str, ...], control: str | None = None) -> float:
        """The strength that validation chooses; 0 where none does better."""

        def score() -> float:
            found = [accuracy(self.base, self.validation, one) for one in tasks]
            best = [accuracy(self.tuned[one], self.validation, one) for one in tasks]
            return sum(one / other for one, other in zip(found, best, strict=True)) / len(tasks)

        held = None if control is None else lambda: accuracy(self.base, self.validation, control)
        try:
            return TaskArithmetic(self.setting.strengths, KEPT).fit(self.base, vector, score, held).strength
        except CovecError:
            return 0.0


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    bench = _Bench(REDUCED if reduced else _Setting())
    return Claim("task-arithmetic", (*_forgetting(bench), *_adding(bench), *_apart(bench), *_analogy(bench)))


def _forgetting(bench: _Bench) -> Iterator[ClaimFigure]:
    vector = combined("forget", (-1, bench.vectors[FORGET]))
    strength = bench.strength(vector, tasks=(FORGET,), control=CONTROL)
    before, control = bench.accuracy(bench.base, FORGET), bench.accuracy(bench.base, CONTROL)
    after, random = bench.under(vector, strength, FORGET), bench.under(_random(vector), strength, FORGET)
    chance = 1 / TASKS[FORGET]
    limit = chance + (1 - FORGOTTEN) * (before.value - chance)
    rule = "at most the baseline"
    yield ClaimFigure(f"{FORGET} forgotten, at strength {strength:g}", after, limit, rule, after.value <= limit)
    kept = bench.under(vector, strength, CONTROL)
    name = f"{CONTROL} kept meanwhile"
    yield ClaimFigure(name, kept, KEPT * control.value, "at least the baseline", kept.value >= KEPT * control.value)
    yield above(f"{FORGET} under a random vector of the same norms", random, limit)
    yield shown(f"{FORGET} before", before)


def _random(vector: ConceptVector) -> ConceptVector:
    """A random vector with the norm of every tensor of `vector`."""
    generator, parts = torch.Generator().manual_seed(0), {}
    for site, part in vector.parts.items():
        drawn = torch.randn(part.write.shape, generator=generator)
        parts[site] = Part.writing(drawn * part.write.norm() / drawn.norm())
    return ConceptVector("random", parts, "weights", scale_from="native")


def _adding(bench: _Bench) -> Iterator[ClaimFigure]:
    both = (FORGET, CONTROL)
    vector = combined("both", *((1, bench.vectors[task]) for task in both))
    strength = bench.strength(vector, tasks=both)
    for task in both:
        found, own = bench.under(vector, strength, task), bench.accuracy(bench.tuned[task], task)
        how = f"accuracy over {own.value:.2f} of its own tuned model, at strength {strength:g}"
        share = Figure(found.value / own.value, n=found.n, how=how)
        name = f"{task} after adding both, normalised"
        yield ClaimFigure(name, share, NORMALISED, "at least the baseline", share.value >= NORMALISED)
        yield shown(f"{task} after adding both, beside before", found, bench.accuracy(bench.base, task))


def _apart(bench: _Bench) -> Iterator[ClaimFigure]:
    value = abs(cosine(bench.vectors[FORGET], bench.vectors[CONTROL]))
    figure = Figure(value, how="absolute cosine over all weights of the encoder")
    yield ClaimFigure(f"{FORGET} and {CONTROL} vectors", figure, APART, "below the baseline", value < APART)


def _analogy(bench: _Bench) -> Iterator[ClaimFigure]:
    """Red circles to red squares as blue circles to blue squares."""

    def vector(colour: str, shape: str) -> ConceptVector:
        module = tuned(bench.base, PAIR, bench.setting.part, colour=colour, shape=shape)
        return task_vector(bench.base, module, f"{colour} {shape}")

    parts = ((1, vector("blue", "circle")), (1, vector("red", "square")), (-1, vector("red", "circle")))
    analogy, count = combined("blue square", *parts), bench.setting.pictures
    known, unseen = (scenes(count, seed=seed, colour="blue", shape="square") for seed in (3, 4))
    try:
        chosen = TaskArithmetic(bench.setting.strengths).fit(
            bench.base, analogy, lambda: accuracy(bench.base, known, PAIR)
        )
        strength = chosen.strength
    except CovecError:
        strength = 0.0
    found, before = bench.under(analogy, strength, PAIR, unseen), bench.accuracy(bench.base, PAIR, unseen)
    yield above(f"blue squares by analogy, at strength {strength:g}", found, before)
    alone = bench.under(parts[0][1], strength, PAIR, unseen)
    yield shown("blue squares with the vector of blue circles alone", alone)
