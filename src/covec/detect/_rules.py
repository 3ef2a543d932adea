"""Rules over concepts: formulas of `not`, `and`, `or` that imply a concept, and what follows from margins.

A margin says by how much a concept is there (above 0) or not. A conjunction has the least margin of its parts, a
disjunction the largest, a negation the opposite one, so that a formula holds where its margin is above 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from covec.errors import CovecError

_TOKEN = re.compile(r'\s*(?:(->|→|[()])|"([^"]*)"|([\w.]+(?:-[\w.]+)*)|(\S))')
_DEEPEST = 50  # brackets and negations in each other


@dataclass(frozen=True)
class Formula:
    """A concept (`operator` empty), or `not`, `and`, `or` of `parts`."""

    operator: str
    parts: tuple[Formula, ...] = ()
    concept: str = ""

    def margin(self, margins: Mapping[str, float]) -> float:
        """By how much it holds, given the margins of its concepts."""
        if not self.operator:
            return margins[self.concept]
        found = [part.margin(margins) for part in self.parts]
        return {"not": lambda: -found[0], "and": lambda: min(found), "or": lambda: max(found)}[self.operator]()

    @property
    def concepts(self) -> tuple[str, ...]:
        """The concepts in it, each once."""
        found = [self.concept] if not self.operator else [name for part in self.parts for name in part.concepts]
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Rule:
    """`body -> head`, as it was written at `place`."""

    body: Formula
    head: str
    text: str
    place: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Rules:
    """Rules without a cycle, each of which can be applied once those that its body needs have been."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if not self.rules:
            raise CovecError("there is no rule: give some, such as 'bridge and city -> landmark'")
        try:
            _ = self.order
        except CycleError as error:
            circle = " -> ".join(map(repr, error.args[1]))
            raise CovecError(f"rules run in a circle, {circle}: take one of them out") from None

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All concepts, each after those that it is derived from."""
        needs: dict[str, dict[str, None]] = {}
        for rule in self.rules:
            needs.setdefault(rule.head, {}).update(dict.fromkeys(rule.body.concepts))
        return tuple(TopologicalSorter(needs).static_order())

    @classmethod
    def parse(cls, text: str, name: str = "rules") -> Rules:
        """The rules in `text`, one a line; empty lines and what follows a `#` are left out.

        Raises
        ------
        CovecError
            A line is no rule, there is none, or they run in a circle; the message names the line.
        """
        lines = ((number, line.partition("#")[0].strip()) for number, line in enumerate(text.splitlines(), 1))
        return cls(tuple(_rule(line, f"{name}, line {number}") for number, line in lines if line))

    @cached_property
    def by_head(self) -> dict[str, tuple[Rule, ...]]:
        """The rules that imply each concept."""
        heads = dict.fromkeys(rule.head for rule in self.rules)
        return {head: tuple(rule for rule in self.rules if rule.head == head) for head in heads}

    def check(self, known: Sequence[str]) -> None:
        """Refuse concepts that no detector reads and no rule derives."""
        for rule in self.rules:
            for concept in rule.body.concepts:
                if concept not in known and concept not in self.by_head:
                    near = ", ".join(map(repr, known[:8])) or "none"
                    raise CovecError(
                        f"{rule.place}: {concept!r} has neither a vector nor a rule that derives it; vectors: {near}"
                    )


def _rule(line: str, place: str) -> Rule:
    reader = _Reader(line, place)
    body = reader.formula()
    if reader.next() not in ("->", "implies"):
        raise reader.wrong("expected '->' after the body")
    head = reader.formula()
    if reader.peek() or head.operator:
        raise reader.wrong("one concept must follow '->'")
    return Rule(body, head.concept, line, place)


class _Reader:
    """Reads a line from left to right: `or` binds least, then `and`, then `not`."""

    def __init__(self, line: str, place: str) -> None:
        self.place, self.line, self.depth = place, line, 0
        self.words = list(_words(line, place))
        self.at = 0

    def wrong(self, what: str) -> CovecError:
        """The error of this line."""
        return CovecError(f"{self.place}: {what} in {self.line[:80]!r}; write 'a and not (b or c) -> d'")

    def peek(self) -> str:
        """The next keyword or mark; a concept's name with a quote before it; empty at the end."""
        return self.words[self.at] if self.at < len(self.words) else ""

    def next(self) -> str:
        """What `peek` gives, and go on."""
        self.at += 1
        return self.words[self.at - 1] if self.at <= len(self.words) else ""

    def formula(self, operator: str = "or") -> Formula:
        """A disjunction of conjunctions."""
        parts = [self._below(operator)]
        while self.peek() == operator:
            self.next()
            parts.append(self._below(operator))
        return parts[0] if len(parts) == 1 else Formula(operator, tuple(parts))

    def _below(self, operator: str) -> Formula:
        return self.formula("and") if operator == "or" else self._single()

    def _single(self) -> Formula:
        word = self.next()
        if word.startswith('"') and len(word) > 1:
            return Formula("", concept=word[1:])
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong("brackets too deep")
        if word == "not":
            return Formula("not", (self._single(),))
        if word != "(":
            raise self.wrong("a concept is missing")
        found = self.formula()
        if self.next() != ")":
            raise self.wrong("a bracket is not closed")
        return found


def _words(line: str, place: str) -> Iterator[str]:
    for mark, quoted, word, strange in _TOKEN.findall(line.rstrip()):
        if strange:
            raise CovecError(f"{place}: {strange!r} has no meaning in a rule; put names with signs in double quotes")
        if mark:
            yield "->" if mark == "→" else mark
        elif word.lower() in ("not", "and", "or", "implies"):
            yield word.lower()
        else:
            yield '"' + (word or quoted.strip())
