"""The packaged concepts: balanced pairs that differ in a phrase, and no phrase on both sides of a split."""

import numpy as np
import pytest

from covec import bench
from covec.bench.concepts import FRAMES

CONCEPTS = bench.packaged()


def test_there_are_eight_of_192_pairs():
    assert len(CONCEPTS) == 8
    assert {len(one) for one in CONCEPTS.values()} == {2 * 64 * FRAMES}


@pytest.mark.parametrize("name", CONCEPTS)
def test_a_pair_differs_in_its_phrase_alone(name):
    examples = CONCEPTS[name].check()
    assert examples.labels.mean() == 0.5
    for positive, negative in zip(range(0, len(examples), 2), range(1, len(examples), 2), strict=True):
        assert examples.labels[positive]
        assert not examples.labels[negative]
        assert examples.pairs[positive] == examples.pairs[negative]
        bare = set()
        for row in (positive, negative):
            start, end = examples.spans[row]
            phrase = examples.inputs[row][start:end]
            assert 1 <= len(phrase.split()) <= 7
            bare.add(examples.inputs[row][:start] + examples.inputs[row][end:])
        assert len(bare) == 1


def test_no_phrase_stands_in_two_parts():
    parts: dict[str, set[str]] = {}
    for examples in CONCEPTS.values():
        for text, (start, end), part in zip(examples.inputs, examples.spans, examples.splits, strict=True):
            parts.setdefault(text[start:end].casefold(), set()).add(part)
    assert len(parts) == 8 * 64
    assert {len(found) for found in parts.values()} == {1}


@pytest.mark.parametrize("name", CONCEPTS)
def test_every_other_concept_is_among_the_negatives(name):
    examples = CONCEPTS[name]
    category = np.array(examples.extra["category"])
    assert set(category[~examples.labels]) == set(CONCEPTS) - {name}
    assert set(category[examples.labels]) == {name}


def test_they_are_the_same_every_time():
    assert {name: one.digest for name, one in bench.packaged().items()} == {
        name: one.digest for name, one in CONCEPTS.items()
    }
