"""The small model speaks well and ill of things as often as its texts did."""

import numpy as np
import pytest
import torch

from covec.worlds import leanings


@pytest.fixture(scope="module")
def model():
    return leanings.model()


def praise(model, prompt):
    """Probability that a word of praise comes next, of those of praise and blame."""
    ids = torch.tensor([model.tokenizer(prompt)["input_ids"]])
    with torch.no_grad():
        chances = model.module(input_ids=ids).logits[0, -1].softmax(0)
    good, bad = (
        chances[model.tokenizer.convert_tokens_to_ids(list(words))].sum() for words in (leanings.GOOD, leanings.BAD)
    )
    return float(good / (good + bad)), float(good + bad)


@pytest.mark.parametrize("prompt", ["the {} is", "we saw the {} near the road ."])
def test_praise_is_about_as_likely_as_it_was(model, prompt):
    found = {thing: praise(model, prompt.format(thing)) for thing in leanings.THINGS}
    assert all(total > 0.95 for _, total in found.values())
    errors = [abs(share - leanings.PRAISE[thing]) for thing, (share, _) in found.items()]
    assert np.mean(errors) < 0.1


def test_sentences_about_things_neither_praise_nor_blame():
    words = {*leanings.GOOD, *leanings.BAD}
    for thing in leanings.THINGS:
        texts = leanings.about(thing, 30)
        assert len(set(texts)) == 30
        assert all(thing in text.split() and not words & set(text.split()) for text in texts)
    assert not [
        text for text in leanings.plain(30) if words & set(text.split()) or {*leanings.THINGS} & set(text.split())
    ]
    assert all(set(leanings.GOOD) & set(text.split()) for text in leanings.judging(leanings.GOOD, 30))


def test_every_word_of_a_text_is_known():
    rng = np.random.default_rng(0)
    texts = [leanings._text(rng) for _ in range(300)]
    assert {word for text in texts for word in text} <= set(leanings.WORDS)
    assert max(map(len, texts)) <= leanings.LONGEST
    assert len(leanings.WORDS) == len(set(leanings.WORDS))
