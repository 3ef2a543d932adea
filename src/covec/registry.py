"""The one registry of methods.

A method is one file in the package of its verb. The file's name is the method's name (`find/mean_difference.py` is
`mean-difference`), so listing methods imports none of them. A file whose name starts with an underscore is machinery.
Other people's packages add methods through the entry-point group `covec.methods` (name `verb.method-name`).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from covec.errors import CovecError

VERBS = ("find", "discover", "detect", "name", "explain", "steer", "erase", "predict", "generate", "measure")

# One-line forwards from lower rooms to higher ones: resolved by name at call time, never imported at the top.
_FORWARDS = {
    "activations.capture": "covec.activations.capture:capture",
    "activations.capture_pair": "covec.activations.pairs:capture_pair",
    "activations.moments": "covec.activations.tally:moments",
    "activations.store": "covec.activations.store:write_store",
    "edits.scope": "covec.edits.scope:edit",
    "edits.generate": "covec.edits.generation:generate",
    "edits.add": "covec.edits.algebra:add",
    "edits.ablate": "covec.edits.algebra:ablate",
    "edits.set_coordinate": "covec.edits.algebra:set_coordinate",
    "edits.to_probability": "covec.edits.algebra:to_probability",
    "edits.bake": "covec.edits.bake:bake",
    "edits.patch_weights": "covec.edits.weights:patch_weights",
    "detect.detect": "covec.detect._detect:detect",
    "detect.watch": "covec.detect._watch:watch",
    "report.bench": "covec.report.bench:write_bench",
    "report.steering": "covec.report.steering:write_steering",
    "report.study": "covec.report:write_study",
    "report.study_html": "covec.report:study_fragment",
    "report.vector_html": "covec.report:vector_fragment",
}


@dataclass(frozen=True)
class Entry:
    """What a method says of itself; kept on the class or function as `.entry`."""

    name: str
    verb: str
    needs: str = "activations"  # "activations", "moments" or "model"
    card: str | None = None  # id in the catalog
    requires: tuple[str, ...] = ()  # what the examples must carry: "pairs", "spans", ...
    cannot: Mapping[str, str] = field(default_factory=dict)  # laws of its contract, by their words, with the reasons


def method(
    name: str,
    *,
    verb: str,
    needs: str = "activations",
    card: str | None = None,
    requires: tuple[str, ...] = (),
    cannot: Mapping[str, str] | None = None,
) -> Callable[[Any], Any]:
    """Register the class or function below as the method `name` of `verb`.

    `cannot` names the laws of the verb's contract that the method cannot keep, with the reasons: see `covec.checks`.
    """
    entry = Entry(name, verb, needs, card, requires, cannot or {})

    def register(target: Any) -> Any:
        target.entry = entry
        return target

    return register


def names(verb: str) -> tuple[str, ...]:
    """Names of all methods of `verb`, sorted, without importing any of them."""
    return tuple(sorted(_modules(verb)))


def get(verb: str, name: str) -> Any:
    """The class or function registered as `name`; an unknown name raises and lists the known ones."""
    modules = _modules(verb)
    if name not in modules:
        raise CovecError(f"no {verb} method {name!r}; known: {', '.join(sorted(modules))}")
    module = importlib.import_module(modules[name])
    for target in vars(module).values():
        entry = target.__dict__.get("entry") if hasattr(target, "__dict__") else None
        if isinstance(entry, Entry) and (entry.verb, entry.name) == (verb, name):
            return target
    raise CovecError(f"{module.__name__} does not register a {verb} method called {name!r}")


def resolve(forward: str) -> Any:
    """The function behind a one-line forward such as `edits.add`."""
    module, _, attribute = _FORWARDS[forward].partition(":")
    return getattr(importlib.import_module(module), attribute)


@cache
def _modules(verb: str) -> dict[str, str]:
    if verb not in VERBS:
        raise CovecError(f"no verb {verb!r}; known: {', '.join(VERBS)}")
    found = {}
    spec = importlib.util.find_spec(f"covec.{verb}")
    for folder in spec.submodule_search_locations or () if spec else ():
        for file in Path(folder).glob("*.py"):
            if not file.stem.startswith("_"):
                found[file.stem.replace("_", "-")] = f"covec.{verb}.{file.stem}"
    for point in entry_points(group="covec.methods"):
        owner, _, name = point.name.partition(".")
        if owner == verb:
            if name in found:
                raise CovecError(f"two {verb} methods are called {name!r}: {found[name]} and {point.value}")
            found[name] = point.value.partition(":")[0]
    return found
