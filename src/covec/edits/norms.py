"""Edits that leave an activation as long as it was."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.edits.algebra import Edit, _wide
from covec.models.plan import Pass


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AddKeepingNorm(Edit):
    """h + shift, brought back to the length of h: the direction turns, and a large shift replaces it."""

    shift: Float[Tensor, "d"]

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = _wide(h)
        moved = wide + self.shift.to(wide.dtype)
        length = moved.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(wide.dtype).tiny)
        return (moved * (wide.norm(dim=-1, keepdim=True) / length)).to(h.dtype)
