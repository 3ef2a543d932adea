"""What attention heads write into the residual stream."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel


def head_write(model: TextModel, site: str | Site, rows: Float[Tensor, "n h"]) -> Float[Tensor, "n d"]:
    """What the head at `site` adds to the stream where it gives `rows` (float32).

    The output projection's bias belongs to no head and is left out; over all heads of a block these sum to `attn.k`
    less that bias.

    Raises
    ------
    ModelError
        The site is no head, or the block norms what its heads give together, so that none adds a part of its own.
    """
    site = Site.parse(site)
    if site.kind != "head":
        raise ModelError(f"{site} is no head: write for example head.3.0")
    tap, whole = model.anatomy.tap(site), model.anatomy.tap(Site("attn", site.block))
    if whole.module is not tap.module:
        raise ModelError(f"block {site.block} norms what its heads give together: none adds a part of its own")
    device = next(tap.module.parameters()).device
    given = torch.zeros(1 + len(rows), _inputs(model, site), dtype=model.dtype, device=device)
    given[1:, tap.columns] = rows.to(given)
    with torch.no_grad():
        written: Tensor = tap.module(given)
    return (whole.scale * (written[1:] - written[0])).to("cpu", torch.float32)


def _inputs(model: TextModel, site: Site) -> int:
    """How many numbers the output projection of a block takes: those of all its heads."""
    taps = (tap for one, tap in model.anatomy.taps.items() if (one.kind, one.block) == ("head", site.block))
    return max(tap.columns.stop for tap in taps if tap.columns is not None)
