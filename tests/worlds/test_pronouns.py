"""Openings about a person."""

from covec.models.vocabulary import Vocabulary
from covec.worlds.pronouns import WORDS, openings


def test_the_two_of_a_pair_differ_in_the_person_alone():
    examples = openings().check()
    assert len(examples) == 2 * 14 * 10
    for woman, man, *labels in zip(
        examples.inputs[::2], examples.inputs[1::2], examples.labels[::2], examples.labels[1::2], strict=True
    ):
        differing = [pair for pair in zip(woman.split(), man.split(), strict=True) if pair[0] != pair[1]]
        assert len(differing) == 1
        assert labels == [True, False]
    assert examples.pairs[0] == examples.pairs[1]
    assert len(set(examples.pairs)) == len(examples) // 2


def test_people_can_be_held_out():
    first, others = openings(0, 3), openings(3)
    assert {*first.inputs, *others.inputs} == set(openings().inputs)
    assert len(first) + len(others) == len(openings())


def test_the_positives_expect_she(smol):
    examples, vocabulary = openings(0, 1), Vocabulary(smol)
    assert [word == WORDS[0] for word in examples.extra["observable"]] == examples.labels.tolist()
    assert len({vocabulary.token(word) for word in WORDS}) == 2
