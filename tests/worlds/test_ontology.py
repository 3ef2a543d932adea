"""The ontology: what follows from each noun, in rules, in words and in questions."""

from __future__ import annotations

import pytest

from covec.detect._rules import Rules
from covec.worlds import ontology


def test_twelve_nouns_lead_five_rules_far() -> None:
    assert len(ontology.NOUNS) == 12
    rules = Rules.parse(ontology.rules())
    for noun, chain in ontology.CHAINS.items():
        assert len(chain) == ontology.HOPS
        margins = {one: 1.0 if one == noun else -1.0 for one in ontology.NOUNS}
        for concept in rules.order:
            for rule in rules.by_head.get(concept, ()):
                margins[concept] = max(margins.get(concept, -1.0), rule.body.margin(margins))
        assert {name for name, one in margins.items() if one > 0} == {noun, *chain}


def test_the_rules_are_told_in_words() -> None:
    assert ontology.told("eagle") == (
        "Every eagle is a bird. Every bird is feathered. Everything feathered is light. Everything light is quick. "
        "Everything quick is shy."
    )


def test_spans_show_the_noun_and_frames_differ() -> None:
    every = ontology.mentions()
    assert len(every) == 12 * ontology.FRAMES
    assert all(one.text[slice(*one.span)] == one.noun for one in every)
    examples = ontology.mentioning("owl", every)
    assert examples.labels.sum() == ontology.FRAMES
    assert all((span is not None) == label for span, label in zip(examples.spans, examples.labels, strict=True))


@pytest.mark.parametrize("hops", [1, 3, 5])
def test_questions_are_balanced_and_have_the_answer_that_follows(hops: int) -> None:
    asked = ontology.questions(hops, names=2)
    assert len(asked) == 12 * 2 * 2
    assert sum(one.answer for one in asked) == len(asked) // 2
    assert all((one.asked in ontology.CHAINS[one.noun]) == one.answer for one in asked)
    assert ontology.questions(hops, names=2) == asked
