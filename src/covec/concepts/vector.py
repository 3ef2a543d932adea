"""Concept vectors: what a method learned about one concept, with everything needed to use and to judge it.

Three laws hold for every vector that reads. Directions have unit norm and positive means more of the concept. Scores
are `(direction . h + intercept) / scale`, so that the class means of the training rows stand at -0.5 and +0.5. Strength
1.0 is the shift `write`, which raises the score by exactly 1 at every site and in every model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts import _fields as checked
from covec.concepts.part import Part as Part
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.registry import resolve
from covec.statistics.figure import Figure

_LAST, _CONTENT = Position("last"), Position("content")
_STREAM = ("embed", "resid", "attn", "mlp", "mixer", "final")  # sites as wide as the model


@dataclass(frozen=True, eq=False, repr=False)
class ConceptVector:
    """A concept in a network: directions at one or several sites, their provenance and their quality.

    Parameters
    ----------
    name
        The concept; a label of at most 200 characters, harmless as a relative path.
    parts
        One `Part` a site. One part of one direction is the usual case: `site`, `direction`, `write`, `scale`,
        `intercept` and `score` then work, and otherwise raise.
    kind
        `direction` (one row a site), `subspace` (r rows), `prefix` (r token embeddings to put before the input) or
        `weights` (changes of the parameters that the sites name); the last two only write.
    read_position, write_position
        Where activations were read, and which tokens an edit changes unless told otherwise.
    aggregator
        The detect method that pools the scores of the tokens.
    threshold
        The concept counts as present above this score.
    calibration
        Slope and offset of Platt scaling, probability = sigmoid(slope * score + offset); None where not calibrated.
    method, operation
        The finder, and what the vector is made for (`add` as a rule).
    scale_from
        How the natural difference between having and lacking the concept was got: `class-means`, `native` (the
        method's own vector), `codes` (an atom's mean non-zero activation), `spread` (two standard deviations on
        neutral text).
    model, data
        Provenance: `name, fingerprint, width, architecture, ...` and `name, digest, n, ...`.
    seed, versions, figures, tried
        The seed, versions of the libraries, the figures that judge it, and what was tried and lost.
    metadata
        What a file held under keys that this version does not know; kept and otherwise ignored.

    Raises
    ------
    CovecError
        A field is not what it says here.
    """

    name: str
    parts: dict[Site, Part]
    kind: str = "direction"
    read_position: Position = _LAST
    write_position: Position = _CONTENT
    aggregator: str = "last"
    threshold: float = 0.0
    calibration: tuple[float, float] | None = None
    method: str = ""
    operation: str = "add"
    scale_from: str = "class-means"
    model: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    versions: dict[str, Any] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    tried: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {
            "name": checked.name(self.name),
            "kind": checked.label(self.kind, "kind", checked.KINDS),
            "read_position": checked.position(self.read_position),
            "write_position": checked.position(self.write_position).for_edits(),
            "aggregator": checked.label(self.aggregator, "aggregator"),
            "threshold": checked.number(self.threshold, "threshold"),
            "calibration": checked.calibration(self.calibration),
            "method": checked.label(self.method, "method"),
            "operation": checked.label(self.operation, "operation", checked.OPERATIONS),
            "scale_from": checked.label(self.scale_from, "scale_from", checked.SCALES_FROM),
            "seed": checked.seed(self.seed),
            "tried": checked.documents(self.tried, "tried"),
        }
        kept |= {
            name: checked.document(getattr(self, name), name)
            for name in ("model", "data", "versions", "figures", "metadata")
        }
        for name, value in kept.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "parts", self._checked_parts())
        if own := set(self.metadata) & set(FIELDS):
            raise CovecError(f"metadata of {self.name!r} holds {min(own)!r}, which is a field of its own")

    @classmethod
    def from_direction(
        cls,
        name: str,
        site: str | Site,
        direction: Float[Tensor, "d"],
        mean_positive: Float[Tensor, "d"] | None = None,
        mean_negative: Float[Tensor, "d"] | None = None,
        *,
        write: Float[Tensor, "d"] | None = None,
        scale: float | None = None,
        intercept: float | None = None,
        **others: Any,
    ) -> ConceptVector:
        """The usual vector: one direction at one site, in the units of the class means.

        Parameters
        ----------
        direction
            Any positive multiple of the direction; it is brought to unit norm.
        write
            The shift of strength 1.0; the difference of the class means unless given, or `scale * direction` where
            there are no class means.
        scale
            How far `write` moves along the direction; computed from `write` unless given.
        intercept
            Minus the midpoint of the projected class means unless given; 0 where there are none.
        others
            The other fields of the vector. Without class means, `scale_from` must be among them.

        Raises
        ------
        CovecError
            The direction is zero, or does not point to more of the concept.
        """
        unit = torch.as_tensor(direction).detach().cpu().double()
        length = unit.norm()
        if not bool(length > 0):
            raise CovecError(f"the direction of {name!r} is zero or not finite: the classes do not differ at {site}")
        rows = _rounded(
            name, direction=unit / length, write=write, mean_positive=mean_positive, mean_negative=mean_negative
        )
        unit, means = rows["direction"], [rows[key] for key in ("mean_positive", "mean_negative") if key in rows]
        if write is not None:
            shift = rows["write"]
        elif len(means) == 2:
            shift = means[0] - means[1]
        elif scale is not None:
            shift = scale * unit
        else:
            raise CovecError(f"{name!r} has no class means: give the scale of its direction, and scale_from")
        if intercept is None:
            intercept = -float(unit @ (means[0] + means[1])) / 2 if len(means) == 2 else 0.0
        scale = float(unit @ shift.float().double()) if scale is None else scale
        part = Part(
            direction=unit[None],
            write=shift[None],
            intercept=unit.new_tensor([intercept]),
            scale=unit.new_tensor([scale]),
            mean_positive=mean_positive,
            mean_negative=mean_negative,
        )
        return cls(name, {Site.parse(site): part}, **others)

    @classmethod
    def from_models(cls, base: Any, tuned: Any, name: str = "", **others: Any) -> ConceptVector:
        """What fine-tuning changed, as a weight vector: see `covec.concepts.weights.weight_vector`."""
        from covec.concepts.weights import weight_vector

        return weight_vector(base, tuned, name, **others)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites it has parts at."""
        return tuple(self.parts)

    @property
    def site(self) -> Site:
        """The site of the only direction."""
        return self._only()[0]

    @property
    def direction(self) -> Float[Tensor, "d"]:
        """The only direction, of unit norm."""
        return self._only()[1].direction[0]

    @property
    def write(self) -> Float[Tensor, "d"]:
        """The shift of strength 1.0 of the only direction."""
        return self._only()[1].write[0]

    @property
    def scale(self) -> float:
        """The natural difference along the only direction, in units of the activations."""
        return float(self._only()[1].scale)

    @property
    def intercept(self) -> float:
        """The intercept of the only direction, in units of the activations."""
        return float(self._only()[1].intercept)

    def at(self, site: str | Site) -> ConceptVector:
        """The same vector with its part at `site` alone."""
        site = Site.parse(site)
        if site not in self.parts:
            raise CovecError(f"{self.name!r} has no part at {site}; it has {self._listed()}")
        return dataclasses.replace(self, parts={site: self.parts[site]})

    def score(self, activations: Float[Tensor, "n d"]) -> Float[Tensor, "n"]:
        """Scores of activations read at its site: class means at -0.5 and +0.5."""
        return self._only()[1].score(activations)[:, 0]

    def probability(self, scores: Float[Tensor, "*n"] | float) -> Float[Tensor, "*n"]:
        """Calibrated probabilities of the concept for `scores`."""
        if self.calibration is None:
            raise CovecError(f"{self.name!r} is not calibrated: it gives scores, no probabilities")
        slope, offset = self.calibration
        return torch.sigmoid(slope * torch.as_tensor(scores).float() + offset)

    def add(self, strength: float = 1.0, **where: Any) -> Any:
        """Edits that add `strength` times `write`; `where`, here and below: `position` and `gate`."""
        return resolve("edits.add")(self, strength, **where)

    def ablate(self, to: str = "midpoint", **where: Any) -> Any:
        """Edits that set its coordinates to the class midpoint, or with `to="zero"` to 0 (also at other `sites`)."""
        return resolve("edits.ablate")(self, to=to, **where)

    def set_coordinate(self, score: float, **where: Any) -> Any:
        """Edits that move activations along its direction until their score is `score`."""
        return resolve("edits.set_coordinate")(self, score, **where)

    def to_probability(self, probability: float, **where: Any) -> Any:
        """Edits that bring the calibrated probability below `probability` (`below=False`: above it), and no further."""
        return resolve("edits.to_probability")(self, probability, **where)

    def check_model(self, description: Mapping[str, Any], *, force: bool = False) -> None:
        """Refuse a model that it was not found in.

        Parameters
        ----------
        description
            What `model.describe()` returns: `name`, `width`, `fingerprint`.
        force
            Accept another fingerprint. Another width is never accepted: no edit could be made.

        Raises
        ------
        CovecError
            The model has another width, or another fingerprint and `force` is not set.
        """
        here, there = description.get("name", "this model"), self.model.get("name", "another model")
        width = description.get("width")
        for site, part in self.parts.items():
            if self.kind != "weights" and site.kind in _STREAM and width not in (None, part.width):
                raise CovecError(f"{self.name!r} is {part.width} wide at {site}, {here} {width}: use it with {there}")
        mine, theirs = self.model.get("fingerprint"), description.get("fingerprint")
        if not force and mine and theirs and mine != theirs:
            raise CovecError(
                f"{self.name!r} was found in {there} ({str(mine)[:12]}), not in {here} ({str(theirs)[:12]}): "
                "load that model, or force it"
            )

    def save(self, path: str | Path) -> None:
        """Write it to `path` (safetensors; see docs/format.md), whole or not at all."""
        from covec.concepts.files import write

        write(path, [self])

    def export(self, path: str | Path, format: str = "gguf") -> None:
        """Write it for another tool: see `covec.concepts.exports.export`."""
        from covec.concepts.exports import export

        export(self, format, path)

    def identical(self, other: object) -> bool:
        """Whether every field and every bit of every tensor agrees."""
        return isinstance(other, ConceptVector) and all(getattr(self, name) == getattr(other, name) for name in FIELDS)

    def __eq__(self, other: object) -> bool:
        return self.identical(other) if isinstance(other, ConceptVector) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.name, self.kind, self.method, self.sites))

    def __repr__(self) -> str:
        return f"ConceptVector({self.name!r}, {self.kind} at {self._listed()}, {self.method or 'no method'})"

    def __str__(self) -> str:
        model, data = self.model, self.data
        lines = {
            "kind": f"{self.kind} at {self._listed()}",
            "positions": f"read {self.read_position}, write {self.write_position}",
            "method": f"{self.method or 'unknown'}, scale from {self.scale_from}",
            "model": f"{model.get('name', 'unknown')} {str(model.get('fingerprint', ''))[:12]}".strip(),
            "data": f"{data.get('name', 'unknown')}, n {data.get('n', 'unknown')}",
        }
        lines |= {name: str(figure) for name, figure in self.figures.items() if isinstance(figure, Figure)}
        width = max(map(len, lines)) + 2
        return "\n".join([self.name, *(f"  {name:<{width}}{text}" for name, text in lines.items())])

    def _repr_html_(self) -> str:
        return str(resolve("report.vector_html")(self))

    def _only(self) -> tuple[Site, Part]:
        """Its site and part, where it is one direction at one site."""
        (site, part), *more = self.parts.items()
        if more:
            raise CovecError(f"{self.name!r} has parts at {self._listed()}: choose one with .at(site)")
        if self.kind != "direction":
            raise CovecError(f"{self.name!r} is a {self.kind} of rank {part.rank}, not one direction: use .parts")
        return site, part

    def _listed(self) -> str:
        shown = ", ".join(str(site) for site in self.sites[:4])
        return shown + (f" and {len(self.parts) - 4} more" if len(self.parts) > 4 else "")

    def _checked_parts(self) -> dict[Site, Part]:
        if not isinstance(self.parts, Mapping) or not self.parts:
            raise CovecError(f"{self.name!r} has no parts: give {{site: Part(...)}}")
        parts = {checked.site(site): part for site, part in self.parts.items()}
        if len(parts) < len(self.parts):
            raise CovecError(f"{self.name!r} has two parts at one site")
        for site, part in parts.items():
            try:
                checked.part(part, self.kind, self.scale_from)
            except CovecError as error:
                raise CovecError(f"the part of {self.name!r} at {site}: {error}") from None
        return parts


FIELDS = tuple(field.name for field in dataclasses.fields(ConceptVector))


def _rounded(name: str, **given: Any) -> dict[str, Float[Tensor, "d"]]:
    """The rows that are given, rounded to float32 as they will be kept, in float64 for the arithmetic before that."""
    tensors = {key: torch.as_tensor(row).detach() for key, row in given.items() if row is not None}
    if len({row.shape for row in tensors.values()}) > 1 or tensors["direction"].ndim != 1:
        raise CovecError(f"{', '.join(tensors)} of {name!r} must be vectors of one length")
    return {key: row.to("cpu", torch.float32).double() for key, row in tensors.items()}
