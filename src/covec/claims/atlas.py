"""aTLAS's claim: a learned coefficient for every tensor composes task vectors better than one for all (2407.02880).

Five task vectors of the small vision transformer of the world of shapes. Coefficients are learned and chosen on
validation pictures, and judged on others, beside the best single strength of the sum on the same validation pictures.

Where the card leaves a choice: the three tasks are colour, shape and texture; the few shots are five pictures of every
colour and shape at once, of which as many more choose the coefficients. The claim trains, and may take five minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, shown
from covec.claims._shapes import task_vector, tuned
from covec.concepts.weights import combined
from covec.edits.weights import patch_weights
from covec.errors import CovecError
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson
from covec.steer.atlas import Atlas
from covec.steer.task_arithmetic import TaskArithmetic
from covec.worlds.shapes import ATTRIBUTES, PAIR, TASKS, Scenes, accuracy, network, scenes

GAIN, SHARE, SHOTS = 0.03, 0.01, 5  # the numbers of the rules
ADDED = ("colour", "shape", "texture")


@dataclass(frozen=True)
class _Setting:
    """Steps of fine-tuning and of learning coefficients, and pictures to judge with."""

    steps: int = 200
    learning: int = 80
    pictures: int = 400
    strengths: tuple[float, ...] = tuple(step / 20 for step in range(21))


REDUCED = _Setting(2, 2, 40, (0.0, 0.5, 1.0))


class _Bench:
    """The network, five task vectors, and pictures to learn from, to choose by and to judge by."""

    def __init__(self, setting: _Setting) -> None:
        self.setting, self.base = setting, network()
        self.vectors = {
            task: task_vector(self.base, tuned(self.base, task, setting.steps), task) for task in ATTRIBUTES
        }
        self.validation, self.test = (scenes(setting.pictures, seed=seed) for seed in (1, 2))

    def mean(self, module: Callable[..., Any], shown: Scenes, tasks: Sequence[str]) -> float:
        """Mean accuracy over `tasks`."""
        return float(np.mean([accuracy(module, shown, task) for task in tasks]))

    def figure(self, vector: Any, tasks: Sequence[str], how: str) -> Figure:
        """Mean accuracy over `tasks` on test pictures with `vector` in the weights, or without where it is None."""
        if vector is None:
            value = self.mean(self.base, self.test, tasks)
        else:
            with patch_weights(self.base, vector):
                value = self.mean(self.base, self.test, tasks)
        low, high = wilson(value, len(self.test)) if len(tasks) == 1 else (None, None)
        chance = float(np.mean([1 / TASKS[task] for task in tasks]))
        return Figure(value, low, high, chance, len(self.test), how)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    bench = _Bench(REDUCED if reduced else _Setting())
    return Claim("atlas", (*_added(bench), *_few_shots(bench)))


def _added(bench: _Bench) -> Iterator[ClaimFigure]:
    """Three tasks at once, by learned coefficients and by one strength."""
    taken = [bench.vectors[task] for task in ADDED]

    def loss(call: Callable[..., Any], step: int) -> Tensor:
        first = 64 * step % len(bench.validation)
        rows = slice(first, first + 64)
        images = bench.validation.images[rows]
        losses = [cross_entropy(call(images, task), bench.validation.labels(task)[rows]) for task in ADDED]
        return torch.stack(losses).sum()

    found = _or_nothing(
        lambda: Atlas(bench.setting.learning).fit(
            bench.base, taken, loss, lambda call: bench.mean(call, bench.validation, ADDED)
        )
    )
    total = combined("sum", *((1, vector) for vector in taken))
    search = TaskArithmetic(bench.setting.strengths)
    single = _or_nothing(lambda: search.fit(bench.base, total, lambda: bench.mean(bench.base, bench.validation, ADDED)))
    learned = bench.figure(found, ADDED, f"mean accuracy in {', '.join(ADDED)}")
    yield above("three tasks added, by tensor", learned, bench.figure(single, ADDED, "one strength for all"), GAIN)
    yield shown("three tasks before", bench.figure(None, ADDED, learned.how))


def _or_nothing(fit: Callable[[], Any]) -> Any:
    """The vector that a fit gives; None where it finds nothing better than the network as it is."""
    try:
        return fit().vector
    except CovecError:
        return None


def _few_shots(bench: _Bench) -> Iterator[ClaimFigure]:
    """A sixth task from the vectors of the other five and a few pictures of it."""
    shots, more = (_shots(seed) for seed in (5, 6))
    images, labels = shots.images, shots.labels(PAIR)
    taken = list(bench.vectors.values())
    found = _or_nothing(
        lambda: Atlas(bench.setting.learning).fit(
            bench.base,
            taken,
            lambda call, _: cross_entropy(call(images, PAIR), labels),
            lambda call: accuracy(call, more, PAIR),
        )
    )
    learned = bench.figure(found, (PAIR,), f"accuracy in {PAIR}, {SHOTS} shots, Wilson")
    yield above(f"{SHOTS} shots, above none", learned, bench.figure(None, (PAIR,), "zero-shot, Wilson"))
    with torch.no_grad():
        rows, unseen = (bench.base.features(one.images).numpy() for one in (shots, bench.test))
    fitted = LogisticRegression(max_iter=1000).fit(rows, labels.numpy())
    right = int((fitted.predict(unseen) == bench.test.labels(PAIR).numpy()).sum())
    low, high = wilson(right / len(bench.test), len(bench.test))
    probe = Figure(right / len(bench.test), low, high, 1 / TASKS[PAIR], len(bench.test), "linear probe, the same shots")
    yield above(f"{SHOTS} shots, above a linear probe", learned, probe)
    weights = sum(weight.numel() for weight in bench.base.parameters())
    scalars = len(taken) * len({site for vector in taken for site in vector.parts})
    share = Figure(scalars / weights, n=weights, how=f"{scalars} coefficients over all weights")
    yield ClaimFigure("share of what is trained", share, SHARE, "below the baseline", share.value < SHARE)


def _shots(seed: int) -> Scenes:
    """`SHOTS` pictures of every colour and shape."""
    parts = [
        scenes(SHOTS, seed=100 * seed + number, colour=colour, shape=shape)
        for number, (colour, shape) in enumerate(
            (colour, shape) for colour in ATTRIBUTES["colour"] for shape in ATTRIBUTES["shape"]
        )
    ]
    values = {name: torch.cat([part.values[name] for part in parts]) for name in ATTRIBUTES}
    return Scenes(torch.cat([part.images for part in parts]), values, torch.cat([part.masks for part in parts]))
