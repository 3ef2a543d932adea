"""What a concept vector is at one site: where it reads, what it writes, and in which units."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.errors import CovecError

_ORTHONORMAL = 1e-4  # float32 rows of an orthonormal basis miss unit length and right angles by about 1e-6


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Reading directions and written shifts at one site; float32 on the CPU, copied from what is given.

    Parameters
    ----------
    direction
        Orthonormal rows that read the site [r, d]; no row ([0, d]) where the kind of vector only writes.
    write
        The shift of strength 1.0 for each row [r, d]: it raises the score along its direction by exactly 1.
    intercept, scale
        The score along row i is `(direction[i] . h + intercept[i]) / scale[i]` [r]; scales are positive.
    mean_positive, mean_negative
        Class means on the training rows [d]; None where the method had no classes.

    Raises
    ------
    CovecError
        A shape is wrong, a number is not finite, rows are not orthonormal, a scale is not positive, or `write` does
        not raise the score by 1.
    """

    direction: Float[Tensor, "r d"]
    write: Float[Tensor, "r d"]
    intercept: Float[Tensor, "r"]
    scale: Float[Tensor, "r"]
    mean_positive: Float[Tensor, "d"] | None = None
    mean_negative: Float[Tensor, "d"] | None = None

    def __post_init__(self) -> None:
        for name, value in self.tensors().items():
            object.__setattr__(self, name, _float32(value, name))
        self._check_shapes()
        if not self.reads:
            return
        if not bool((self.scale > 0).all()):
            raise CovecError("scale is not positive: the direction does not point to more of the concept")
        rows, write = self.direction.double(), self.write.double()
        if float((rows @ rows.T - torch.eye(self.rank, device="cpu")).abs().max()) > _ORTHONORMAL:
            raise CovecError("direction does not have orthonormal rows; normalise it first")
        miss = ((rows * write).sum(1) - self.scale).abs()
        if bool((miss > 1e-3 * self.scale + 1e-5 * write.norm(dim=1)).any()):
            raise CovecError("write does not raise the score by 1: direction . write must equal scale")

    @classmethod
    def writing(cls, write: Float[Tensor, "r d"]) -> Part:
        """A part that only writes: a prefix's token embeddings, or a change of weights."""
        write = _float32(write, "write")
        return cls(write.new_zeros(0, *write.shape[1:]), write, write.new_zeros(0), write.new_zeros(0))

    @property
    def rank(self) -> int:
        """Number of rows of `write`."""
        return self.write.shape[0]

    @property
    def width(self) -> int:
        """Width of the site."""
        return self.write.shape[1]

    @property
    def reads(self) -> bool:
        """Whether activations can be scored along it."""
        return len(self.direction) > 0

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by field name; they make up the part in a file."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in named.items() if value is not None}

    def score(self, activations: Float[Tensor, "n d"]) -> Float[Tensor, "n r"]:
        """Scores along every row, computed where the activations lie, in float32."""
        if not self.reads:
            raise CovecError("this kind of concept vector only writes: it has no score")
        rows = torch.as_tensor(activations).float()
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise CovecError(f"scores need activations [n, {self.width}], not {list(rows.shape)}")
        direction, intercept, scale = (t.to(rows.device) for t in (self.direction, self.intercept, self.scale))
        return (rows @ direction.T + intercept) / scale

    def __repr__(self) -> str:
        kind = "reads and writes" if self.reads else "writes"
        return f"Part({kind} {self.rank} row{'' if self.rank == 1 else 's'} of width {self.width})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        mine, theirs = self.tensors(), other.tensors()
        return mine.keys() == theirs.keys() and all(_same_bits(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((self.rank, self.width))

    def _check_shapes(self) -> None:
        if self.write.ndim != 2 or 0 in self.write.shape:
            raise CovecError(f"write has shape {list(self.write.shape)}; it must be [r, d] with r and d at least 1")
        if self.reads and self.rank > self.width:  # found before a product of all pairs of rows fills the memory
            raise CovecError(f"{self.rank} rows of width {self.width} are not orthonormal; keep at most {self.width}")
        rows = self.rank if self.reads else 0
        wanted = {"direction": (rows, self.width), "intercept": (rows,), "scale": (rows,)}
        wanted |= {"mean_positive": (self.width,), "mean_negative": (self.width,)}
        for name, value in self.tensors().items():
            if tuple(value.shape) != wanted.get(name, value.shape):
                raise CovecError(f"{name} has shape {list(value.shape)}; write says {list(wanted[name])}")
        if (self.mean_positive is None) != (self.mean_negative is None):
            raise CovecError("mean_positive and mean_negative come together or not at all")


def _float32(value: Any, name: str) -> Tensor:
    try:
        tensor = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError):
        raise CovecError(f"{name} is not an array of numbers") from None
    if tensor.is_complex():
        raise CovecError(f"{name} is complex; concept vectors are real")
    tensor = tensor.to("cpu", torch.float32, copy=True).contiguous()
    if not bool(tensor.isfinite().all()):
        raise CovecError(f"{name} holds a number that is not finite")
    return tensor


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one.view(torch.int32), other.view(torch.int32)))
