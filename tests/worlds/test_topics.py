"""Sentences about topics."""

import re

import pytest

from covec.models.vocabulary import Vocabulary
from covec.worlds.topics import TOPICS, about, asked


@pytest.mark.parametrize("topic", TOPICS)
def test_sentences_are_different_and_hold_no_word_that_is_asked_for(topic):
    texts = about(topic, 40)
    assert len(set(texts)) == 40
    assert about(topic, 12) == texts[:12]
    assert not {word for text in texts for word in re.findall(r"\w+", text.lower())} & set(asked(topic))


def test_only_the_topic_s_words_differ_between_topics():
    frames = {topic: {re.sub(r"the \w+", "the _", text) for text in about(topic, 60)} for topic in TOPICS}
    assert len({frozenset(found) for found in frames.values()}) == 1


def test_the_words_asked_for_are_one_token_each_and_of_one_topic(smol):
    vocabulary = Vocabulary(smol)
    tokens = [vocabulary.token(word) for topic in TOPICS for word in asked(topic)]
    assert len(set(tokens)) == len(tokens) == 10 * len(TOPICS)
