"""Functional welfare's claim: reward opposes two outcomes in a network, and language has the axis already (2605.30232).

A small policy that learned a maze of tiles with meaningless names by REINFORCE, beside the same one before training:
the vectors of its two outcomes are taken from the path alone, since vectors against the mean of all others are opposed
by construction. Walks end on either outcome or on the path, with as many of each length and each last move.
Permutations of the outcomes stay within walks of one length and one last move.

And the embedded model: forty pairs of sentences, of which every other one gives the vector of success. Where the card
leaves a choice: blocks are those of the paper, 22 of 36, so the middle of three and block 18 of thirty; the vector is
added at every token with strengths of 1 and -1, and random directions have its length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import pearsonr
from torch import Tensor

from covec.activations.answers import Answered
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.edits.algebra import Add
from covec.find.functional_welfare import FunctionalWelfare, Opposition, opposition
from covec.models.load import load
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds import maze
from covec.worlds.outcomes import PROMPTS, outcomes

OPPOSED, CORRELATED = 0.0, 0.6  # the numbers of the rules
POLICY_SITE, MODEL_SITE = Site("resid", 1), Site("resid", 18)
_BAD, _GOOD, _NEUTRAL = "mold", "gold", "path"


@dataclass(frozen=True)
class _Setting:
    """Steps of training, walks a length and outcome, lengths, walkers, permutations, and random directions."""

    steps: int = maze.STEPS
    walks: int = 160
    turns: tuple[int, ...] = tuple(range(1, maze.TURNS + 1))
    walkers: int = 512
    permutations: int = 20
    randoms: int = 20


REDUCED = _Setting(2, 8, (1, 3), 8, 5, 3)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    return Claim("functional-welfare", (*_maze(setting), *_language(setting)))


def _maze(setting: _Setting) -> Iterator[ClaimFigure]:
    """The two outcomes in the policy, before and after its training."""
    naive, policy = maze.naive(), maze.trained(setting.steps)
    before, after = (_opposed(model, setting) for model in (naive, policy))
    site = POLICY_SITE
    value = after[site].figure
    yield shown("reward of a walk, beside that before training", *(_reward(one, setting) for one in (policy, naive)))
    rule = f"at most {OPPOSED:g}, and below the baseline, that before training"
    fell = value.value <= OPPOSED and value.value < before[site].cosine
    yield ClaimFigure(f"cosine of the two outcomes from the path, {site}", value, before[site].figure, rule, fell)
    lowest = Figure(float(after[site].dealt.min()), how="the lowest of the permutations")
    yield ClaimFigure("the same, against permutations", value, lowest, "below the baseline", after[site].below_all)
    for other in after:
        if other != site:
            yield shown(f"cosine at {other}, beside that before training", after[other].figure, before[other].figure)


def _opposed(model: TextModel, setting: _Setting) -> dict[Site, Opposition]:
    """The cosine of the two outcomes after each block, from walks that nobody chose."""
    texts: list[str] = []
    kinds: list[str] = []
    cells: list[str] = []
    for turns in setting.turns:
        for place, outcome in enumerate(maze.OUTCOMES):
            found = maze.ending_on(outcome, setting.walks, turns, seed=len(maze.OUTCOMES) * turns + place)
            texts, kinds = [*texts, *found], [*kinds, *[outcome] * len(found)]
            cells += [f"{turns} {text.split()[-1]}" for text in found]
    rows = model.capture(texts, "resid.*", "last")
    asked = partial(opposition, within=cells, permutations=setting.permutations)
    return {site: asked(rows[site], kinds, _BAD, _GOOD, _NEUTRAL) for site in rows.sites}


def _reward(policy: TextModel, setting: _Setting) -> Figure:
    generator = torch.Generator().manual_seed(2)
    walked = maze.walks(policy, maze.Walkers.drawn(setting.walkers, generator), generator)
    return mean_figure(walked.returns.numpy(), "over walks in fresh mazes")


def _language(setting: _Setting) -> Iterator[ClaimFigure]:
    """The vector of success in the embedded model: what it reads of other sentences, and what it does to words."""
    model, examples, site = load("smollm2-135m"), outcomes(), MODEL_SITE
    rows = model.capture(examples.inputs, site, "last")[site]
    train = np.arange(len(examples)) // 2 % 2 == 0
    kinds = [kind for kind, one in zip(examples.extra["category"], train, strict=True) if one]
    finder = FunctionalWelfare().fit(rows[train], examples.labels[train], category=kinds)
    scores, labels = finder.decision_function(rows[~train]), examples.labels[~train]
    found = pearsonr(scores, labels)
    low, high = found.confidence_interval()
    read = Figure(float(found.statistic), low, high, 0.0, len(labels), f"at {site}, sentences of other templates")
    name = "correlation of the projection with the outcome"
    yield ClaimFigure(name, read, CORRELATED, "at least the baseline", read.value >= CORRELATED)
    write = finder.mean_positive_ - finder.mean_negative_
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(setting.randoms, len(write), generator=generator)
    moved = _moved(model, site, [write, *(drawn / drawn.norm(dim=1, keepdim=True) * write.norm())])
    own = mean_figure(
        moved[0], "log-odds of succeeded against failed, at strength 1 less at -1, over prompts", null=0.0
    )
    yield above("rise of succeeded against failed along the vector", own, 0.0)
    sizes = np.abs(moved[1:].mean(1))
    most = Figure(
        float(sizes.max()), n=len(sizes), how=f"the largest size of random directions, median {np.median(sizes):.2f}"
    )
    yield above("the same, against random directions", own, most)


def _moved(model: TextModel, site: Site, shifts: Sequence[Float[Tensor, "d"]]) -> Float[np.ndarray, "shifts prompts"]:
    """How far each shift, less its opposite, moves the log-odds of `succeeded` against `failed` behind each prompt."""
    asked = [Answered.of(model, PROMPTS, [word] * len(PROMPTS)) for word in ("succeeded", "failed")]
    found = []
    for shift in shifts:
        odds = []
        for sign in (1.0, -1.0):
            with model.edit(Add(site=site, shift=sign * shift)):
                good, bad = (one.outcome().log_probability for one in asked)
            odds.append((good - bad).double().numpy())
        found.append(odds[0] - odds[1])
    return np.stack(found)
