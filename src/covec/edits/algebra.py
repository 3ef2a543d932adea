"""The algebra of edits: pure functions on the activations of one site.

An edit is a small frozen dataclass with `apply(h, context) -> h`. It is restricted by a position and a gate, which the
scope applies: `apply` itself sees every token and never changes its input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.vector import ConceptVector, Part
from covec.edits.schedules import Schedule, Unsure
from covec.errors import ModelError
from covec.models.plan import Pass
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

if TYPE_CHECKING:
    from typing import Self

CONTENT = Position("content")


@dataclass(frozen=True, eq=False, repr=False)
class Gate:
    """A detector that lets an edit act only on tokens where it fires.

    It fires where `(direction . h + intercept) / scale` at `site` exceeds `threshold` (with `above=False`: does not).
    The site must not come after the edit's own.
    """

    site: Site
    direction: Float[Tensor, "d"]
    intercept: float
    scale: float
    threshold: float = 0.0
    above: bool = True

    @classmethod
    def of(cls, vector: ConceptVector, threshold: float | None = None, above: bool = True) -> Gate:
        """The gate that fires where `vector` does."""
        level = vector.threshold if threshold is None else threshold
        return cls(vector.site, vector.direction, vector.intercept, vector.scale, level, above)

    def bind(self, model: TextModel, device: torch.device) -> Callable[[Tensor], Tensor]:
        """Where the gate is open [rows, tokens], of activations of `model` on `device`."""
        return replace(self, direction=self.direction.to(device)).fires

    def fires(self, h: Float[Tensor, "rows tokens d"]) -> Tensor:
        """Where the gate is open [rows, tokens]."""
        wide = _wide(h)
        scores = (wide @ self.direction.to(wide.dtype) + self.intercept) / self.scale
        return (scores > self.threshold) == self.above

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    def __hash__(self) -> int:
        return hash((self.site, self.threshold, self.above))

    def __repr__(self) -> str:
        return _shown(self)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Edit:
    """What all edits share: where they act, on which tokens, behind which gate, how much of them, and for which model.

    One that `observes` changes nothing, and sees what all others at its site have left. Edits of one class are equal
    where all their fields are, tensors to the bit.
    """

    observes: ClassVar[bool] = False

    site: Site
    position: Position = CONTENT
    gate: Gate | Unsure | None = None
    schedule: Schedule | None = None
    fingerprint: str | None = None

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        """The edited activations, of every token."""
        raise NotImplementedError

    def prepare(self, device: torch.device, dtype: torch.dtype) -> Self:
        """Itself with its tensors on `device`, called once a call; `dtype` is that of the activations."""
        moved: dict[str, Any] = {
            item.name: value.to(device)
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor)
        }
        return replace(self, **moved)

    @property
    def width(self) -> int | None:
        """Width of the activations it fits: that of its first tensor; None where it has none, and fits any."""
        for item in fields(self):
            if isinstance(value := getattr(self, item.name), Tensor):
                return int(value.shape[-1])
        return None

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    def __hash__(self) -> int:
        return hash((type(self), self.site, self.position))

    def __repr__(self) -> str:
        return _shown(self)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Add(Edit):
    """h + shift."""

    shift: Float[Tensor, "d"]

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        return h + self.shift

    def prepare(self, device: torch.device, dtype: torch.dtype) -> Self:
        shift = self.shift.to(dtype)
        if not torch.isfinite(shift.detach()).all():  # detached: no part of a graph that is recomputed
            kind = str(dtype).removeprefix("torch.")
            raise ModelError(f"the shift at {self.site} does not fit into {kind}: use a smaller strength, or float32")
        return replace(self, shift=shift.to(device))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ablate(Edit):
    """Set the coordinate along each direction to what says nothing: `targets` (a midpoint, or 0 for the projection)."""

    directions: Float[Tensor, "r d"]
    targets: Float[Tensor, "r"]

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        return _move(h, self.directions, self.targets)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SetCoordinate(Edit):
    """Set the coordinate along each direction to `targets`."""

    directions: Float[Tensor, "r d"]
    targets: Float[Tensor, "r"]

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        return _move(h, self.directions, self.targets)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ToProbability(Edit):
    """The smallest shift that brings a probe's probability to a limit, and none where it already keeps it.

    SCAV (arXiv:2404.12038, eq. 3 and 4): along the probe's direction, tokens whose probability exceeds the limit
    (`below=True`) or falls short of it are set to the coordinate at which the probe gives exactly that probability.
    """

    direction: Float[Tensor, "d"]
    coordinate: float
    below: bool = True

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        wide = _wide(h)
        direction = self.direction.to(wide.dtype)
        step = self.coordinate - wide @ direction
        step = step.clamp(max=0.0) if self.below else step.clamp(min=0.0)
        moved = wide + step[..., None] * direction
        return torch.where((step != 0)[..., None], moved.to(h.dtype), h)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Replace(Edit):
    """Put `value` in the place of the activation, as one that was read elsewhere."""

    value: Float[Tensor, "d"]

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        nowhere = torch.zeros(h.shape, dtype=torch.bool, device=h.device)
        return torch.where(nowhere, h, self.value.to(h.dtype))  # so that there is a gradient, which is zero


def _equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return NotImplemented
    pairs = [(getattr(one, item.name), getattr(other, item.name)) for item in fields(one)]
    return all(_same(mine, theirs) for mine, theirs in pairs)


def _same(mine: Any, theirs: Any) -> bool:
    if not (isinstance(mine, Tensor) and isinstance(theirs, Tensor)):
        return bool(mine == theirs)
    alike = (mine.shape, mine.dtype, mine.device) == (theirs.shape, theirs.dtype, theirs.device)
    return alike and torch.equal(mine, theirs)


def _shown(one: Any) -> str:
    """What a prompt shows: the fields that are set, of tensors the shape alone."""
    texts = []
    for item in fields(one):
        value = getattr(one, item.name)
        if value is None or item.name == "fingerprint":
            continue
        shape_or_value = list(value.shape) if isinstance(value, Tensor) else value
        texts.append(f"{item.name} {value:.3g}" if isinstance(value, float) else f"{item.name} {shape_or_value}")
    return f"{type(one).__name__}({', '.join(texts)})"


def _wide(h: Tensor) -> Tensor:
    """Activations in the precision in which edits are computed: their own, and float32 at least."""
    return h.to(torch.promote_types(h.dtype, torch.float32))


def _move(h: Tensor, directions: Tensor, targets: Tensor) -> Tensor:
    wide = _wide(h)
    directions, targets = directions.to(wide.dtype), targets.to(wide.dtype)
    return (wide + (targets - wide @ directions.T) @ directions).to(h.dtype)


def _common(vector: ConceptVector, position: Any, gate: Any) -> dict[str, Any]:
    if vector.kind not in ("direction", "subspace"):
        raise ModelError(f"a vector of kind {vector.kind!r} is no edit of activations")
    where = vector.write_position if position is None else Position.parse(position)
    opened = Gate.of(gate) if isinstance(gate, ConceptVector) else gate
    return {"position": where.for_edits(), "gate": opened, "fingerprint": vector.model.get("fingerprint")}


def add(
    vector: ConceptVector,
    strength: float | Sequence[float] | dict[Any, float] = 1.0,
    *,
    position: str | Position | None = None,
    gate: Gate | Unsure | ConceptVector | None = None,
) -> tuple[Add, ...]:
    """Edits that add `strength` times `write` at each of the vector's sites.

    `strength` is one number, a mapping from site to number, or for subspaces one coefficient a direction.
    """
    common = _common(vector, position, gate)
    by_site = {Site.parse(key): value for key, value in strength.items()} if isinstance(strength, dict) else None
    if strange := [site for site in by_site or () if site not in vector.parts]:
        raise ModelError(f"{vector.name} has no part at {strange[0]}; it has {', '.join(map(str, vector.parts))}")
    edits = []
    for site, part in vector.parts.items():
        amount = strength if by_site is None else by_site.get(site, 0.0)
        coefficients = torch.as_tensor(amount, dtype=torch.float32).reshape(-1)
        if not torch.isfinite(coefficients).all():
            raise ModelError(f"a steering strength must be a finite number, not {amount}")
        if len(coefficients) not in (1, len(part.write)):
            raise ModelError(f"{vector.name} has {len(part.write)} directions and takes as many coefficients, or one")
        shift = (coefficients[:, None] * part.write).sum(0)
        _check_size(float(shift.double().norm()), part, f"a strength of {amount}")
        edits.append(Add(site=site, shift=shift, **common))
    return tuple(edits)


def ablate(
    vector: ConceptVector,
    *,
    to: str = "midpoint",
    sites: Sequence[str | Site] = (),
    position: str | Position | None = None,
    gate: Gate | Unsure | ConceptVector | None = None,
) -> tuple[Ablate, ...]:
    """Edits that set the coordinate along the vector to the midpoint of the class means, or to 0.

    Where the scale does not come from class means there is no midpoint, and 0 is used. `sites` puts the projection at
    further sites; only `to="zero"` has a meaning there.
    """
    if to not in ("midpoint", "zero"):
        raise ModelError(f"ablate to 'midpoint' or 'zero', not {to!r}")
    if sites and to != "zero":
        raise ModelError("at other sites than its own a vector has no midpoint: use ablate(to='zero', sites=...)")
    common = _common(vector, position, gate)
    zero = to == "zero" or vector.scale_from != "class-means"
    edits = [
        Ablate(site=site, directions=part.direction, targets=part.intercept * 0 if zero else -part.intercept, **common)
        for site, part in vector.parts.items()
    ]
    if sites:
        part = next(iter(vector.parts.values()))
        known = set(vector.parts)
        for site in (Site.parse(site) for site in sites):
            if site not in known:
                edits.append(Ablate(site=site, directions=part.direction, targets=part.intercept * 0, **common))
    return tuple(edits)


def _check_size(size: float, part: Part, what: str) -> None:
    """Refuse what is so far from the class means that float32 would round the activation itself away."""
    means = [float(mean.double().norm()) for mean in (part.mean_positive, part.mean_negative) if mean is not None]
    usual = max([*means, float(part.write.double().norm())])
    if not size * torch.finfo(torch.float32).eps <= usual:
        raise ModelError(
            f"{what} is too large: it moves an activation {size / usual:.0e} times as far as it is long, and float32 "
            "keeps nothing of it; strengths are in units of the concept, 1 to 10 are usual"
        )


def set_coordinate(
    vector: ConceptVector,
    score: float,
    *,
    position: str | Position | None = None,
    gate: Gate | Unsure | ConceptVector | None = None,
) -> tuple[SetCoordinate, ...]:
    """Edits that give every token the same `score` of the vector: -0.5 and 0.5 are the class means."""
    if not math.isfinite(score):
        raise ModelError(f"a score must be a finite number, not {score}")
    common = _common(vector, position, gate)
    for part in vector.parts.values():
        _check_size(abs(score) * float(part.scale.double().norm()), part, f"a score of {score}")
    return tuple(
        SetCoordinate(site=site, directions=part.direction, targets=score * part.scale - part.intercept, **common)
        for site, part in vector.parts.items()
    )


def to_probability(
    vector: ConceptVector,
    probability: float,
    *,
    below: bool = True,
    position: str | Position | None = None,
    gate: Gate | Unsure | ConceptVector | None = None,
) -> tuple[ToProbability, ...]:
    """Edits that bring the calibrated probability below (or with `below=False` above) `probability`, and no further."""
    if not 0 < probability < 1:
        raise ModelError(f"a probability lies between 0 and 1, not {probability}")
    if vector.calibration is None or vector.calibration[0] <= 0:
        raise ModelError(f"{vector.name} has no calibrated probability: fit it by a study, or calibrate it")
    common = _common(vector, position, gate)
    slope, offset = vector.calibration
    score = (math.log(probability / (1 - probability)) - offset) / slope
    return tuple(
        ToProbability(
            site=site,
            direction=_single(part),
            coordinate=float(score * part.scale[0] - part.intercept[0]),
            below=below,
            **common,
        )
        for site, part in vector.parts.items()
    )


def _single(part: Part) -> Tensor:
    if len(part.direction) != 1:
        raise ModelError("a probability belongs to one direction, not to a subspace")
    return part.direction[0]
