"""docs/contract.md: every law of every contract, in the words of its docstring, with who cannot keep it and why."""

from __future__ import annotations

from collections.abc import Iterable

from covec.checks import aggregators, edits, finders, vectors
from covec.checks._check import Law, title, words
from covec.checks.expected import EXPECTED_FAILURES, SCIKIT_LEARN

_HEAD = """# The contract

<!-- Generated from covec.checks by `make docs`. -->

What covec promises of every method, as code: `covec.checks` finds all methods by discovery and holds each of them to
every law below, in every run of the tests. A method of your own is held to them by one call:
[adding a method](adding-a-method.md). Whoever cannot keep a law is named beside it with the reason, and fails the tests
once it keeps it after all.
"""
_ROOMS: tuple[tuple[str, str, Iterable[Law]], ...] = (
    ("find", "Finders", finders.LAWS),
    ("edit", "Edits", (*edits.LAWS, *edits.OF_STRENGTHS)),
    ("detect", "Aggregators", aggregators.LAWS),
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
    found = [(key[1], why) for key, why in EXPECTED_FAILURES.items() if (key[0], key[2]) == (verb, title(law))]
    return "".join(f" `{name}`: {why}." for name, why in found)


if __name__ == "__main__":
    print(markdown(), end="")
