"""How strong to steer: the largest effect within a budget of damage, measured and not guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from covec.activations.fluency import surprise
from covec.concepts.packaged import neutral_prompts
from covec.concepts.vector import ConceptVector
from covec.edits.divergence import Drift
from covec.edits.dose import NEAR, Family, doses
from covec.edits.scope import flatten
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.statistics.figure import Figure
from covec.statistics.means import mean_figure
from covec.steer._steering import Steering

Effect = Callable[[Sequence[str]], Float[np.ndarray, "n"]]  # how much of the concept each text shows

SHARES = (0.25, 0.5, 0.7, 0.85, 1.0)  # of the strength that spends the whole budget
_PROMPTS, _TOKENS = 16, 24


@dataclass(frozen=True)
class Budget:
    """The most damage that an effect may cost.

    Parameters
    ----------
    nats
        Kullback-Leibler divergence a token on neutral text, from the unsteered model.
    perplexity
        That of what is written, under the unsteered model, as a multiple of what it is without steering.
    """

    nats: float = 0.3
    perplexity: float = 2.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.nats) and self.nats > 0):
            raise CovecError(f"a budget of divergence is a number of nats a token above 0, not {self.nats}")
        if not (math.isfinite(self.perplexity) and self.perplexity >= 1):
            raise CovecError(f"a budget of perplexity is a multiple of the unsteered one from 1, not {self.perplexity}")


@dataclass(frozen=True)
class Tried:
    """One strength: what it gains of the concept, and what that costs.

    `gain` is the mean over prompts of the effect less the unsteered one; `within` whether the cost is in the budget.
    """

    strength: float
    gain: Figure
    nats: float
    perplexity: float
    within: bool
    text: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**vars(self), "gain": self.gain.to_json()}


@dataclass(frozen=True)
class StrengthCurve:
    """What strengths bring and cost; `strength` is the one that brings most within the budget."""

    strength: float
    curve: tuple[Tried, ...]
    budget: Budget

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"strength": self.strength, "budget": vars(self.budget), "curve": [one.to_json() for one in self.curve]}

    def __str__(self) -> str:
        lines = [f"{'strength':>10}  {'gain':<24}{'KL a token':>10}{'perplexity':>12}"]
        for one in self.curve:
            mark = " <- chosen" if one.strength == self.strength else "" if one.within else " over budget"
            gain = str(one.gain).partition(", n")[0]
            lines.append(f"{one.strength:>+10.3g}  {gain:<24}{one.nats:>10.3f}{one.perplexity:>11.2f}x{mark}")
        return "\n".join(lines)


def strength(
    model: TextModel,
    what: ConceptVector | Steering | Family,
    *,
    budget: Budget | None = None,
    effect: Effect | None = None,
    prompts: Sequence[str] | None = None,
    neutral: Sequence[str] | None = None,
    max_new_tokens: int = _TOKENS,
    towards: int = 1,
    force: bool = False,
    progress: Progress = silent,
) -> StrengthCurve:
    """The strength with the largest effect within a budget of damage, and the curve of both.

    First the strength is found that spends the whole budget of divergence on neutral text. Shares of it then write to
    validation prompts, all in one batch, and what they write is judged.

    Parameters
    ----------
    what
        A concept vector, which is added; a fitted way to steer; or a function from a strength to edits.
    effect
        Rates texts, more being more of the concept. Left out, the unsteered model reads them with the vector itself.
    prompts
        What to continue; 16 packaged openings that lean nowhere unless given.
    neutral
        Texts that divergence is measured on; packaged ones that lean nowhere unless given.
    towards
        1 for more of the concept, -1 for less.
    force
        Take another model's vector.

    Raises
    ------
    CovecError
        Nothing within the budget brings more of the concept (or less, where that was asked for).
    """
    if towards not in (1, -1):
        raise CovecError(f"steer towards 1 (more of the concept) or -1 (less), not {towards}")
    budget, family = budget or Budget(), _family(what, force)
    judge = effect or reading(model, _vectors(what), force=force)
    prompts = list(neutral_prompts()[1::2][:_PROMPTS] if prompts is None else prompts)
    with progress("looking for a strength", 3) as bar:
        drift = Drift(model, neutral)
        (whole,) = doses(drift, lambda size: family(towards * size), [budget.nats])
        bar.advance()
        sizes = [towards * whole.strength * share for share in SHARES]
        edits = [(), *(family(size) for size in sizes)]
        nats = drift.values(edits)
        asked = [prompt for _ in edits for prompt in prompts]
        each = [made for made in edits for _ in prompts]
        written = model.generate(asked, edits=each, max_new_tokens=max_new_tokens)
        bar.advance()
        rated = judge([prompt + text for prompt, text in zip(asked, written, strict=True)])
        lost, counts = surprise(model, asked, written)
        bar.advance()
    shape = (len(edits), len(prompts))
    perplexity = np.exp(lost.reshape(shape).sum(1) / np.maximum(counts.reshape(shape).sum(1), 1))
    texts = [written[place * len(prompts)] for place in range(len(edits))]
    curve = _curve(sizes, rated.reshape(shape), nats, perplexity / perplexity[0], texts, budget)
    return StrengthCurve(_chosen(curve, towards, budget), curve, budget)


def _curve(
    sizes: Sequence[float],
    rated: Float[np.ndarray, "k_plus_1 prompts"],
    nats: Float[np.ndarray, "k_plus_1"],
    perplexity: Float[np.ndarray, "k_plus_1"],
    texts: Sequence[str],
    budget: Budget,
) -> tuple[Tried, ...]:
    """What each strength brings and costs; the first row of everything is that of no edit."""
    how = f"change of the effect, mean over {rated.shape[1]} prompts"
    within = (nats <= budget.nats * (1 + NEAR)) & (perplexity <= budget.perplexity)
    return tuple(
        Tried(
            size, mean_figure(rated[place] - rated[0], how, null=0.0), float(nats[place]), float(perplexity[place]),
            bool(within[place]), texts[place],
        )
        for place, size in enumerate(sizes, 1)
    )  # fmt: skip


def _chosen(curve: Sequence[Tried], towards: int, budget: Budget) -> float:
    within = [one for one in curve if one.within]
    best = max(within, key=lambda one: towards * one.gain.value, default=None)
    if best is None or towards * best.gain.value <= 0:
        raise CovecError(
            f"no strength up to {curve[-1].strength:.3g} brings {'more' if towards > 0 else 'less'} of the concept "
            f"within {budget.nats:g} nats a token and {budget.perplexity:g} times the perplexity: allow more, or steer "
            "with another vector"
        )
    return best.strength


def _family(what: ConceptVector | Steering | Family, force: bool) -> Family:
    if isinstance(what, ConceptVector):
        made: Family = what.add
    else:
        made = what.edits if isinstance(what, Steering) else what
    if not force:
        return made
    return lambda size: tuple(replace(edit, fingerprint=None) for edit in flatten([made(size)]))


def _vectors(what: ConceptVector | Steering | Family) -> list[ConceptVector]:
    return [what] if isinstance(what, ConceptVector) else list(getattr(what, "vectors", {}).values())


def reading(model: TextModel, vectors: Sequence[ConceptVector], *, force: bool = False) -> Effect:
    """What the unsteered model reads in texts with the vectors that steer: their mean score over all tokens."""
    means = [replace(one, aggregator="mean") for one in vectors if one.kind == "direction"]
    readers = [one.at(site) for one in means for site in one.sites]
    if not readers:
        raise CovecError("what is steered with reads nothing, so that its effect is not known: give one as `effect`")

    def effect(texts: Sequence[str]) -> Float[np.ndarray, "n"]:
        found = model.detect(readers, list(texts), tokens=False, force=force)
        return np.array([one.score for one in found]).reshape(len(texts), len(readers)).mean(1)

    return effect
