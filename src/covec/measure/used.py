"""Whether the model uses a concept: what adding and ablating its vector does to what the model says.

Decodable is not used. A vector is *used* when adding it moves the readout (see `_readout`), and ablating it closes the
gap between positive and negative inputs, by more than vectors of shuffled labels do. Isotropic directions are shown but
do not decide: they are too easy to beat.

The null vectors' effects come from the readout's gradient at the site (one backward pass serves any number of them);
the largest are then run for real until they settle the verdict, and the vector itself always is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Ablate, Add
from covec.edits.divergence import Divergence
from covec.measure._readout import Continuation, Linear, Readout
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.models.tokens import Input
from covec.progress import Progress, silent
from covec.registry import method
from covec.statistics.figure import Figure

CONFIRMED = 3  # null vectors, of the largest estimated effects, that are run for real at least
STRENGTHS = (-2.0, -1.0, 0.0, 1.0, 2.0)
EQUAL_KL = 0.1  # nats a token at which effects are compared
_CONTENT = Position("content")


@dataclass(frozen=True)
class Used:
    """Effects of adding and ablating the vector, beside shuffled-label vectors, and what they say.

    `add` is the slope of the readout over strengths -1 to 1 (log-probability a token), `ablate` the part of the
    readout's gap between positive and negative inputs that closes, `kl` the divergence a token on neutral text at
    strength 1, `at_equal_kl` the effect of adding at a divergence of 0.1 nats. Their nulls are medians over the null
    vectors; `add_nulls` and `ablate_nulls` hold them all. `isotropic` is the effect of adding random directions, its
    `high` the 95% point. `curve` has one entry a strength: strength, readout, low, high, kl.
    """

    verdict: str = "not-tested"  # "used", "steers-only", "not-shown" or "not-tested"
    add: Figure | None = None
    ablate: Figure | None = None
    kl: Figure | None = None
    at_equal_kl: Figure | None = None
    isotropic: Figure | None = None
    add_nulls: tuple[float, ...] = ()
    ablate_nulls: tuple[float, ...] = ()
    curve: tuple[dict[str, float], ...] = ()
    gap: float | None = None  # the readout's gap between positive and negative inputs, nothing ablated
    dtype: str = ""
    why: str = ""  # why it was not tested, where it was not

    @property
    def figure(self) -> Figure | None:
        """What the verdict rests on first: the effect of adding; None where not tested."""
        return self.add

    def to_json(self) -> dict[str, Any]:
        """The figures and the verdict; null where not tested."""
        figures = {name: getattr(self, name) for name in ("add", "ablate", "kl", "at_equal_kl")}
        shown = {name: None if figure is None else figure.to_json() for name, figure in figures.items()}
        return {**shown, "gap": self.gap, "verdict": self.verdict, "dtype": self.dtype, "why": self.why}


@dataclass(frozen=True)
class NullVectors:
    """Vectors that know nothing of the concept: `directions` [k, d] of unit norm, their `targets` [k] for ablation
    (the midpoint of their own class means) and their `writes` [k, d].
    """

    directions: Float[Tensor, "k d"]
    targets: Float[Tensor, "k"]
    writes: Float[Tensor, "k d"]

    @classmethod
    def of_labels(
        cls, rows: Float[Tensor, "n d"], shuffled: np.ndarray, labels: np.ndarray, norm: float
    ) -> NullVectors:
        """Differences of class means under `shuffled` labels [k, n], of norm `norm`, turned towards the true ones.

        Rows are first centred within their true class: where a concept dominates the variance, the difference of any
        two unequal mixtures of the classes would be the concept itself.
        """
        rows, truth = rows.double(), torch.from_numpy(labels)
        high, low = rows[truth].mean(0), rows[~truth].mean(0)
        within = rows - torch.where(truth[:, None], high, low)
        marks = torch.from_numpy(shuffled.astype(float))
        shares, others = marks / marks.sum(1, keepdim=True), (1 - marks) / (1 - marks).sum(1, keepdim=True)
        directions = torch.nn.functional.normalize((shares - others) @ within, dim=1)
        directions = directions * torch.where((high - low) @ directions.T < 0, -1.0, 1.0)[:, None]
        targets = ((shares + others) @ rows / 2 * directions).sum(1)
        return cls(directions.float(), targets.float(), (norm * directions).float())


@method("used", verb="measure", needs="model")
def used(
    model: TextModel,
    vector: ConceptVector,
    *,
    prompts: Sequence[Input],
    neutral: Sequence[str],
    positives: Sequence[Input],
    negatives: Sequence[Input],
    continuations: Sequence[Continuation],
    nulls: NullVectors,
    after: str = "",
    confirmed: int = CONFIRMED,
    seed: int = 0,
    progress: Progress = silent,
) -> Used:
    """Whether `model` uses the concept of `vector`.

    Parameters
    ----------
    model
        Best in float32: in bfloat16 rounding is of the order of small effects.
    prompts, neutral
        Neutral openings that are continued, and neutral texts on which the divergence is measured.
    positives, negatives
        Held-out inputs with and without the concept, for ablation.
    continuations
        Held-out texts of both classes.
    nulls
        Shuffled-label vectors at the vector's site.
    after
        What stands between an input and a continuation, such as a line break.
    confirmed
        How many of the nulls are run for real at least, those with the largest estimated effects first.
    """
    part = vector.parts[vector.site]
    add = Add(site=vector.site, shift=part.write[0])
    target = -part.intercept if vector.scale_from == "class-means" else part.intercept * 0
    ablate = Ablate(site=vector.site, directions=part.direction, targets=target)
    with progress("does the model use it", 3 + 2 * confirmed) as bar:
        opened = Readout(model, vector.site, _CONTENT, prompts, continuations, after=after)
        linear = opened.linear()
        divergence = Divergence(model, vector.site, neutral)
        curve, by_prompt = _curve(opened, linear.values, divergence, add, seed, bar.advance)
        add_nulls = _add_nulls(opened, linear, nulls, float(by_prompt.mean()), confirmed, bar.advance)
        isotropic = _isotropic(linear, float(part.write.norm()), seed)
        ends = Readout(model, vector.site, _CONTENT, [*positives, *negatives], continuations, after=after)
        gap, closed, ablate_nulls = _ablation(ends, ablate, len(positives), nulls, confirmed, bar.advance)
    slope = _mean_figure(by_prompt, add_nulls, seed, f"slope over strengths -1 to 1, {len(prompts)} neutral prompts")
    fall = _fall_figure(closed, len(positives), ablate_nulls, seed)
    kl = next(point["kl"] for point in curve if point["strength"] == 1.0)
    strong = slope.value > max(add_nulls)
    return Used(
        verdict=("used" if fall.value > max(ablate_nulls) else "steers-only") if strong else "not-shown",
        add=slope,
        ablate=fall,
        kl=Figure(kl, n=divergence.count, how="nats a token on neutral text at strength 1"),
        at_equal_kl=_at_equal_kl(slope.value, kl),
        isotropic=isotropic,
        add_nulls=tuple(add_nulls),
        ablate_nulls=tuple(ablate_nulls),
        curve=tuple(curve),
        gap=gap,
        dtype=str(model.dtype).removeprefix("torch."),
    )


Advance = Callable[[], None]


def _curve(
    readout: Readout, plain: np.ndarray, divergence: Divergence, add: Add, seed: int, advance: Advance
) -> tuple[list[dict[str, float]], np.ndarray]:
    """The readout (`plain` at strength 0) and the divergence at every strength, and each prompt's slope over -1 to 1.

    Intervals are of the change from strength 0, prompt by prompt: prompts differ far more than strengths do.
    """
    values, curve = {}, []
    for strength in STRENGTHS:
        edit = Add(site=add.site, shift=strength * add.shift)
        values[strength] = readout.values(edit) if strength else plain
        low, high = (float(plain.mean()) + end for end in _bootstrap(values[strength] - plain, seed))
        kl = divergence.value(edit) if strength else 0.0
        curve.append(
            {"strength": strength, "readout": float(values[strength].mean()), "low": low, "high": high, "kl": kl}
        )
    advance()
    return curve, (values[1.0] - values[-1.0]) / 2


def _add_nulls(
    readout: Readout, linear: Linear, nulls: NullVectors, reach: float, confirmed: int, advance: Advance
) -> list[float]:
    def effect(index: int) -> float:
        shift = nulls.writes[index]
        up = readout.values(Add(site=readout.split.site, shift=shift))
        down = readout.values(Add(site=readout.split.site, shift=-shift))
        return float((up - down).mean() / 2)

    return _run_for_real(linear.add(nulls.writes).mean(1), effect, reach, confirmed, advance)


def _run_for_real(
    effects: np.ndarray, run: Callable[[int], float], reach: float, least: int, advance: Advance
) -> list[float]:
    """Estimated effects, replaced by real ones where they could decide whether any comes up to `reach`.

    The largest `least` are run, and then others until a real one reaches it or no estimate that is left does: far from
    where the gradient was taken an estimate may be anything.
    """
    highest = -np.inf
    for place, index in enumerate(np.argsort(-effects)):
        if place >= least and (highest >= reach or effects[index] < reach):
            break
        effects[index] = run(int(index))
        highest = max(highest, effects[index])
        if place < least:
            advance()
    return [float(effect) for effect in effects]


def _isotropic(linear: Linear, norm: float, seed: int, count: int = 100) -> Figure:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, linear.gradients.shape[1], generator=generator, dtype=torch.float32)
    effects = np.abs(linear.add(norm * torch.nn.functional.normalize(drawn, dim=1)).mean(1))
    high = float(np.quantile(effects, 0.95))
    return Figure(
        float(np.median(effects)), high=high, n=count, how="random directions of the same norm, size of effect"
    )


def _ablation(
    readout: Readout, ablate: Ablate, positives: int, nulls: NullVectors, confirmed: int, advance: Advance
) -> tuple[float, np.ndarray, list[float]]:
    """The gap before, each input's change of readout under ablation, and the nulls' closing of the gap."""
    linear = readout.linear()
    before = linear.values
    advance()
    closed = before - readout.values(ablate)
    advance()
    changes = -linear.ablate(nulls.directions, nulls.targets)

    def difference(change: np.ndarray) -> np.ndarray:
        return np.asarray(change[..., :positives].mean(-1) - change[..., positives:].mean(-1))

    def effect(index: int) -> float:
        direction, target = nulls.directions[index][None], nulls.targets[index][None]
        return float(
            difference(before - readout.values(Ablate(site=ablate.site, directions=direction, targets=target)))
        )

    effects = _run_for_real(difference(changes), effect, float(difference(closed)), confirmed, advance)
    return float(difference(before)), closed, effects


def _mean_figure(values: np.ndarray, nulls: Sequence[float], seed: int, how: str) -> Figure:
    low, high = _bootstrap(values, seed)
    return Figure(float(values.mean()), low, high, float(np.median(nulls)), len(values), f"{how}, bootstrap")


def _fall_figure(closed: np.ndarray, positives: int, nulls: Sequence[float], seed: int) -> Figure:
    rng = np.random.default_rng(seed)
    one, other = closed[:positives], closed[positives:]
    draws = rng.choice(one, (2000, len(one))).mean(1) - rng.choice(other, (2000, len(other))).mean(1)
    value = float(one.mean() - other.mean())
    low, high = (float(end) for end in np.quantile(draws, [0.025, 0.975]))
    how = "part of the gap between positive and negative inputs that closes, bootstrap over inputs"
    return Figure(value, min(low, value), max(high, value), float(np.median(nulls)), len(closed), how)


def _bootstrap(values: np.ndarray, seed: int) -> tuple[float, float]:
    draws = np.random.default_rng(seed).choice(values, (2000, len(values))).mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return min(float(low), float(values.mean())), max(float(high), float(values.mean()))


def _at_equal_kl(slope: float, kl: float) -> Figure:
    """The effect at a divergence of 0.1: for small strengths the divergence grows with the square of the strength."""
    if kl <= 0:
        return Figure(float("nan"), how="adding changed nothing on neutral text")
    return Figure(slope * float(np.sqrt(EQUAL_KL / kl)), how=f"effect of adding at {EQUAL_KL} nats a token")
