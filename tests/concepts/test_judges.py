"""Judges: what shows a concept is rated above what does not, and what cannot be judged is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.concepts.examples import Examples
from covec.concepts.judges import ClassifierJudge, Judge, SentenceJudge, default_judge
from covec.concepts.packaged import neutral_texts
from covec.errors import ExamplesError
from covec.worlds.topics import TOPICS, about


def by_letters(texts):
    """A stand-in for meaning: how often each letter occurs."""
    counts = torch.tensor([[text.lower().count(letter) + 0.01 for letter in "abcdefghijkl"] for text in texts])
    return torch.nn.functional.normalize(counts, dim=1)


NEUTRAL = ["abcd", "bcde", "cdef", "defg", "efgh", "fghi"]


@pytest.fixture(scope="module")
def trained():
    others = [text for topic in TOPICS[1:] for text in about(topic, 12)]
    return ClassifierJudge({"food": Examples.from_lists(about("food", 60), others, name="food")})


@pytest.mark.parametrize("make", [lambda: SentenceJudge(by_letters, NEUTRAL), lambda: default_judge(
    {"a": Examples.from_lists(["a tale", "a day"], ["one two", "the end"], name="a")}
)])  # fmt: skip
def test_both_are_judges(make):
    assert isinstance(make(), Judge)


def test_a_rating_is_how_many_deviations_above_neutral_texts_a_text_is():
    judge = SentenceJudge(by_letters, NEUTRAL)
    cosines = by_letters(NEUTRAL) @ by_letters(["aab"])[0]
    z = (by_letters(["aabb"]) @ by_letters(["aab"])[0] - cosines.mean()) / cosines.std()
    wanted = 2 * torch.special.ndtr(z - 2)
    assert judge.rate("aab", ["aabb"]) == pytest.approx(wanted.numpy(), abs=1e-5)


@given(st.lists(st.text("abcdefghijkl ", max_size=12), max_size=6), st.text("abcdef", min_size=1, max_size=8))
def test_ratings_are_within_bounds_and_each_text_is_rated_alone(texts, description):
    judge = SentenceJudge(by_letters, NEUTRAL)
    ratings = judge.rate(description, texts)
    assert ratings.shape == (len(texts),)
    assert ((ratings >= 0) & (ratings <= 2)).all()
    alone = [judge.rate(description, [text])[0] for text in texts]
    np.testing.assert_allclose(ratings, alone, atol=1e-6)
    assert all(rating == 0 for rating, text in zip(ratings, texts, strict=True) if not text.strip())


def test_a_classifier_judges_words_that_it_was_not_trained_on_the_texts_of(trained):
    own, other = about("food", 40, seed=7), about("money", 20, seed=7)
    assert trained.rate("food", own).mean() > 1.5
    assert trained.rate("food", other).mean() < 0.5
    assert trained.rate("food", []).shape == (0,)


def test_what_cannot_be_judged_is_refused(trained):
    with pytest.raises(ExamplesError, match="not trained on 'sport'; it knows 'food'"):
        trained.rate("sport", ["a"])
    with pytest.raises(ExamplesError, match="description is empty"):
        SentenceJudge(by_letters, NEUTRAL).rate(" ", ["a"])
    with pytest.raises(ExamplesError, match="two neutral texts"):
        SentenceJudge(by_letters, ["a"])
    with pytest.raises(ExamplesError, match="needs the examples of one"):
        ClassifierJudge({})


def test_by_meaning_topics_are_told_apart_and_neutral_texts_show_none(minilm):
    from covec.activations.sentences import SentenceEncoder

    judge = SentenceJudge(SentenceEncoder(minilm))
    texts = {topic: about(topic, 5) for topic in TOPICS}
    for topic in TOPICS:
        means = {other: judge.rate(topic, texts[other]).mean() for other in TOPICS}
        assert max(means, key=means.__getitem__) == topic
        assert means[topic] > 1
    assert judge.rate("food", neutral_texts()).mean() < 0.3
