"""Prompts that demonstrate a function, and prompts that demonstrate none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.concepts.demonstrations import demonstrations, question
from covec.errors import ExamplesError

PAIRS = [(f"word{place}", f"answer{place}") for place in range(12)]


def lines(prompt: str) -> tuple[list[tuple[str, str]], str]:
    """The pairs that a prompt shows, and what it asks for."""
    *shown, asked = prompt.split("\n\n")
    found = [tuple(line[3:] for line in one.split("\n")) for one in shown]
    assert asked.endswith("\nA:")
    return found, asked.removeprefix("Q: ").removesuffix("\nA:")  # type: ignore[return-value]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), shots=st.integers(2, 11), prompts=st.integers(1, 30))
def test_positives_show_pairs_and_negatives_the_same_words_shuffled(seed: int, shots: int, prompts: int) -> None:
    examples = demonstrations(PAIRS, shots=shots, prompts=prompts, seed=seed)
    assert len(examples) == 2 * prompts
    answers = dict(PAIRS)
    for row in range(0, 2 * prompts, 2):
        (clean, asked), (broken, again) = lines(examples.inputs[row]), lines(examples.inputs[row + 1])
        assert asked == again
        assert asked not in dict(clean)
        assert len(dict(clean)) == shots
        assert all(answers[word] == answer for word, answer in clean)
        assert not any(answers[word] == answer for word, answer in broken)
        assert [word for word, _ in broken] == [word for word, _ in clean]
        assert {answer for _, answer in broken} == {answer for _, answer in clean}
        assert examples.extra["task"][row : row + 2] == (answers[asked],) * 2
        assert examples.labels[row : row + 2].tolist() == [True, False]
    assert len(set(examples.pairs or ())) == prompts


def test_every_word_is_asked_for_before_one_is_again() -> None:
    asked = [lines(prompt)[1] for prompt in demonstrations(PAIRS, prompts=12).positive]
    assert sorted(asked) == sorted(word for word, _ in PAIRS)


def test_the_same_seed_gives_the_same_prompts() -> None:
    first, again, other = (demonstrations(PAIRS, seed=seed) for seed in (1, 1, 2))
    assert first.inputs == again.inputs
    assert first.inputs != other.inputs


def test_a_prompt_without_examples_ends_as_the_others_do() -> None:
    assert (
        demonstrations(PAIRS, prompts=1)
        .inputs[0]
        .endswith(question(lines(demonstrations(PAIRS, prompts=1).inputs[0])[1]))
    )


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (PAIRS[:1], "1 pair for prompts that show 5"),
        (PAIRS[:5], "5 pairs for prompts that show 5"),
        ([(word, "same") for word, _ in PAIRS], "with different answers"),
        ([*PAIRS, ("word3", "other")], "'word3' is asked twice"),
        ([*PAIRS, ("word13", " ")], "pair 13 is"),
        ([*PAIRS, "word13:answer13"], "pair 13 is"),
        ([*PAIRS, ("one", "two", "three")], "pair 13 is"),
    ],
)
def test_bad_pairs_are_refused_in_a_line(pairs: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(ExamplesError, match=words) as told:
        demonstrations(pairs, name="task")
    assert "\n" not in str(told.value)
