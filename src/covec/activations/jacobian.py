"""Jacobians of the stream: how what stands at later tokens and sites moves with the earlier activations of one token.

The product of a vector and a Jacobian is a backward pass. Many run at once, as rows of a batch in which the text stands
as often, and one set of them, from one target, serves every source below it. What comes before the token cannot depend
on it, so that the pass begins there, behind cached keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.capture import forward, read
from covec.activations.continuing import Past, can_go_on, check_free, following, go_on, repeat
from covec.errors import ModelError
from covec.models.anatomy import Tap
from covec.models.batching import Batch
from covec.models.sites import Site
from covec.models.taps import by_token, hook
from covec.models.text import TextModel

AT_ONCE = 64  # products of one backward pass


@dataclass(frozen=True)
class Linearised:
    """A target as a linear function of each source, about one text.

    Parameters
    ----------
    jacobians
        How the target moves with each source [s, out, in]; zero where it does not, as behind the target.
    sources, target
        What they are in the text itself, [s, in] and [out]; sources behind the target are not read, and zero.
    """

    jacobians: Float[Tensor, "s out in"]
    sources: Float[Tensor, "s in"]
    target: Float[Tensor, "out"]

    @property
    def offsets(self) -> Float[Tensor, "s out"]:
        """The target less what the Jacobians make of the sources."""
        return self.target - torch.einsum("soi,si->so", self.jacobians, self.sources)


def linearise(
    model: TextModel,
    ids: Sequence[int],
    source: int,
    targets: range,
    sites: Sequence[Site],
    target: Site,
    *,
    at_once: int = AT_ONCE,
) -> Linearised:
    """The mean activation at `target` over the tokens `targets`, by what the token `source` has at each of `sites`.

    Parameters
    ----------
    ids
        Token ids of the text about which it is linear.
    sites
        Where the source is moved; all of one width.
    at_once
        Products of one backward pass.

    Raises
    ------
    ModelError
        A token is not in the text; or edits are in force, which would take the part that is run for the whole text.
    """
    model.check_settled()
    check_free(model)
    if not (0 <= source < len(ids) and 0 <= targets.start < targets.stop <= len(ids)):
        raise ModelError(f"the text has {len(ids)} tokens, among which are not both {source} and {targets}")
    first, past = _before(model, ids[: min(source, targets.start)], at_once)
    row = ids[first : max(source + 1, targets.stop) if model.causal else len(ids)]
    batch = following(model, [row] * at_once, past)
    moved = {site: _Moved(model.anatomy.tap(site), source - first, batch) for site in sites}
    found: list[Tensor] = []

    def keep(site: Site, hidden: Tensor) -> None:
        whole = by_token(hidden, batch.ids.shape, site)
        found.append(whole[:, targets.start - first : targets.stop - first].float().mean(1))

    with torch.enable_grad(), ExitStack() as scope:
        for one in moved.values():
            scope.callback(hook(one.tap.module, one.tap.end, one).remove)
        scope.enter_context(read(model, [target], keep))
        forward(model, batch, **(past or {}))
    return _linear(found[0], list(moved.values()))


def _before(model: TextModel, ids: Sequence[int], rows: int) -> tuple[int, Past | None]:
    """Where the pass begins, and what the tokens before left there."""
    if not ids or not can_go_on(model):
        return 0, None
    with torch.no_grad():
        _, past = go_on(model, [ids])
    repeat(past, rows)
    return len(ids), past


class _Moved:
    """A visit that adds a leaf of zeros to one token of every row, and keeps what the first one has there."""

    def __init__(self, tap: Tap, place: int, batch: Batch) -> None:
        self.tap, self.place, self.batch = tap, place, batch
        self.leaf: Tensor | None = None
        self.value: Tensor | None = None

    def __call__(self, hidden: Tensor) -> Tensor:
        whole = by_token(hidden, self.batch.ids.shape, self.tap)
        part = self.tap.read(whole).clone()
        self.value = part[0, self.place].detach()
        self.leaf = torch.zeros_like(part[:, self.place], requires_grad=True)
        part[:, self.place] += self.leaf
        return self.tap.write(whole, part).reshape(hidden.shape)


def _linear(target: Float[Tensor, "rows out"], moved: Sequence[_Moved]) -> Linearised:
    """Products of one row's target and one row's leaves, as many a backward pass as there are rows."""
    rows, width = target.shape
    leaves = [one.leaf for one in moved if one.leaf is not None]
    found = []
    for start in range(0, width if leaves else 0, rows):
        some = torch.zeros_like(target)
        some[range(min(rows, width - start)), range(start, min(start + rows, width))] = 1
        more = start + rows < width
        products = torch.autograd.grad(target, leaves, some, retain_graph=more, materialize_grads=True)
        found.append(torch.stack(products).float().cpu()[:, : width - start])
    known = iter(torch.cat(found, 1) if leaves else ())
    nothing = torch.zeros(width, width if not leaves else leaves[0].shape[1])
    return Linearised(
        torch.stack([nothing if one.leaf is None else next(known) for one in moved]),
        torch.stack([nothing[0] if one.value is None else one.value.float().cpu() for one in moved]),
        target[0].detach().cpu(),
    )
