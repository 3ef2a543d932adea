"""Prompts that demonstrate a function by examples of it, and prompts whose examples demonstrate none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from covec.concepts.examples import Examples
from covec.errors import ExamplesError

QUESTION = "Q: {}\nA:"  # an answer follows behind a space, and an empty line ends it
Pairs = Sequence[tuple[str, str]]


def demonstrations(
    pairs: Pairs, *, shots: int = 5, prompts: int = 40, seed: int = 0, name: str = "function"
) -> Examples:
    """Prompts in context for the function that `pairs` are examples of.

    Each prompt shows some pairs and asks for another one's answer. Positives are such prompts; negatives the same ones
    with their answers shuffled, so that no pair stands whole: what is asked for can no longer be told. Each positive
    and its negative are a pair, and the column `task` holds the answer that either asks for.

    Parameters
    ----------
    shots
        Pairs that a prompt shows.
    prompts
        Positives; there are as many negatives.

    Raises
    ------
    ExamplesError
        There are too few pairs, one is no two texts, or a question stands twice.

    References
    ----------
    Todd et al. 2023, Function Vectors in Large Language Models, section 2 (arXiv:2310.15213).
    """
    pairs = _checked(pairs, shots, name)
    rng = np.random.default_rng(seed)
    inputs, answers = [], []
    for asked in np.resize(rng.permutation(len(pairs)), prompts):
        shown = rng.choice(np.delete(np.arange(len(pairs)), asked), shots, replace=False)
        for order in (np.arange(shots), _deranged([pairs[one][1] for one in shown], rng)):
            examples = zip((pairs[one][0] for one in shown), (pairs[shown[other]][1] for other in order), strict=True)
            lines = [f"{question(word)} {answer}\n\n" for word, answer in examples]
            inputs.append("".join(lines) + question(pairs[asked][0]))
            answers.append(pairs[asked][1])
    return Examples(
        tuple(inputs),
        np.arange(2 * prompts) % 2 == 0,
        pairs=tuple(f"prompt {row // 2 + 1}" for row in range(2 * prompts)),
        extra={"task": tuple(answers)},
        name=name,
    )


def question(word: str) -> str:
    """A prompt without examples."""
    return QUESTION.format(word)


def _checked(pairs: Pairs, shots: int, name: str) -> list[tuple[str, str]]:
    found = []
    for place, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(one, str) and one.strip() for one in pair):
            raise ExamplesError(f"{name}: pair {place + 1} is {pair!r}: give a word and its answer, two texts")
        found.append((pair[0].strip(), pair[1].strip()))
    asked = [word for word, _ in found]
    if twice := next((word for word in asked if asked.count(word) > 1), None):
        raise ExamplesError(f"{name}: {twice!r} is asked twice: give one answer to each word")
    if shots < 2 or len({answer for _, answer in found}) < 2 or len(found) <= shots:
        raise ExamplesError(
            f"{name}: {len(found)} pair{'s' * (len(found) != 1)} for prompts that show {shots} and ask for another: "
            "give more with different answers, and show 2 or more"
        )
    return found


def _deranged(answers: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """An order in which as few questions as can be keep an answer like their own."""

    def kept(order: np.ndarray) -> int:
        return sum(answers[one] == answers[other] for one, other in enumerate(order))

    return min((rng.permutation(len(answers)) for _ in range(50)), key=kept)
