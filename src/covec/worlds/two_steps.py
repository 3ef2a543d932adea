"""Problems of two steps, each with one line of worked steps: what a chain of thought is at its smallest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covec.concepts.examples import Examples

NAMES = ["Tom", "Anna", "Ben", "Lucy", "Sam", "Emma", "Jack", "Mary", "Paul", "Kate"]
THINGS = ["apples", "pears", "books", "coins", "cards", "eggs", "pens", "cakes", "shells", "stamps"]
GAINS, LOSSES = ["buys", "finds", "gets", "wins"], ["loses", "sells", "drops", "hides"]


@dataclass(frozen=True)
class Problem:
    """A question, its worked steps, and its answer."""

    question: str
    steps: str
    answer: str

    @property
    def plain(self) -> str:
        """The prompt without worked steps."""
        return f"{self.question} Answer:"

    def worked(self, steps: str | None = None) -> str:
        """The prompt with worked steps, its own unless others are given."""
        return f"{self.question} {self.steps if steps is None else steps} Answer:"


def problems(count: int, seed: int = 0) -> tuple[Problem, ...]:
    """Different problems; no number in them has two digits."""
    rng = np.random.default_rng(seed)
    found: dict[str, Problem] = {}
    while len(found) < count:
        name, thing, gain, loss = (str(rng.choice(words)) for words in (NAMES, THINGS, GAINS, LOSSES))
        had, more = int(rng.integers(1, 6)), int(rng.integers(1, 5))
        less = int(rng.integers(1, had + more))
        question = f"{name} has {had} {thing}, {gain} {more} and {loss} {less}."
        steps = f"{had} + {more} = {had + more}, {had + more} - {less} = {had + more - less}."
        found.setdefault(question, Problem(question, steps, str(had + more - less)))
    return tuple(found.values())


def paired(given: tuple[Problem, ...], *, shuffled: bool = False) -> Examples:
    """Each problem with worked steps (positive) and without, and its answer; `shuffled`: with the next one's steps."""
    others = given[1:] + given[:1] if shuffled else given
    inputs = [text for one, other in zip(given, others, strict=True) for text in (one.worked(other.steps), one.plain)]
    return Examples(
        tuple(inputs),
        np.arange(2 * len(given)) % 2 == 0,
        pairs=tuple(f"problem {place // 2}" for place in range(2 * len(given))),
        extra={"answer": tuple(one.answer for one in given for _ in range(2))},
        name="worked steps",
    )
