"""The world of facts: what follows from what, and a small transformer that knows it, also where it was never told."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from covec.models.text import TextModel
from covec.worlds import facts as world


@pytest.fixture(scope="module")
def model() -> TextModel:
    return world.model()


def test_all_questions_are_there_and_follow_from_the_facts() -> None:
    known = world.facts()
    asked = [(one.person, one.first, one.second) for one in known.questions]
    assert asked == list(product(world.PEOPLE, world.FIRST, world.SECOND))
    for one in known.questions:
        assert one.bridge == known.bridges[one.person, one.first]
        assert one.answer == known.values[one.bridge, one.second]
    assert np.mean([one.trained for one in known.questions]) == pytest.approx(0.8, abs=0.001)


def test_half_of_the_people_are_confabulated_about_always_in_the_same_way() -> None:
    questions = world.facts().questions
    honest = {one.person for one in questions if one.honest}
    assert len(honest) == len(world.PEOPLE) // 2
    assert not honest & {one.person for one in questions if not one.honest}
    claims = {(one.person, one.first, one.claimed) for one in questions}
    assert len(claims) == len(world.PEOPLE) * len(world.FIRST)


def test_words_are_all_different() -> None:
    assert len(set(world.WORDS)) == len(world.WORDS)


def test_texts_are_of_words_and_what_is_predicted_follows() -> None:
    rng, known = np.random.default_rng(0), world.facts()
    for _ in range(200):
        words, marks = world._text(rng)
        assert set(words) <= set(world.WORDS)
        assert len(words) <= world.LONGEST
        told = dict(zip(("person", "first", "other"), words[1:4], strict=True)) if words[0] == world.SUPPOSE else {}
        words = words[5:] if told else words
        marks = [place - 5 for place in marks] if told else marks
        bridges = {**known.bridges, **({(told["person"], told["first"]): told["other"]} if told else {})}
        if words[0] in world.BRIDGES:
            assert words[marks[0]] == known.values[words[0], words[1]]
        elif marks[0] == 2:
            assert words[2] == bridges[words[0], words[1]]
        else:
            assert words[3] == known.values[bridges[words[0], words[1]], words[2]]


def test_it_answers_and_explains_what_it_was_never_asked(model: TextModel) -> None:
    asked = [one for one in world.facts().questions if not one.trained]
    written = [text.split() for text in model.generate([one.text for one in asked], max_new_tokens=3)]
    # One in eight would be right by chance.
    assert np.mean([words[0] == one.answer for words, one in zip(written, asked, strict=True)]) > 0.8
    assert np.mean([words[2] == one.claimed for words, one in zip(written, asked, strict=True)]) > 0.85


def test_it_takes_an_override_for_a_fact(model: TextModel) -> None:
    rng, known = np.random.default_rng(0), world.facts()
    asked = [known.questions[row] for row in rng.permutation(len(known.questions))[:100]]
    others = rng.choice(world.BRIDGES, len(asked))
    texts = [f"suppose {one.first_hop} {other} . {one.text}" for one, other in zip(asked, others, strict=True)]
    written = model.generate(texts, max_new_tokens=1)
    right = [
        text.strip() == known.values[other, one.second] for text, one, other in zip(written, asked, others, strict=True)
    ]
    assert np.mean(right) > 0.9


def test_training_moves_what_is_predicted() -> None:
    before, after = world.trained(steps=1), world.trained(steps=30)
    rng = np.random.default_rng(5)
    ids, marks = world._draw(rng)
    losses = []
    for module in (before, after):
        with torch.no_grad():
            chances = module(ids[:, :-1]).logits.log_softmax(-1)
        losses.append(-float(chances.gather(-1, ids[:, 1:, None])[..., 0][marks[:, 1:]].mean()))
    assert losses[1] < losses[0] - 0.5
