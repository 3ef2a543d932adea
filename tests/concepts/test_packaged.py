"""The packaged texts: as many as they should be, and without a cue that gives the class away."""

from __future__ import annotations

from collections import Counter

import numpy as np

from covec.concepts.examples import Examples
from covec.concepts.packaged import example_concept, neutral_prompts, neutral_texts
from covec.measure._baselines import cue_probe
from covec.statistics.splits import split


def words(texts: tuple[str, ...]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_the_example_concept_is_balanced() -> None:
    examples = example_concept()
    assert (len(examples), int(examples.labels.sum())) == (320, 160)
    assert examples.name == "sentiment"
    assert examples.notes == ()
    assert 6 <= min(words(examples.inputs)) <= max(words(examples.inputs)) <= 25
    positive, negative = np.mean(words(examples.positive)), np.mean(words(examples.negative))
    assert abs(positive - negative) < 0.5
    endings = [Counter(text[-1] for text in texts) for texts in (examples.positive, examples.negative)]
    assert max(abs(endings[0][mark] - endings[1][mark]) for mark in ".!?") <= 1
    openings = [Counter(text.split()[0] for text in texts) for texts in (examples.positive, examples.negative)]
    assert sum((openings[0] & openings[1]).values()) >= 150


def test_no_cue_tells_the_classes_of_the_example_concept_apart() -> None:
    examples = example_concept()
    areas = [
        cue_probe(examples, split(examples.keys, examples.labels, pairs=examples.pairs, seed=s)).auroc for s in range(4)
    ]
    assert np.mean([area.value for area in areas]) < 0.6


def test_neutral_prompts_and_texts_are_what_they_should_be() -> None:
    assert len(set(neutral_prompts())) == 50
    assert 4 <= min(words(neutral_prompts())) <= max(words(neutral_prompts())) <= 9
    assert len(set(neutral_texts())) == 100
    assert 15 <= min(words(neutral_texts())) <= max(words(neutral_texts())) <= 25
    Examples.from_lists(neutral_texts(), neutral_prompts())  # no text is empty or stands in both
