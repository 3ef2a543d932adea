"""RepIt: what a category's vector does not share with the vectors of other categories.

"RepIt: Representing Isolated Targets", arXiv:2509.13281.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from covec.errors import ExamplesError
from covec.find._finder import Finder
from covec.find._rows import Rows
from covec.registry import method

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
PARALLEL = 0.25  # sine of the angle to the target below which another category is the target under another name
_RANK = 1e-6  # of the largest singular value, below which a direction of the others is rounding


@method(
    "repit",
    verb="find",
    card="repit",
    requires=("category",),
    cannot={
        "hard direction found": "the loudest noise drowns the difference of the means; whitening is the mend",
        "loud dimension survived": "features are not standardised, as published: a loud dimension wins",
    },
)
class RepIt(Finder):
    """Difference of means from neutral rows, less a share of what lies in the span of other categories.

    Each row has a category; rows without one are neutral, and where there are none the mean of the other categories
    stands in for them. Rows that have the concept are the target (several categories among them are isolated one by one
    and averaged); the others' categories are what it is isolated from. Of the target's part in the span of their
    vectors `share` of the energy is removed, and its length shrinks by sqrt(1 - share). The paper's weights and
    whitening only condition that arithmetic.

    The share is the one with the largest effect on held-out rows of the target among those whose mean effect on other
    categories is within `tolerance`, and where none is, the one with the smallest effect on them. An effect is the mean
    distance from neutral rows along the unit direction, in units of the plain difference of means; the paper counts
    what an edited model says instead.

    Parameters
    ----------
    share
        From 0 (the difference of means) to 1; chosen where None.
    tolerance
        Effect on other categories that is let pass.
    """

    closed_form = True
    details = ("share",)

    def __init__(self, share: float | None = None, tolerance: float = 0.1) -> None:
        self.share, self.tolerance = share, tolerance

    def fit_rows(self, rows: Rows) -> Self:
        if self.share is not None and not 0 <= self.share <= 1:
            raise ExamplesError(f"repit removes a share between 0 and 1, not {self.share}")
        X, parts = rows.X.double(), _Parts.of(rows)
        self.share_ = _chosen(X, parts, rows.folds(), self.tolerance) if self.share is None else self.share
        self.direction_ = _mean_isolated(X, parts, self.share_)
        return self


def isolated(target: Float[Tensor, "d"], others: Float[Tensor, "k d"], share: float) -> Float[Tensor, "d"]:
    """`target` with `share` of the energy of its part in the span of `others` removed, nearly parallel ones left out.

    That span is what it is whatever lengths the others have, so they are brought to one length first.
    """
    others = torch.nn.functional.normalize(others, dim=1)
    along = others @ torch.nn.functional.normalize(target, dim=0)
    others = others[(1 - along.square()).clamp_min(0).sqrt() >= PARALLEL]
    if not len(others):
        return target
    _, sizes, axes = torch.linalg.svd(others, full_matrices=False)
    axes = axes[sizes > _RANK * sizes[0]]
    return target - (1 - math.sqrt(1 - share)) * axes.T @ (axes @ target)


@dataclass(frozen=True)
class _Parts:
    """Which rows are neutral [n], which are of each target category, and which of each other category."""

    neutral: Bool[Tensor, "n"]
    targets: list[Bool[Tensor, "n"]]
    others: list[Bool[Tensor, "n"]]

    @classmethod
    def of(cls, rows: Rows) -> _Parts:
        if "category" not in rows.columns:
            raise ExamplesError("repit needs a category for each row: give category=[...], None for a neutral row")
        masks: dict[tuple[bool, str], Tensor] = {}
        for row, (positive, name) in enumerate(zip(rows.positive.tolist(), rows.columns["category"], strict=True)):
            named = "" if name is None or name != name else str(name).strip()  # NaN is what tables hold where empty
            masks.setdefault((positive, named), torch.zeros_like(rows.positive))[row] = True
        neutral = masks.pop((False, ""), torch.zeros_like(rows.positive))
        targets, others = ([masks[key] for key in sorted(masks) if key[0] is positive] for positive in (True, False))
        return cls(neutral, targets, others)

    @property
    def whole(self) -> bool:
        """Whether rows of each kind are among them."""
        return bool(self.targets and self.others and self.neutral.any())

    def within(self, chosen: Bool[Tensor, "n"]) -> _Parts:
        """The same of the rows `chosen` alone."""
        targets, others = ([mask & chosen for mask in masks] for masks in (self.targets, self.others))
        return _Parts(self.neutral & chosen, *([mask for mask in masks if mask.any()] for masks in (targets, others)))

    def vectors(self, X: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "t d"], Float[Tensor, "k d"]]:
        """Means of the targets and of the others, less that of the neutral rows or else the mean of the others."""
        targets, others = ([X[mask].mean(0) for mask in masks] for masks in (self.targets, self.others))
        origin = X[self.neutral].mean(0) if self.neutral.any() else torch.stack(others).mean(0)
        return torch.stack(targets) - origin, torch.stack([*others, origin])[: len(others)] - origin


def _mean_isolated(X: Float[Tensor, "n d"], parts: _Parts, share: float) -> Float[Tensor, "d"]:
    targets, others = parts.vectors(X)
    return torch.stack([isolated(target, others, share) for target in targets]).mean(0)


def _chosen(X: Float[Tensor, "n d"], parts: _Parts, folds: Int[Tensor, "n"] | None, tolerance: float) -> float:
    """The share whose direction, found without a fold, lies along the target of that fold and along nothing else."""
    if not parts.others:
        return 0.0
    splits = (
        [] if folds is None else [(parts.within(folds != one), parts.within(folds == one)) for one in folds.unique()]
    )
    usable = [pair for pair in splits if all(half.whole for half in pair)]
    effects = []
    for known, unseen in usable or [(parts, parts)]:
        directions = torch.stack([_mean_isolated(X, known, share) for share in SHARES])
        unit = torch.nn.functional.normalize(directions, dim=1)
        on = [(vectors @ unit.T).abs().mean(0) for vectors in unseen.vectors(X)]
        effects.append(torch.stack(on) / directions[0].norm().clamp_min(1e-30))
    on_target, on_others = torch.stack(effects).mean(0)
    within = on_others <= tolerance
    best = torch.where(within, on_target, -torch.inf).argmax() if within.any() else on_others.argmin()
    return SHARES[int(best)]
