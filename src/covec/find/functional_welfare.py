"""Functional welfare: the axis from going badly to going well, and whether two outcomes lie at its opposite ends.

"How's it going? Reinforcement learning in language models recruits a functional welfare axis", arXiv:2605.30232. The
words say how activations behave, and nothing about experience.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ExamplesError
from covec.find._finder import Finder
from covec.find._rows import Rows, as_cells
from covec.registry import method
from covec.statistics.figure import Figure

NEUTRAL = ""
AGAINST = ("others", "neutral")


@method(
    "functional-welfare",
    verb="find",
    card="functional-welfare",
    requires=("category",),
    cannot={
        "hard direction found": "the loudest noise drowns the difference of the means; whitening is the mend",
        "loud dimension survived": "features are not standardised, as published: a loud dimension wins",
    },
)
class FunctionalWelfare(Finder):
    """The mean of one outcome less that of the others, each outcome counted once however often it came.

    Rows that have the concept are one outcome; the `category` of the other rows says which outcome theirs is, and where
    there is none the row is neutral. With k outcomes and nothing but noise, two vectors of this kind have a cosine of
    -1 / (k - 1): they are opposed by construction. Against neutral rows it is +1/2 instead, so that opposed vectors say
    something; `opposition` tests it.

    Parameters
    ----------
    against
        `others` (the mean over all other outcomes, the neutral one among them), as published, or `neutral`.
    """

    closed_form = True

    def __init__(self, against: str = "others") -> None:
        self.against = against

    def fit_rows(self, rows: Rows) -> Self:
        if self.against not in AGAINST:
            raise ExamplesError(f"an outcome stands against {' or '.join(AGAINST)}, not {self.against!r}")
        if "category" not in rows.columns:
            raise ExamplesError(
                "functional-welfare needs an outcome for each row: give category=[...], None for a neutral row"
            )
        outcome = np.array([_named(one) for one in rows.columns["category"]])
        positive, X = rows.positive.cpu().numpy(), rows.X.double()
        others = sorted(set(outcome[~positive]))
        if self.against == "neutral":
            if NEUTRAL not in others:
                raise ExamplesError("no row is neutral: leave the category of some empty, or fit against 'others'")
            others = [NEUTRAL]
        means = [X[torch.from_numpy(~positive & (outcome == one))].mean(0) for one in others]
        self.direction_ = X[rows.positive].mean(0) - torch.stack(means).mean(0)
        return self


@dataclass(frozen=True)
class Opposition:
    """The cosine of two outcomes' vectors from a third, and what it is where outcomes are dealt anew [permutations]."""

    cosine: float
    dealt: Float[np.ndarray, "permutations"]
    n: int

    @property
    def figure(self) -> Figure:
        """The cosine, beside the median of those dealt anew."""
        how = f"cosine; null of {len(self.dealt)} permutations of the outcomes, the lowest {self.dealt.min():.2f}"
        return Figure(self.cosine, null=float(np.median(self.dealt)), n=self.n, how=how)

    @property
    def below_all(self) -> bool:
        """Whether it lies below every cosine that chance gave."""
        return bool(self.cosine < self.dealt.min())


def opposition(
    X: Float[Tensor, "n d"],
    outcomes: Sequence[Hashable],
    one: Hashable,
    other: Hashable,
    neutral: Hashable,
    *,
    within: Sequence[Hashable] | None = None,
    permutations: int = 20,
    seed: int = 0,
) -> Opposition:
    """How far two outcomes lie on opposite sides of a neutral one: cos(m_one - m_neutral, m_other - m_neutral).

    Rows that differ by noise alone have a cosine near +1/2, since both vectors share the neutral mean.

    Parameters
    ----------
    outcomes
        That of each row [n]; rows of others than the three are left out.
    within
        The cell of each row [n], where cells are as large for each outcome: permutations stay within them.

    Raises
    ------
    ExamplesError
        There are no rows of one of the three, or no outcome or cell for each row.
    """
    X, named = as_cells(X, 2).double(), list(outcomes)
    cells = [None] * len(X) if within is None else list(within)
    if not len(named) == len(cells) == len(X):
        raise ExamplesError(f"{len(named)} outcomes and {len(cells)} cells for {len(X)} rows: give one each")
    kept = [row for row, outcome in enumerate(named) if outcome in (one, other, neutral)]
    place = {one: 0, other: 1, neutral: 2}
    codes = np.array([place[named[row]] for row in kept], dtype=int)
    if missing := [name for name, code in place.items() if code not in codes]:
        raise ExamplesError(f"there are no rows of the outcome {missing[0]!r}: give some of each of the three")
    if len(place) < 3:
        raise ExamplesError(f"{one!r}, {other!r} and {neutral!r} are not three outcomes: name different ones")
    same = np.unique([str(cells[row]) for row in kept], return_inverse=True)[1].ravel()
    rng, ranked = np.random.default_rng(seed), np.argsort(same, kind="stable")
    dealt = np.stack([codes] * (1 + permutations))  # [1 + permutations, n]
    for row in dealt[1:]:
        row[ranked] = codes[np.lexsort((rng.random(len(codes)), same))]
    shares = torch.from_numpy((dealt[:, None] == np.arange(3)[:, None]) / np.bincount(codes)[:, None])
    means = shares @ X[kept]  # [1 + permutations, 3, d]
    found = torch.cosine_similarity(means[:, 0] - means[:, 2], means[:, 1] - means[:, 2], dim=1).numpy()
    return Opposition(float(found[0]), found[1:], len(kept))


def _named(category: Hashable) -> str:
    """The name of a row's outcome; NaN is what tables hold where a cell is empty."""
    return NEUTRAL if category is None or category != category else str(category).strip()
