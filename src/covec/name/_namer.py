"""The contract of the verb *name*: what a way to name gets for free once its own weights are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.registry import Entry

Weighted = list[tuple[str, float]]  # texts with their weights, largest first


@dataclass(frozen=True)
class Namer:
    """What all ways to name share: a method defines `weigh`, and the rest comes from here.

    Parameters
    ----------
    count
        How many texts a direction gets on either side, at most.
    texts
        Neutral texts to read; those that come with covec unless given.
    """

    entry: ClassVar[Entry]  # what `@method` registered it as

    count: int = 10
    texts: tuple[str, ...] = ()

    def name(self, model: TextModel, directions: Float[Tensor, "k d"], site: str | Site) -> list[Weighted]:
        """The texts that each direction turns up most, and behind them, with negative weights, those it turns down.

        Parameters
        ----------
        directions
            Of any length, which changes nothing; a direction turned round has the same names with weights negated.
        site
            Where in `model` they are directions.

        Returns
        -------
        list of lists of (text, weight)
            One a direction, largest weight first. The unit of weights is the method's own.

        Raises
        ------
        ModelError
            A direction is zero, not finite or of another width than the site, or the method cannot read this model.
        """
        (address,) = model.select(site)
        rows = _unit(model, directions, address)
        texts, weights = self.weigh(model, rows, address)
        return [_ends(texts, row, self.count) for row in weights]

    def weigh(
        self, model: TextModel, directions: Float[Tensor, "k d"], site: Site
    ) -> tuple[Sequence[str], Float[Tensor, "k texts"]]:
        """Texts, and what each unit direction does to them."""
        raise NotImplementedError


def _unit(model: TextModel, directions: Float[Tensor, "k d"], site: Site) -> Float[Tensor, "k d"]:
    rows = torch.as_tensor(directions).detach().cpu().float()
    width = _width(model, site)
    if rows.ndim != 2 or width not in (None, rows.shape[1]):
        wanted = "[k, d]" if width is None else f"[k, {width}]"
        raise ModelError(f"directions of shape {list(rows.shape)} have no names at {site}: give {wanted}")
    if not torch.isfinite(rows).all() or not rows.any(1).all():
        raise ModelError("a direction that is zero or not finite has no name: find it again, or leave it out")
    return torch.nn.functional.normalize(rows.double(), dim=1).float()


def _width(model: TextModel, site: Site) -> int | None:
    """The width of a site, where it is known without a pass."""
    columns = model.anatomy.tap(site).columns
    if columns is not None:
        return columns.stop - columns.start
    return model.width if site.kind in ("embed", "resid", "attn", "mlp", "mixer", "final") else None


def _ends(texts: Sequence[str], weights: Float[Tensor, "texts"], count: int) -> Weighted:
    """The texts of the largest weights above zero and the smallest below, in the order of their weights."""
    order = torch.argsort(weights, descending=True, stable=True).tolist()
    ends = [place for place in order[:count] if weights[place] > 0]
    ends += [place for place in order[max(len(order) - count, 0) :] if weights[place] < 0]
    return [(texts[place], float(weights[place])) for place in ends]
