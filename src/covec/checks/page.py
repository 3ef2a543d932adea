"""docs/contract.md: every law of every contract, in the words of its docstring, with who cannot keep it and why."""

from __future__ import annotations

from collections.abc import Iterable

from covec import registry
from covec.checks import (
    aggregators,
    edits,
    explainers,
    finders,
    measures,
    model_finders,
    namers,
    steering,
    training,
    vectors,
)
from covec.checks._check import Law, title, words
from covec.checks.expected import EDITS, SCIKIT_LEARN

_HEAD = """# The contract

<!-- Generated from covec.checks by `make docs`. -->

What covec promises of every method, as code: `covec.checks` finds all methods by discovery and holds each of them to
every law below, in every run of the tests. A method of your own is held to them by one call:
[adding a method](adding-a-method.md). Whoever cannot keep a law is named beside it with the reason, and fails the tests
once it keeps it after all.
"""
_ROOMS: tuple[tuple[str, str, Iterable[Law]], ...] = (
    ("find", "Finders", finders.LAWS),
    ("find", "Finders that read a model", model_finders.LAWS),
    ("edit", "Edits", (*edits.LAWS, *edits.OF_STRENGTHS)),
    ("training", "Edits that are trained", training.LAWS),
    ("detect", "Aggregators", aggregators.LAWS),
    ("name", "Ways to name", namers.LAWS),
    ("explain", "Explainers", explainers.LAWS),
    ("steer", "Ways to steer", steering.LAWS),
    ("measure", "Measures", measures.LAWS),
    ("vector", "Concept vectors", vectors.LAWS),
)


def markdown() -> str:
    """The page."""
    parts = [_HEAD]
    for verb, heading, laws in _ROOMS:
        rows = "\n".join(f"| {title(law)} | {words(law)} |{_cannot(verb, law)} |" for law in laws)
        parts.append(f"## {heading}\n\n| law | which says | but |\n| --- | --- | --- |\n{rows}\n")
    rows = "\n".join(f"| `{name}` | {reason} |" for name, reason in SCIKIT_LEARN.items())
    parts.append(f"## Checks of scikit-learn that finders do not pass\n\n| check | why |\n| --- | --- |\n{rows}\n")
    return "\n".join(parts)


def _cannot(verb: str, law: Law) -> str:
    """Who cannot keep it, and why."""
    methods = registry.names(verb) if verb in registry.VERBS else ()
    reasons = EDITS if verb == "edit" else {name: registry.get(verb, name).entry.cannot for name in methods}
    return "".join(f" `{name}`: {why[title(law)]}." for name, why in reasons.items() if title(law) in why)


if __name__ == "__main__":
    print(markdown(), end="")
