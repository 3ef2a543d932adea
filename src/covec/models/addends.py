"""Whether `attn.k` and `mlp.k` are what block k adds to the stream, as their names say.

Structure does not tell it: a block may multiply or norm what a sublayer gives on its way into the stream, or weigh the
stream itself. So it is measured, once a model, where such a site is first read or edited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from contextvars import Context

import torch
from torch import Tensor, nn

from covec.models.anatomy import Anatomy, Tap
from covec.models.sites import Site
from covec.models.taps import hook, uncompiled

SUBLAYERS = ("attn", "mixer", "mlp")
_LIMITS = {torch.float32: 1e-3, torch.float64: 1e-3}  # of a row's largest entry
_ROUNDING = 3e-2  # the same in lower precision


def sublayers(block: int, sites: Collection[Site]) -> list[Site]:
    """The sites whose sum a block adds to the stream; none where one of them may be missing."""
    parts = [site for kind in SUBLAYERS if (site := Site(kind, block)) in sites]
    kinds = {site.kind for site in parts}
    return parts if kinds == {"mixer"} or (len(kinds) > 1 and "mlp" in kinds) else []


def straying(anatomy: Anatomy, ids: Sequence[int]) -> int | None:
    """The first block whose output is not what it takes plus what its sublayers give; None where there is none.

    Blocks that norm the stream itself after they add to it (BERT's) are left out, as are those of which a sublayer is
    no site. It is measured on the token ids `ids`, outside all scopes: no edit acts.
    """
    summed = {block: parts for block in range(len(anatomy.blocks)) if (parts := sublayers(block, anatomy.taps))}
    heard: dict[tuple[int, object], Tensor] = {}
    device = next(anatomy.body.parameters()).device
    with ExitStack() as hooks, torch.no_grad(), uncompiled():
        for block, parts in summed.items():
            for key, tap in _listening(anatomy, block, parts):

                def keep(hidden: Tensor, key: tuple[int, object] = (block, key), tap: Tap = tap) -> None:
                    heard[key] = tap.read(hidden).flatten(0, -2).to("cpu", copy=True)  # blocks may add in place

                hooks.callback(hook(tap.module, tap.end, keep).remove)
        Context().run(lambda: anatomy.body(input_ids=torch.tensor([list(ids)], device=device)))
    return next((block for block, parts in summed.items() if _strays(block, parts, heard)), None)


def _listening(anatomy: Anatomy, block: int, parts: Sequence[Site]) -> Iterator[tuple[object, Tap]]:
    """What tells how a block adds: both its ends, its sublayers, and all of its norms."""
    module = anatomy.blocks[block]
    yield "in", Tap(module, "in")
    yield "out", Tap(module)
    yield from ((part, anatomy.taps[part]) for part in parts)
    yield from ((part, Tap(part)) for name, part in module.named_modules() if "norm" in f"{name} {type(part)}".lower())


def _strays(block: int, parts: Sequence[Site], heard: Mapping[tuple[int, object], Tensor]) -> bool:
    after = heard[block, "out"]
    norms = [rows for (of, key), rows in heard.items() if of == block and isinstance(key, nn.Module)]
    if any(torch.equal(rows, after) for rows in norms):
        return False
    expected = heard[block, "in"].float() + torch.stack([heard[block, part].float() for part in parts]).sum(0)
    apart = (after.float() - expected).abs().amax(-1) / after.float().abs().amax(-1)
    return not bool((apart <= _LIMITS.get(after.dtype, _ROUNDING)).all())
