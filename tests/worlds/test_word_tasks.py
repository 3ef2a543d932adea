"""Packaged word tasks."""

import pytest

from covec.concepts.demonstrations import demonstrations
from covec.worlds.word_tasks import TASKS, word_pairs


@pytest.mark.parametrize("task", TASKS)
def test_a_task_asks_each_word_once_and_can_be_demonstrated_with_half_of_them(task):
    pairs = word_pairs(task)
    assert len(pairs) >= 60
    assert len({word for word, _ in pairs}) == len(pairs)
    assert all(word.strip() == word and answer.strip() == answer and word != answer for word, answer in pairs)
    assert len(demonstrations(pairs[::2])) == 80


def test_some_answers_are_several_tokens(smol):
    tokens = [len(smol.tokenizer(f" {answer}")["input_ids"]) for task in TASKS for _, answer in word_pairs(task)]
    assert max(tokens) > 1
    assert sum(count == 1 for count in tokens) > 0.8 * len(tokens)
