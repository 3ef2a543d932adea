"""Sentences with one span of a topic."""

import pytest

from covec.worlds.spans import _ENDINGS, _FRAMES, _OPENINGS, TOPICS, sentences

WORLD = sentences(200, seed=3)


def test_spans_hold_words_of_their_topic_and_nothing_else_does():
    every = {word for words in TOPICS.values() for word in words.split()}
    for text, topic, (start, end) in zip(WORLD.texts, WORLD.topics, WORLD.spans, strict=True):
        shown = text[start:end].replace(",", "").replace(" and ", " ").split()
        assert 1 <= len(shown) <= 4
        assert set(shown) <= set(TOPICS[topic].split())
        rest = (text[:start] + text[end:]).lower().replace(",", "").replace(".", "").split()
        assert every.isdisjoint(rest)


def test_banks_are_disjoint_and_filler_names_no_topic():
    words = [word for listed in TOPICS.values() for word in listed.split()]
    assert len(set(words)) == len(words)
    filler = " ".join((*_OPENINGS, *_FRAMES, *_ENDINGS)).lower().split()
    assert set(words).isdisjoint(filler)


def test_topics_take_turns_and_texts_differ():
    assert len(set(WORLD.texts)) == len(WORLD.texts)
    assert {WORLD.topics.count(topic) for topic in TOPICS} == {50}
    assert sentences(200, seed=3) == WORLD
    assert sentences(200, seed=4).texts != WORLD.texts


@pytest.mark.parametrize("topic", TOPICS)
def test_examples_set_one_topic_against_the_others(topic):
    examples = WORLD.examples(topic).check()
    assert examples.labels.sum() == 50
    assert all((span is not None) == label for span, label in zip(examples.spans, examples.labels, strict=True))
