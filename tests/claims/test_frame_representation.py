"""How the claim of the Frame Representation Hypothesis measures."""

import pytest
import torch

from covec.claims import frame_representation as claim
from covec.find.frame_representation import Frames
from covec.worlds.concept_words import words


@pytest.fixture(scope="module")
def frames(smol):
    return Frames(smol)


def test_a_word_has_no_part_in_the_concept_that_it_is_told_by(frames):
    pairs = claim._Pairs.of(frames)
    assert len(pairs.scores) == 80 * 8
    assert pairs.own.sum() == 80
    row = pairs.words.index("cat")
    without = frames.concept([word for word in words("animal") if word != "cat"])
    assert pairs.scores[row] == pytest.approx(frames.word("cat").correlation(without))
    assert pairs.auroc(2).n < pairs.auroc().n == 640


def test_the_words_whose_rank_is_taken_have_several_tokens_and_stand_once(frames):
    found = claim._words_of_several_tokens(frames, 500)
    assert 200 < len(found) <= 500
    assert min(one.columns.shape[1] for one in found) == 2


def test_ranks_and_ratios():
    full, ratio = claim._full([torch.eye(4)[:, :2], torch.ones(4, 2)])
    assert full == 0.5
    assert ratio == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "held"), [("two Cows and", True), ("a cowboy", False), ("foxes.", True), ("the dog", False), ("", False)]
)
def test_a_further_word_stands_whole(text, held):
    assert claim._holds(text, "animal") is held
