"""What a study is asked to do, checked before any work: sites, positions, finders, rows, continuations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covec import registry
from covec.concepts.examples import Examples, require_enough
from covec.errors import CovecError, ExamplesError, UnclearLabelsError
from covec.measure._readout import Continuation
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

Names = str | Sequence[str]


@dataclass(frozen=True)
class Settings:
    """A study's options, checked and resolved."""

    sites: tuple[Site, ...]
    positions: tuple[Position, ...]
    finders: Mapping[str, Any]  # classes, by name
    continuations: tuple[Continuation, ...] | None
    split_seed: int
    seed: int
    quick: bool
    nulls: int
    exact_permutations: int | None
    batch_tokens: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The options as plain values, for the report and the summary."""
        return {
            "sites": [str(site) for site in self.sites],
            "positions": [str(position) for position in self.positions],
            "finders": list(self.finders),
            "split_seed": self.split_seed,
            "seed": self.seed,
            "quick": self.quick,
            "nulls": self.nulls,
            "exact_permutations": self.exact_permutations,
        }


def check_settings(
    model: TextModel,
    concepts: Mapping[str, Examples],
    *,
    sites: str | Site | Sequence[str | Site],
    finders: Names | None,
    position: str | Position | Sequence[str | Position],
    continuations: Any,
    split_seed: int,
    seed: int,
    quick: bool,
    nulls: int,
    exact_permutations: int | None,
    batch_tokens: int,
) -> Settings:
    """Resolve and check the options of a study.

    Raises
    ------
    CovecError
        A site, position or finder is unknown, a concept has too few examples, an input does not fit the model.
    """
    if not concepts:
        raise ExamplesError("there is no concept to study: give examples")
    for name, examples in concepts.items():
        if examples.kind not in model.accepts:
            raise ExamplesError(
                f"{name} holds {examples.kind} inputs; {model.name} reads {' and '.join(model.accepts)}"
            )
        require_enough(examples)
    for what, number in (("seed", seed), ("split_seed", split_seed)):
        if not 0 <= number < 2**32:  # what all of the libraries take
            raise CovecError(f"{what} must lie between 0 and {2**32 - 1}, not {number}")
    if quick and continuations is not None:
        raise CovecError("a quick study does not test use, which continuations are for: leave one of the two out")
    if nulls < 1:
        raise CovecError(f"nulls must be at least 1, not {nulls}")
    chosen = model.select(sites)
    chosen = chosen[::3] if quick and sites == "resid.*" else chosen
    positions = _positions(position)
    for one in positions:
        if not one.single:
            raise CovecError(f"a study reads one row an input: pool the position, such as {one.select}/mean")
    found, notes = _finders(model, finders, concepts, quick)
    written = _continuations(continuations, notes)
    return Settings(
        sites=chosen,
        positions=positions,
        finders=found,
        continuations=written,
        split_seed=split_seed,
        seed=seed,
        quick=quick,
        nulls=nulls,
        exact_permutations=exact_permutations,
        batch_tokens=batch_tokens,
        notes=tuple(notes),
    )


def _finders(
    model: TextModel, names: Names | None, concepts: Mapping[str, Examples], quick: bool
) -> tuple[dict[str, Any], list[str]]:
    """The finders that are named, or all that the examples and the time allow; those left out are noted."""
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    found, skipped = {}, []
    for name in names if names is not None else registry.names("find"):
        finder = registry.get("find", name)
        lacking = [what for what in finder.entry.requires if any(_lacks(one, what) for one in concepts.values())]
        if names is None and not lacking and quick and not finder.closed_form:
            continue
        if lacking and names is not None:
            what = " and ".join(lacking)
            raise ExamplesError(f"{name} needs {what}, which these examples do not carry: add it, or leave {name} out")
        if lacking:
            skipped.append(f"{name} (needs {' and '.join(lacking)})")
        elif why := _refused(finder, model, concepts, named=names is not None):
            skipped.append(f"{name} ({why})")
        else:
            found[name] = finder
    if not found:
        raise CovecError(f"no finder is left to try: name some of {', '.join(registry.names('find'))}")
    return found, [f"skipped: {', '.join(skipped)}"] if skipped else []


def _refused(finder: Any, model: TextModel, concepts: Mapping[str, Examples], *, named: bool) -> str:
    """Why a finder cannot be fitted to the concepts; where it was named, that is raised."""
    try:
        for examples in concepts.values():
            finder.check(model, examples)
    except CovecError as error:
        if named:
            raise
        return str(error)
    return ""


def _positions(given: str | Position | Sequence[str | Position]) -> tuple[Position, ...]:
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",")]
    elif isinstance(given, Position):
        given = [given]
    return tuple(dict.fromkeys(Position.parse(one) for one in given))


def _lacks(examples: Examples, what: str) -> bool:
    return examples.column(what) is None


def _continuations(given: Any, notes: list[str]) -> tuple[Continuation, ...] | None:
    """Continuations of the user's own, from a file or from `Examples`; what reading guessed joins the notes."""
    if given is None:
        return None
    try:
        read = Examples.read(given) if isinstance(given, str | Path) else given
    except UnclearLabelsError:
        raise ExamplesError(f"{given}: label continuations of the concept positive, and others negative") from None
    if not isinstance(read, Examples) or read.kind != "text" or not read.labels.any() or read.labels.all():
        raise ExamplesError("continuations are texts of both labels: give a file with columns text,label or Examples")
    notes += read.notes
    return tuple(Continuation(text, bool(label)) for text, label in zip(read.inputs, read.labels, strict=True))
