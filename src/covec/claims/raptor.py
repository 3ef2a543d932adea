"""RAPTOR's claim: one well-tuned ridge gives vectors that are accurate, stable and cheap (arXiv:2602.00158).

Sentiment in the embedded model, from 40 to 300 training rows; and a Gaussian teacher, where the best ridge is known to
lie inside the path. Data are the packaged pairs of sentences: the rows that a draw does not train on test it.

Where the card leaves a choice: accuracies are means over two middle blocks and over draws of the pairs; early blocks
are 0 to 4; a recursive feature machine is tuned as in its own code for concepts, and a Gaussian concept subspace has
100 probes (see `_rivals`). A fit's time includes whatever tunes it, on one thread of the processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from covec.claims import Claim, ClaimFigure
from covec.claims._clock import one_thread, processor_seconds
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.claims._rivals import ITERATIONS, PROBES, gaussian_subspace, recursive_feature_machine
from covec.concepts.packaged import example_concept
from covec.find import Finder
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.raptor import RIDGES, Raptor
from covec.models.load import load
from covec.statistics.figure import Figure
from covec.worlds.gaussian import Teacher

UNREGULARISED = (1e-6,)
WEAK, STRONG = (1e-3, 1e-2, 1e-1), (1.0, 10.0, 100.0)  # fixed ridges below and from 1


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    pairs: int = 160
    sizes: tuple[int, ...] = (40, 100, 300)
    draws: int = 4
    middle: tuple[int, ...] = (12, 20)
    early: tuple[int, ...] = (0, 1, 2, 3, 4)
    samples: int = 20
    iterations: int = ITERATIONS
    probes: int = PROBES
    repeats: int = 3
    d: int = 500
    rows: tuple[int, int] = (1000, 250)
    teachers: int = 5


REDUCED = _Setting(30, (40,), 2, (3,), (0,), 3, 2, 5, 1, 40, (80, 30), 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    world = _World.captured(setting)
    figures = [*_accuracy(world, setting), *_stability(world, setting), *_early(world, setting)]
    return Claim("raptor", (*figures, *_time(world, setting), *_theory(setting)))


@dataclass(frozen=True)
class _World:
    """Activations a block, labels and pairs of the packaged sentences."""

    rows: dict[int, Float[Tensor, "n d"]]
    labels: Bool[np.ndarray, "n"]
    pairs: Int[np.ndarray, "n"]

    @classmethod
    def captured(cls, setting: _Setting) -> _World:
        examples = example_concept().subset(range(2 * setting.pairs))
        blocks = sorted({*setting.middle, *setting.early})
        found = load("smollm2-135m").capture(examples.inputs, [f"resid.{block}" for block in blocks], "last")
        _, pairs = np.unique(np.array(examples.pairs), return_inverse=True)
        return cls({block: found[f"resid.{block}"] for block in blocks}, examples.labels, pairs)

    def draws(self, n: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Draws of `n` training rows, in whole pairs, and the rows left over: each pair is left over at least once."""
        order = np.random.default_rng(0).permutation(self.pairs.max() + 1)
        for place in range(max(count, len(order) // (len(order) - n // 2))):
            chosen = np.isin(self.pairs, np.roll(order, -place * n // 2)[: n // 2])
            yield np.flatnonzero(chosen), np.flatnonzero(~chosen)

    def fit(self, finder: Finder, block: int, train: np.ndarray) -> Any:
        """`finder`, fitted on rows of one block in whole pairs."""
        return finder.fit(self.rows[block][train], self.labels[train], groups=[int(one) for one in self.pairs[train]])

    def accuracy(self, finder: Finder, block: int, train: np.ndarray, test: np.ndarray) -> float:
        """Of a finder on the rows left over."""
        return float((self.fit(finder, block, train).predict(self.rows[block][test]) == self.labels[test]).mean())


def _accuracy(world: _World, setting: _Setting) -> Iterator[ClaimFigure]:
    finders = {
        "RAPTOR": Raptor,
        "unregularised logistic": lambda: Logistic(UNREGULARISED),
        "difference of means": MeanDifference,
    }
    for n in setting.sizes:
        found: dict[str, list[float]] = {}
        for train, test in world.draws(n, setting.draws):
            for name, make in finders.items():
                each = [world.accuracy(make(), block, train, test) for block in setting.middle]
                found.setdefault(name, []).append(float(np.mean(each)))
            machines = [_machine_accuracy(world, block, train, test, setting.iterations) for block in setting.middle]
            found.setdefault("recursive feature machine", []).append(float(np.mean(machines)))
        own = mean_figure(found.pop("RAPTOR"), f"mean over {len(setting.middle)} blocks, interval over draws", null=0.5)
        best = max(found, key=lambda name: np.mean(found[name]))
        yield at_least(f"test accuracy, n = {n}, against {best}", own, mean_figure(found[best], best), 0.02)


def _machine_accuracy(world: _World, block: int, train: np.ndarray, test: np.ndarray, iterations: int) -> float:
    predict = recursive_feature_machine(world.rows[block][train], world.labels[train], iterations)
    return float(((predict(world.rows[block][test]) > 0).numpy() == world.labels[test]).mean())


def _stability(world: _World, setting: _Setting) -> Iterator[ClaimFigure]:
    makers: dict[str, Callable[[], Finder]] = {
        "RAPTOR": Raptor,
        "unregularised": lambda: Logistic(UNREGULARISED),
        "difference of means": MeanDifference,
    }
    for n in setting.sizes:
        train, _ = next(world.draws(n, 1))
        cosines = {name: [_third_samples(world, make, block, train, setting.samples) for block in setting.middle]
                   for name, make in makers.items()}  # fmt: skip
        how = f"mean pairwise cosine over {setting.samples} third-samples, mean over blocks {setting.middle}"
        own, plain, means = (Figure(float(np.mean(cosines[name])), n=n, how=how) for name in makers)
        yield at_least(f"stability, n = {n}, against unregularised logistic", own, plain, 0.005)
        yield shown(f"stability of the difference of means, n = {n} (where a large ridge leads)", means)


def _third_samples(world: _World, make: Callable[[], Finder], block: int, train: np.ndarray, count: int) -> float:
    directions = []
    for seed in range(count):
        pairs = np.random.default_rng(seed).permutation(np.unique(world.pairs[train]))
        third = train[np.isin(world.pairs[train], pairs[: max(len(pairs) // 3, 2)])]
        directions.append(world.fit(make(), block, third).direction_)
    return _mean_cosine(directions)


def _mean_cosine(directions: list[Tensor]) -> float:
    return float(np.mean([abs(float(one @ other)) for one, other in combinations(directions, 2)]))


def _early(world: _World, setting: _Setting) -> Iterator[ClaimFigure]:
    """How far the accuracy of a ridge falls, in early blocks, below that of the best weak one."""
    n = setting.sizes[len(setting.sizes) // 2]
    falls: dict[str, list[float]] = {"RAPTOR": [], "strong": []}
    for train, test in world.draws(n, setting.draws // 2):
        for block in setting.early:
            fixed = {ridge: world.accuracy(Logistic((ridge,)), block, train, test) for ridge in (*WEAK, *STRONG)}
            best = max(fixed[ridge] for ridge in WEAK)
            falls["RAPTOR"].append(best - world.accuracy(Raptor(), block, train, test))
            falls["strong"].append(best - min(fixed[ridge] for ridge in STRONG))
    blocks = f"blocks {setting.early[0]} to {setting.early[-1]}, n = {n}"
    own = mean_figure(falls["RAPTOR"], "below the best of ridges 0.001, 0.01, 0.1; over draws and blocks")
    rival = mean_figure(falls["strong"], "the worst of ridges 1, 10, 100")
    rule = "at most 0.02 (the baseline: how far ridges from 1 fall)"
    yield ClaimFigure(f"fall of accuracy in early {blocks}", own, rival, rule, own.value <= 0.02)


def _time(world: _World, setting: _Setting) -> Iterator[ClaimFigure]:
    block, n = setting.middle[0], setting.sizes[-1]
    train, _ = next(world.draws(n, 1))
    X, labels = world.rows[block][train], world.labels[train]
    runs: dict[str, Callable[[], object]] = {
        "RAPTOR": lambda: world.fit(Raptor(), block, train),
        "recursive feature machine": lambda: recursive_feature_machine(X, labels, setting.iterations),
        "Gaussian concept subspace": lambda: gaussian_subspace(X, labels, np.random.default_rng(0), setting.probes),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    with one_thread():
        for _ in range(setting.repeats):
            for name, run in runs.items():
                seconds[name].append(processor_seconds(run))
    own = float(np.median(seconds.pop("RAPTOR")))
    for name, each in seconds.items():
        share = Figure(own / float(np.median(each)), n=setting.repeats, how=f"processor time of a fit at n = {n}")
        yield ClaimFigure(f"time, as a share of the {name}'s", share, 0.2, "below the baseline", share.value < 0.2)


def _theory(setting: _Setting) -> Iterator[ClaimFigure]:
    """The Gaussian teacher: the overlap along the path of ridges, and half-sample refits where rows are few."""
    many, few = setting.rows
    overlaps: list[list[float]] = []
    chosen: list[float] = []
    stable: dict[str, list[float]] = {"RAPTOR": [], "unregularised": []}
    makers: dict[str, Callable[[], Finder]] = {"RAPTOR": Raptor, "unregularised": lambda: Logistic(UNREGULARISED)}
    for seed in range(setting.teachers):
        rng = np.random.default_rng(seed)
        teacher = Teacher.draw(setting.d, 4.0, rng)
        X, y = teacher.sample(many, rng)
        ridges = (*UNREGULARISED, *RIDGES)
        overlaps.append([teacher.overlap(Logistic((ridge,)).fit(X, y).direction_) for ridge in ridges])
        chosen.append(teacher.overlap(Raptor().fit(X, y).direction_) / max(overlaps[-1]))
        X, y = teacher.sample(few, rng)
        for name, make in makers.items():
            halves = [rng.permutation(few)[: few // 2] for _ in range(setting.samples)]
            stable[name].append(_mean_cosine([make().fit(X[half], y[half]).direction_ for half in halves]))
    path = np.mean(overlaps, axis=0)
    best = int(path.argmax())
    how = f"cosine to the teacher at n = {many}, d = {setting.d}, mean over teachers"
    name = f"overlap at the best ridge ({(*UNREGULARISED, *RIDGES)[best]:.2g})"
    ends = Figure(float(max(path[0], path[-1])), how="the better end of the path")
    top = mean_figure(np.array(overlaps)[:, best], how)
    rule = "above both ends of the path, at a ridge inside it"
    yield ClaimFigure(name, top, ends, rule, 0 < best < len(path) - 1 and top.value > ends.value)
    yield at_least("overlap at the chosen ridge, as a share of the best", mean_figure(chosen, how), 0.95)
    how = f"mean pairwise cosine of half-sample refits at n = {few}"
    yield above("stability on few rows", mean_figure(stable["RAPTOR"], how), mean_figure(stable["unregularised"], how))
