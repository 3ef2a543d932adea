"""Edits as affine maps: those that weights can hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import torch
from jaxtyping import Float
from torch import Tensor

from covec.edits.algebra import Ablate, Add, Edit, Replace, SetCoordinate
from covec.errors import ModelError

_NEAR = 1e-4  # of a length: what rounding leaves of what was projected away


@dataclass(frozen=True)
class Affine:
    """The map `h + left (right h) + shift`, in float64: of low rank, as most edits are."""

    left: Float[Tensor, "d r"]
    right: Float[Tensor, "r d"]
    shift: Float[Tensor, "d"]

    @property
    def moves(self) -> bool:
        """Whether it does more than add a constant."""
        return bool(self.left.any()) and bool(self.right.any())

    def turn(self, columns: Float[Tensor, "d m"]) -> Float[Tensor, "d m"]:
        """The columns under its linear part."""
        return columns + self.left @ (self.right @ columns)

    def then(self, other: Affine) -> Affine:
        """Itself, and after it `other`."""
        left = torch.cat([self.left + other.left @ (other.right @ self.left), other.left], 1)
        shift = other.turn(self.shift[:, None])[:, 0] + other.shift
        return Affine(left, torch.cat([self.right, other.right]), shift)

    def kept_by(self, other: Affine) -> bool:
        """Whether the linear part of `other` leaves whatever this map gives as it is."""
        read = other.right + (other.right @ self.left) @ self.right  # what `other` reads of h, behind this map
        constant = other.right @ self.shift
        return bool(read.norm() <= _NEAR * other.right.norm()) and bool(
            constant.norm() <= _NEAR * other.right.norm() * self.shift.norm()
        )


@singledispatch
def affine(edit: Edit) -> Affine:
    """The affine map that `edit` is; `ModelError` where it is none. Other kinds of edits register theirs."""
    raise ModelError(
        f"{type(edit).__name__} at {edit.site} is no affine map, and weights hold no other: use it in a scope"
    )


@affine.register
def _(edit: Add) -> Affine:
    shift = edit.shift.detach().double().cpu()
    return Affine(shift.new_zeros(len(shift), 0), shift.new_zeros(0, len(shift)), shift)


@affine.register(Ablate)
@affine.register(SetCoordinate)
def _(edit: Ablate | SetCoordinate) -> Affine:
    rows = edit.directions.detach().double().cpu()
    return Affine(-rows.T, rows, edit.targets.detach().double().cpu() @ rows)


@affine.register
def _(edit: Replace) -> Affine:
    value = edit.value.detach().double().cpu()
    whole = torch.eye(len(value), dtype=value.dtype)
    return Affine(-whole, whole, value)
