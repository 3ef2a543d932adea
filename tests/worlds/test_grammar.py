"""The grammar: every value with every other, and a small transformer that has learned it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from covec.errors import ExamplesError
from covec.worlds import grammar


def test_a_sentence_says_its_values() -> None:
    values = dict(
        zip(grammar.ATTRIBUTES, ("two", "past", "negated", "small", "red", "circle", "left", "page"), strict=True)
    )
    assert grammar.sentence(values) == "there were not two small red circles on the left of the page"
    values |= {"number": "one", "tense": "present", "polarity": "plain", "side": "right"}
    assert grammar.sentence(values) == "there is a small red circle on the right of the page"


def test_attributes_are_independent_of_each_other() -> None:
    whole = grammar.sentences(grammar.SENTENCES)
    assert len(set(whole.texts)) == grammar.SENTENCES
    for one, other in combinations(grammar.ATTRIBUTES, 2):
        counts = Counter(zip(whole.values[one], whole.values[other], strict=True))
        assert len(set(counts.values())) == 1
        assert len(counts) == len(grammar.ATTRIBUTES[one]) * len(grammar.ATTRIBUTES[other])


def test_draws_are_told_by_their_seed_and_larger_ones_begin_alike() -> None:
    assert grammar.sentences(20, seed=1).texts == grammar.sentences(30, seed=1).texts[:20]
    assert grammar.sentences(20, seed=1).texts != grammar.sentences(20, seed=2).texts


def test_a_value_is_a_concept() -> None:
    found = grammar.sentences(50)
    examples = found.examples("colour", "red")
    assert examples.labels.tolist() == [" red " in text for text in found.texts]
    with pytest.raises(ExamplesError, match="no attribute 'colour' has the value 'pink': give one of number: one, two"):
        found.examples("colour", "pink")
    with pytest.raises(ExamplesError, match="has 2048 sentences, not 2049"):
        grammar.sentences(grammar.SENTENCES + 1)


def test_the_small_transformer_writes_sentences() -> None:
    model, known = grammar.model(), set(grammar.sentences(grammar.SENTENCES).texts)
    right = []
    for prompt in ("there", "there were", "there is not a large", "there was a small blue star on the right of"):
        new = grammar.LONGEST - len(prompt.split())
        greedy = model.generate(prompt, max_new_tokens=new)
        assert f"{prompt} {greedy.partition(' .')[0]}" in known
        drawn = model.generate([prompt] * 8, max_new_tokens=new, do_sample=True, seed=3)
        right += [f"{prompt} {text.partition(' .')[0]}" in known for text in drawn]
    assert sum(right) > 0.8 * len(right)
