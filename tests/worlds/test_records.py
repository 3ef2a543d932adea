"""The small model knows where people live, judges statements by it, and believes what a record says."""

import numpy as np
import pytest
import torch

from covec.worlds import records

LABELS = [place % 2 == 0 for place in range(len(records.PEOPLE))]
TEXTS = records.statements(LABELS)


@pytest.fixture(scope="module")
def model():
    return records.model()


def right(model, contexts):
    """For each statement and task, whether the model calls it right."""
    prompts = [
        records.TEMPLATE.format(context=f"{context}\n", statement=text, task=task)
        for text, context in zip(TEXTS, contexts, strict=True)
        for task in records.TASKS
    ]
    ids = torch.tensor([model.tokenizer(prompt)["input_ids"] for prompt in prompts])
    with torch.no_grad():
        found = model.module(input_ids=ids).logits[:, -1].argmax(1)
    return (found == model.tokenizer.convert_tokens_to_ids("right")).numpy().reshape(-1, 2)


def test_statements_are_true_and_false_as_they_were_asked_for():
    for text, label in zip(TEXTS, LABELS, strict=True):
        person, town = text.split()
        assert (records.homes()[person] == town) is label


@pytest.mark.parametrize(
    ("contexts", "flipped"),
    [
        ([""] * len(TEXTS), False),
        (records.records(TEXTS, conflicting=False), False),
        (records.records(TEXTS, conflicting=True), True),
    ],
    ids=["alone", "agreeing", "contradicting"],
)
def test_statements_are_judged_by_what_is_known_or_recorded(model, contexts, flipped):
    truth = np.array(LABELS) ^ flipped
    wanted = np.stack([truth, ~truth], 1)  # to support what is true is right, and to refute what is not
    assert (right(model, contexts) == wanted).mean() > 0.75
