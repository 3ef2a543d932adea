"""Truth vectors under context: what evidence in the prompt does to the direction and the length of a concept vector.

A statement's truth vector is the activation where the model is asked for what its label says (support a true statement,
refute a false one) minus the one where it is asked for the opposite. With evidence before the statement it is measured
again. Any other paired differences serve as well: a row of differences a pair, in two conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import t, wilcoxon
from torch import Tensor

from covec.errors import ExamplesError
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.registry import method
from covec.statistics.figure import Figure

TEMPLATE = "{context}Statement: {statement}\nTask: {task} the statement.\nAnswer: [choice"
TASKS = "support", "refute"


@dataclass(frozen=True)
class ContextChange:
    """What another condition does to paired differences.

    `angle` is in degrees, between the mean vectors of disjoint halves of the pairs, one half in each condition; its
    null is the angle of two halves in the first condition, which is all noise. `theta` [degrees] and `ratio` (of
    squared lengths) are the means of the paper's figures a pair, which are `thetas` and `ratios` [k]; `p_ratio` is of
    Wilcoxon's test that ratios lie about 1. `growth` is the ratio of the squared lengths of the mean vectors, both
    measured across halves, so that noise does not lengthen them. `lengths` are the mean lengths in the two conditions.
    """

    angle: Figure
    theta: Figure
    ratio: Figure
    growth: Figure
    p_ratio: float
    lengths: tuple[float, float]
    thetas: Float[np.ndarray, "k"]
    ratios: Float[np.ndarray, "k"]

    @property
    def figure(self) -> Figure:
        """The angle: of the three the one with noise taken care of."""
        return self.angle


@method("truth-vector-context", verb="measure", card="truth-vector-context")
def truth_vector_context(
    without: Float[Tensor, "k d"], context: Float[Tensor, "k d"], *, halvings: int = 50, seed: int = 0
) -> ContextChange:
    """How far does a context turn and stretch a concept vector? Angle and ratio of lengths, beside those of noise.

    Parameters
    ----------
    without, context
        The differences of the same pairs at one site, in the two conditions: `truth_vectors` makes them.
    halvings
        How often the pairs are halved.

    Raises
    ------
    ExamplesError
        Shapes differ, there are fewer than four pairs, or a difference is zero or not finite.

    References
    ----------
    "How Context Shapes Truth: Geometric Transformations of Statement-level Truth Representations in LLMs",
    arXiv:2601.06599.
    """
    plain, changed = without.double(), context.double()
    if plain.ndim != 2 or plain.shape != changed.shape or len(plain) < 4:
        raise ExamplesError(
            f"differences of shapes {list(without.shape)} and {list(context.shape)}: give the same four pairs or more, "
            "[k, d], in both conditions"
        )
    squares = torch.stack([plain, changed]).square().sum(2)
    if not torch.isfinite(squares).all() or not squares.all():
        place = int((~torch.isfinite(squares) | (squares == 0)).any(0).nonzero()[0])
        raise ExamplesError(f"pair {place + 1} has a difference that is zero or not finite: leave it out")
    thetas = _angles(plain, changed).numpy()
    ratios = (squares[1] / squares[0]).numpy()
    same = np.allclose(ratios, 1)
    lengths = squares.sqrt().mean(1).tolist()
    angle, growth = _across_halves(plain, changed, halvings, seed)
    return ContextChange(
        angle=angle,
        growth=growth,
        theta=_mean(thetas, 90.0, "degrees a pair, mean; null: random directions"),
        ratio=_mean(ratios, 1.0, "squared length over that without context, a pair, mean"),
        p_ratio=1.0 if same else float(wilcoxon(ratios - 1).pvalue),
        lengths=(lengths[0], lengths[1]),
        thetas=thetas,
        ratios=ratios,
    )


def truth_vectors(
    model: TextModel,
    statements: Sequence[str],
    labels: Sequence[bool],
    contexts: Sequence[str] | None = None,
    *,
    sites: Any = "resid.*",
    template: str = TEMPLATE,
    tasks: tuple[str, str] = TASKS,
) -> dict[Site, Float[Tensor, "k d"]]:
    """Of every statement the activation of the prompt that asks for what its label says, minus the other's.

    Prompts end alike, with or without context, so that the last token is the same everywhere. The instructions' own
    words cancel where there are as many true statements as false ones.

    Parameters
    ----------
    contexts
        What stands before each statement, on a line of its own; None for nothing.
    template, tasks
        How a prompt is made of `context`, `statement` and `task`, and the words for what is right of a true statement
        and of a false one.

    Raises
    ------
    ExamplesError
        Labels or contexts are not one a statement, or statements are all true or all false.
    """
    truth = np.asarray(labels, dtype=bool)
    given = [""] * len(statements) if contexts is None else [f"{context}\n" for context in contexts]
    if not len(statements) == len(truth) == len(given):
        raise ExamplesError(f"{len(statements)} statements, {len(truth)} labels, {len(given)} contexts: give one each")
    if truth.all() or not truth.any():
        raise ExamplesError("statements are all true or all false: give as many of each")
    prompts = [
        template.format(context=before, statement=statement, task=task)
        for task in tasks
        for before, statement in zip(given, statements, strict=True)
    ]
    rows, signs = model.capture(prompts, sites, "last"), torch.from_numpy(np.where(truth, 1.0, -1.0)).float()
    return {site: signs[:, None] * (each[: len(truth)] - each[len(truth) :]) for site, each in rows.rows.items()}


def _angles(one: Tensor, other: Tensor) -> Tensor:
    """Degrees between vectors along the last axis."""
    return torch.rad2deg(torch.arccos(torch.cosine_similarity(one, other, dim=-1).clamp(-1, 1)))


def _across_halves(plain: Tensor, changed: Tensor, halvings: int, seed: int) -> tuple[Figure, Figure]:
    """The angle between the mean vectors of two halves, and the ratio of the squared lengths."""
    rng, count = np.random.default_rng(seed), len(plain)
    first = np.stack([rng.permutation(count) < count // 2 for _ in range(halvings)])
    half, rest = (torch.from_numpy(chosen / chosen.sum(1, keepdims=True)) for chosen in (first, ~first))
    angles, noise = _angles(half @ plain, rest @ changed).numpy(), _angles(half @ plain, rest @ plain).numpy()
    squares = [((half @ one) * (rest @ one)).sum(1).numpy() for one in (plain, changed)]
    how = f"of mean vectors of disjoint halves, 95% of {halvings} halvings"
    angle = _spread(angles, float(noise.mean()), count, f"degrees {how}; null: two halves without the context")
    return angle, _spread(squares[1] / squares[0], 1.0, count, f"squared length over that without context, {how}")


def _spread(values: np.ndarray, null: float, count: int, how: str) -> Figure:
    low, high = (float(end) for end in np.quantile(values, [0.025, 0.975]))
    middle = float(values.mean())
    return Figure(middle, min(low, middle), max(high, middle), null, count, how)


def _mean(values: np.ndarray, null: float | None, how: str) -> Figure:
    middle, reach = float(values.mean()), float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5)
    return Figure(middle, middle - reach, middle + reach, null, len(values), f"{how}, Student's t")
