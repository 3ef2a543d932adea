import pytest

from covec.worlds.concept_words import CONCEPTS, further_words, words


def test_every_word_stands_once():
    listed = [word for concept in CONCEPTS for word in words(concept)]
    assert len(listed) == len({*listed}) == 80


@pytest.mark.parametrize("concept", ["animal", "food"])
def test_further_words_are_none_of_a_concept_s(concept):
    assert not {*further_words(concept)} & {*words(concept)}
    assert len({*further_words(concept)}) == len(further_words(concept)) > 15
