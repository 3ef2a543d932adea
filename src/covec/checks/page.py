"""docs/contract.md: every law of every contract, in the words of its docstring, with who cannot keep it and why."""

from __future__ import annotations

from covec import registry
from covec.checks._check import Law, title, words
from covec.checks._rooms import ROOMS
from covec.checks.expected import EDITS, SCIKIT_LEARN

_HEAD = """# The contract

<!-- Generated from covec.checks by `make docs`. -->

What covec promises of every method, as code: `covec.checks` finds all methods by discovery and holds each of them to
every law below, in every run of the tests. A method of your own is held to them by one call:
[adding a method](adding-a-method.md). Whoever cannot keep a law is named beside it with the reason, and fails the tests
once it keeps it after all.
"""


def markdown() -> str:
    """The page."""
    parts = [_HEAD]
    for verb, heading, room in ROOMS:
        laws = (*room.LAWS, *getattr(room, "OF_STRENGTHS", ()))
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
