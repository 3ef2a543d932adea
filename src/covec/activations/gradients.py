"""Gradients with respect to what a model shows at many sites at once, from one backward pass.

To first order they say what it would do to put other activations there: the gradient times the change (attribution
patching; Nanda 2023, Syed et al. 2023, arXiv:2310.10348).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.capture import forward, selected
from covec.activations.rows import Activations
from covec.errors import ModelError
from covec.models.anatomy import Tap
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.positions import Position, mask
from covec.models.sites import Site
from covec.models.taps import by_token, hook, uncompiled
from covec.models.text import TextModel
from covec.models.tokens import Tokenized

Value = Callable[[Batch, Float[Tensor, "rows tokens d"]], Float[Tensor, "rows"]]


@dataclass(frozen=True)
class Slopes:
    """A value of every input [n], its activations at the sites, and the value's gradient with respect to each."""

    values: Float[Tensor, "n"]
    activations: Activations
    gradients: Activations

    def linear(self, site: Site, instead: Float[Tensor, "d"]) -> Float[Tensor, "n"]:
        """How far every value moves, to first order, where `instead` stands at `site`."""
        return ((instead - self.activations[site]) * self.gradients[site]).sum(1)


def slopes(
    model: TextModel,
    tokens: Sequence[Tokenized],
    sites: str | Site | Sequence[str | Site],
    position: str | Position,
    value: Value,
) -> Slopes:
    """Values of inputs, with their gradients at `sites`.

    Parameters
    ----------
    position
        One token an input, such as `last`.
    value
        Of a batch and the body's last hidden states, one number a row.

    Raises
    ------
    ModelError
        The position is not one token of every input.
    """
    model.check_settled()
    addresses, where = model.select(sites), Position.parse(position)
    if not where.single or where.pool != "none":
        raise ModelError(f"gradients are taken at one token an input, and {where} is more: read 'last'")
    for row, item in enumerate(tokens):
        selected(where, item.layout, f"input {row + 1}")
    values = torch.empty(len(tokens), dtype=torch.float32)
    kept: tuple[dict[Site, Tensor], dict[Site, Tensor]] = {}, {}
    for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
        batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
        one = _Pass(model, batch, addresses, where)
        values[list(rows)] = one.run(value).to("cpu", torch.float32)
        for found, new in zip(kept, (one.activations, one.gradients), strict=True):
            for site, some in new.items():
                whole = found.setdefault(site, torch.empty(len(tokens), some.shape[1], dtype=torch.float32))
                whole[list(rows)] = some.to("cpu", torch.float32)
    ordered = [{site: found[site] for site in addresses} for found in kept]
    return Slopes(values, *(Activations(rows, where) for rows in ordered))


class _Pass:
    """One batch forwards and backwards, with a leaf of zeros added where each of the sites' modules is read."""

    def __init__(self, model: TextModel, batch: Batch, sites: Sequence[Site], position: Position) -> None:
        self.model, self.batch, self.sites = model, batch, sites
        self.taps = {site: model.anatomy.tap(site) for site in sites}
        self.columns = torch.tensor([int(mask(position, layout).argmax()) for layout in batch.layouts])
        self.seen: dict[tuple[object, str], Tensor] = {}
        self.leaves: dict[tuple[object, str], Tensor] = {}
        self.activations: dict[Site, Float[Tensor, "rows d"]] = {}
        self.gradients: dict[Site, Float[Tensor, "rows d"]] = {}

    def run(self, value: Value) -> Float[Tensor, "rows"]:
        """The values; what it saw on the way is in its fields."""
        with torch.enable_grad(), uncompiled(), ExitStack() as hooks:
            for tap in {_key(tap): tap for tap in self.taps.values()}.values():
                hooks.callback(hook(tap.module, tap.end, self._visit(tap)).remove)
            found = value(self.batch, forward(self.model, self.batch)[0])
            gradients = torch.autograd.grad(found.sum(), list(self.leaves.values()))
        by_end = dict(zip(self.leaves, gradients, strict=True))
        for site, tap in self.taps.items():
            self.activations[site] = tap.read(self.seen[_key(tap)])
            # What is at the site is `scale` times what its module gives, so the slope is that much smaller.
            self.gradients[site] = tap.read(by_end[_key(tap)]) / tap.scale**2
        return found.detach()

    def _visit(self, tap: Tap) -> Callable[[Tensor], Tensor]:
        def see(given: Tensor) -> Tensor:
            whole = by_token(given, self.batch.ids.shape, tap).clone()
            rows = torch.arange(len(whole), device=whole.device), self.columns.to(whole.device)
            leaf = torch.zeros_like(whole[rows], requires_grad=True)
            self.seen[_key(tap)], self.leaves[_key(tap)] = whole[rows].detach(), leaf
            whole[rows] = whole[rows] + leaf
            return whole.reshape(given.shape)

        return see


def _key(tap: Tap) -> tuple[object, str]:
    return tap.module, tap.end
