"""What the fields of a concept vector may hold; each check returns the value in its kept form or raises one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from covec.concepts._names import name as name
from covec.concepts._plain import plain
from covec.concepts.part import Part
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.sites import Site

READING_KINDS = ("direction", "subspace")
WRITING_KINDS = ("prefix", "weights")
KINDS = READING_KINDS + WRITING_KINDS
OPERATIONS = ("add", "ablate", "set-coordinate", "to-probability", "rotate", "clamp", "replace", "project", "prepend")
SCALES_FROM = ("class-means", "native", "codes", "spread")


def label(value: Any, what: str, known: Sequence[str] | None = None) -> str:
    """A short line of text, one of `known` where those are given."""
    if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
        raise CovecError(f"{what} is a line of at most 200 characters, not {str(value)[:50]!r}")
    if known is not None and value not in known:
        raise CovecError(f"{what} {value[:50]!r} is not known here; known: {', '.join(known)}")
    return value


def position(value: Any) -> Position:
    """A position, or the string of one."""
    if not isinstance(value, Position | str) or len(str(value)) > 100:
        raise CovecError(f"{str(value)[:50]!r} is not a position; write for example last, mean or content/max")
    return Position.parse(value)


def site(value: Any) -> Site:
    """An address, or its canonical string."""
    text = str(value) if isinstance(value, Site | str) else ""
    if not 0 < len(text) <= 200 or str(found := Site.parse(text)) != text:
        raise CovecError(
            f"{str(value)[:50]!r} is not the address of a site; write for example resid.12 or features.7@in"
        )
    return found


def number(value: Any, what: str) -> float:
    """A finite number."""
    found = plain(value, what)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise CovecError(f"{what} is a finite number, not {str(value)[:50]!r}")
    return float(found)


def calibration(value: Any) -> tuple[float, float] | None:
    """Slope and offset of Platt scaling, or None."""
    if value is None:
        return None
    if not isinstance(value, Sequence) or len(value) != 2:
        raise CovecError("calibration is a slope and an offset, or None")
    return number(value[0], "the slope of the calibration"), number(value[1], "the offset of the calibration")


def seed(value: Any) -> int | None:
    """A whole number, or None."""
    found = plain(value, "seed")
    if isinstance(found, bool) or not isinstance(found, int | None):
        raise CovecError(f"seed is a whole number or None, not {str(value)[:50]!r}")
    return found


def document(value: Any, what: str) -> dict[str, Any]:
    """A dict of plain values."""
    found = plain(value, what)
    if not isinstance(found, dict):
        raise CovecError(f"{what} must be a dict")
    return found


def documents(value: Any, what: str) -> list[dict[str, Any]]:
    """A list of dicts of plain values."""
    if not isinstance(value, list | tuple):
        raise CovecError(f"{what} must be a list of dicts")
    return [document(item, what) for item in value]


def part(value: Any, kind: str, scale_from: str) -> None:
    """Refuse a part that a vector of this kind cannot have, or that points to less of the concept."""
    if not isinstance(value, Part):
        raise CovecError("it is not a Part")
    if value.reads != (kind in READING_KINDS):
        raise CovecError(f"it {'has' if value.reads else 'lacks'} a direction, unlike a {kind}")
    if kind == "direction" and value.rank > 1:
        raise CovecError(f"it has {value.rank} rows, so it is a subspace and no direction")
    if value.reads and scale_from == "class-means":
        if value.mean_positive is None or value.mean_negative is None:
            raise CovecError("it has no class means, and scale_from says class-means")
        gap = value.direction.double() @ (value.mean_positive.double() - value.mean_negative.double())
        if kind == "direction" and float(gap) <= 0:
            raise CovecError("it points from having the concept to lacking it")
