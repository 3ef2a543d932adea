"""How the claim of the cylindrical representation measures."""

import numpy as np
import pytest
import torch

from covec.activations.answers import Answered
from covec.activations.split import Split
from covec.claims import cylindrical_representation as claim
from covec.edits.algebra import Add
from covec.edits.encoded import encoded
from covec.models.positions import Position
from covec.models.sites import Site
from covec.worlds.manners import MANNERS, QUESTIONS, mannered, plain


def test_a_shift_of_its_own_for_each_row_is_adding_it(smol):
    answered = Answered.of(smol, list(QUESTIONS[:3]), [plain(one) for one in QUESTIONS[:3]])
    batches = encoded(Split(smol, "resid.28"), answered.tokens, Position("content"))
    shifts = 3 * torch.randn(3, 576, generator=torch.Generator().manual_seed(0))
    found = claim._likely(answered, batches, shifts)
    for row in range(3):
        with smol.edit(Add(site=Site("resid", 28), shift=shifts[row])):
            wanted = answered.subset([row]).outcome().log_probability / len(answered.answers[row])
        assert found[row] == pytest.approx(float(wanted), abs=1e-3)
    assert np.abs(found - claim._likely(answered, batches, None)).min() > 1e-3


def test_pairs_are_of_one_concept_and_of_two_samples():
    one, other = claim._pairs(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2, 3]))
    assert sorted(zip(one.tolist(), other.tolist(), strict=True)) == [(0, 1), (0, 1), (2, 3)]


@pytest.mark.parametrize("manner", MANNERS)
def test_manners_change_every_answer_and_end_as_it_does(manner):
    answers = [mannered(one, manner) for one in QUESTIONS]
    assert len(set(answers)) == len(QUESTIONS) == 40
    assert all(answer.endswith(".") and answer != plain(one) for answer, one in zip(answers, QUESTIONS, strict=True))
