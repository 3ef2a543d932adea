"""Activations moved towards one that was read elsewhere: a patch, and any part of the way to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.edits.algebra import Edit, _wide
from covec.models.plan import Pass


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Blend(Edit):
    """h + share (value - h): at a share of 1 the value itself, to the bit, whatever h was."""

    value: Float[Tensor, "d"]
    share: float = 1.0

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = _wide(h)
        return torch.lerp(wide, self.value.to(wide.dtype), self.share).to(h.dtype)
