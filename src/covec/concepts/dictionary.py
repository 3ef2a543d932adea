"""Dictionaries: many directions at one site, with the rule that says how much of each an activation holds.

`load_dictionary` reads the folders that SAE Lens writes; methods that discover concepts make dictionaries too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.models.sites import Site

Encoder = Callable[[Float[Tensor, "n d"]], Float[Tensor, "n k"]]


@dataclass(frozen=True, eq=False, repr=False)
class Dictionary:
    """Directions, what they are measured from, and how activations become codes.

    An activation is read as `offset` plus its codes times the directions, plus what the dictionary does not explain.

    Parameters
    ----------
    directions
        What one unit of each code adds [k, d]; of any length and, unlike a subspace's rows, at any angle. Float32.
    encoder
        The rule: activations [n, d] to codes [n, k].
    offset
        What is decoded where all codes are zero [d]; zero where None.
    site, name, model, metadata
        Where it reads, what it is called, and what is known of the model and of the dictionary itself.

    Raises
    ------
    CovecError
        Shapes do not fit, or a number is not finite.
    """

    directions: Float[Tensor, "k d"]
    encoder: Encoder
    offset: Float[Tensor, "d"] | None = None
    site: Site | None = None
    name: str = "dictionary"
    model: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        directions = torch.as_tensor(self.directions).detach().float()
        if directions.ndim != 2 or 0 in directions.shape:
            raise CovecError(f"the directions of a dictionary have shape {list(directions.shape)}; give [k, d]")
        offset = None if self.offset is None else torch.as_tensor(self.offset).detach().float()
        object.__setattr__(self, "directions", directions)
        object.__setattr__(self, "offset", offset)
        if self.origin.shape != directions.shape[1:]:
            raise CovecError(f"the offset has shape {list(self.origin.shape)}; the directions are {self.width} wide")
        if not bool(directions.isfinite().all() and self.origin.isfinite().all()):
            raise CovecError("the dictionary holds a number that is not finite")
        object.__setattr__(self, "site", None if self.site is None else Site.parse(self.site))

    @property
    def width(self) -> int:
        """Width of the site."""
        return int(self.directions.shape[1])

    @property
    def origin(self) -> Float[Tensor, "d"]:
        """What is decoded where all codes are zero."""
        return self.directions.new_zeros(self.width) if self.offset is None else self.offset

    def __len__(self) -> int:
        return len(self.directions)

    def encode(self, activations: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """Codes of activations, computed where the dictionary lies (float32)."""
        rows = torch.as_tensor(activations).to(self.directions.device, torch.float32)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise CovecError(f"{self.name} encodes activations [n, {self.width}], not {list(rows.shape)}")
        return self.encoder(rows)

    def decode(self, codes: Float[Tensor, "n k"]) -> Float[Tensor, "n d"]:
        """What codes stand for (float32)."""
        rows = torch.as_tensor(codes).to(self.directions.device, torch.float32)
        if rows.ndim != 2 or rows.shape[1] != len(self):
            raise CovecError(f"{self.name} decodes codes [n, {len(self)}], not {list(rows.shape)}")
        return rows @ self.directions + self.origin

    def vector(self, atom: int, activations: Float[Tensor, "n d"]) -> ConceptVector:
        """Atom number `atom` as a concept vector, in units of its mean code among the `activations` that hold it.

        Raises
        ------
        CovecError
            There is no such atom, none of the activations holds it, or the dictionary has no site.
        """
        if not -len(self) <= atom < len(self):
            raise CovecError(f"{self.name} has atoms 0 to {len(self) - 1}, not {atom}")
        if self.site is None:
            raise CovecError(f"{self.name} says of no site where it reads: set one, dictionary.at('resid.12')")
        codes = self.encode(activations)[:, atom]
        held = codes[codes != 0]
        if not len(held) or not bool(held.mean() > 0):
            raise CovecError(f"none of these {len(codes)} activations holds atom {atom} of {self.name}: give more")
        direction = self.directions[atom]
        return ConceptVector.from_direction(
            f"{self.name} {atom % len(self)}",
            self.site,
            direction,
            scale=float(held.mean() * direction.norm()),
            intercept=-float(torch.nn.functional.normalize(direction, dim=0) @ self.origin),
            scale_from="codes",
            method="dictionary",
            model=self.model,
        )

    def at(self, site: str | Site) -> Dictionary:
        """The same dictionary, read at `site`."""
        return dataclasses.replace(self, site=Site.parse(site))

    def __repr__(self) -> str:
        place = "" if self.site is None else f" at {self.site}"
        return f"Dictionary({self.name!r}, {len(self)} directions of width {self.width}{place})"


@dataclass(frozen=True, eq=False)
class Gated:
    """The encoder of sparse autoencoders: an affine map, of whose values those above zero are kept.

    A code is `max(0, gain * p + bias)` of the projection `p = (h - shift) @ weight`; 0 where `p + gate` is not above
    zero, and, where `keep` is given, 0 for all but the `keep` largest. JumpReLU is a gate of the bias less the
    threshold; a plain one has no gate.

    Parameters
    ----------
    weight, bias
        [d, k] and [k].
    gain, gate, keep
        [k], [k] and a count, where there are such.
    shift
        What is taken from activations first [d].
    centred
        Whether their mean over features is taken from them before that.
    """

    weight: Float[Tensor, "d k"]
    bias: Float[Tensor, "k"]
    gain: Float[Tensor, "k"] | None = None
    gate: Float[Tensor, "k"] | None = None
    keep: int | None = None
    shift: Float[Tensor, "d"] | None = None
    centred: bool = False

    def __call__(self, activations: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        if self.centred:
            activations = activations - activations.mean(-1, keepdim=True)
        if self.shift is not None:
            activations = activations - self.shift
        projected = activations @ self.weight
        codes = ((projected if self.gain is None else projected * self.gain) + self.bias).clamp_min(0)
        if self.gate is not None:
            codes = codes * (projected + self.gate > 0)
        if self.keep is not None:
            kept = codes.topk(self.keep, dim=-1)
            codes = torch.zeros_like(codes).scatter(-1, kept.indices, kept.values)
        return codes
