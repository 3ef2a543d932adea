"""How likely answers are to follow prompts."""

from __future__ import annotations

import pytest
import torch

from covec.activations.answers import Answered
from covec.errors import ExamplesError
from covec.models.text import TextModel

PROMPTS = ["The hotel was", "Water boils at", "ice", "The people were kind and the hotel was"]
ANSWERS = ["clean and kind", "100", "melts", "a"]


def by_hand(model: TextModel, prompt: str, answer: str) -> tuple[float, bool, int]:
    """Log-probability, greediness and number of tokens of an answer, from one plain call of the network."""
    ids = model.tokenizer(prompt)["input_ids"]
    wanted = model.tokenizer(f" {answer}", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model.module(input_ids=torch.tensor([ids + wanted])).logits[0, len(ids) - 1 : -1]
    likely = logits.log_softmax(1)
    each = likely[range(len(wanted)), wanted]
    return float(each.sum()), bool((likely.argmax(1) == torch.tensor(wanted)).all()), len(wanted)


def test_all_tokens_of_an_answer_count_in_turn(tiny: TextModel) -> None:
    found = Answered.of(tiny, PROMPTS, ANSWERS)
    likely, greedy = found.outcome()
    for row, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True)):
        value, right, count = by_hand(tiny, prompt, answer)
        assert (float(likely[row]), bool(greedy[row])) == (pytest.approx(value, abs=1e-3), right)
        assert len(found.answers[row]) == count
    assert max(map(len, found.answers)) > 1


def test_what_the_model_writes_greedily_is_right(tiny: TextModel) -> None:
    """Of a space and letters, which is what an answer is, a model that is made to write them."""
    head = tiny.module.get_output_embeddings()
    wanted = tiny.tokenizer(" a", add_special_tokens=False)["input_ids"]
    assert len(wanted) >= 1
    found = Answered.of(tiny, PROMPTS, ["a"] * len(PROMPTS))
    last = torch.nn.functional.normalize(head.weight[wanted], dim=1).repeat(len(PROMPTS), 1)
    logits = last @ head.weight.T
    _, greedy = found.read(last, range(len(PROMPTS)))
    assert greedy.tolist() == [bool((logits[: len(wanted)].argmax(1) == torch.tensor(wanted)).all())] * len(PROMPTS)


def test_some_of_them_say_what_all_say(tiny: TextModel) -> None:
    whole = Answered.of(tiny, PROMPTS, ANSWERS)
    part = whole.subset([2, 0])
    assert len(part) == 2
    torch.testing.assert_close(part.outcome().log_probability, whole.outcome().log_probability[[2, 0]])


def test_bad_input(tiny: TextModel) -> None:
    with pytest.raises(ExamplesError, match="row 2 has no answer"):
        Answered.of(tiny, PROMPTS[:2], ["kind", " "])
    with pytest.raises(ExamplesError, match="row 1 has no answer"):
        Answered.of(tiny, PROMPTS[:1], [None])  # type: ignore[list-item]
    with pytest.raises(ExamplesError, match="1 answers for 2 prompts"):
        Answered.of(tiny, PROMPTS[:2], ["kind"])


def test_the_answer_to_a_chat_stands_where_the_reply_begins(tiny: TextModel) -> None:
    chat = [{"role": "user", "content": "Where does the train go?"}]
    (item,) = Answered.of(tiny, [chat], ["a"]).tokens
    text = tiny.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert item.ids[: item.layout.prompt] == tuple(tiny.tokenizer(text, add_special_tokens=False).input_ids)
