"""How RepIt's claim measures."""

import numpy as np
import pytest
import torch

from covec.claims.repit import _Words


@pytest.fixture
def words():
    """Log-probabilities that are linear in the shift, but for a first topic that saturates."""
    made = _Words.__new__(_Words)
    made._ids = [[0], [1], [2]]
    made.change = lambda shift: np.array([min(2.0, 4.0 * float(shift[0])), float(shift[0]), -3.0 * float(shift[0])])
    return made


def test_selectivity_is_read_where_the_effect_is_the_wanted_one(words):
    direction = torch.tensor([1.0, 0.0])
    assert words.selectivity(direction, 0, 1.0, [0.2, 0.4, 2.0]) == pytest.approx(1.0 / 0.5)
    assert words.selectivity(direction, 1, 0.7, [0.5, 1.0]) == pytest.approx(0.7 / ((2.0 + 2.1) / 2))


def test_what_never_reaches_it_is_judged_at_its_best(words):
    assert words.selectivity(torch.tensor([1.0, 0.0]), 0, 9.0, [0.25, 0.5]) == pytest.approx(2.0 / 1.0)


def test_changes_are_of_the_model_s_own_words(smol):
    found = _Words(smol, 28, ("food", "music"))
    assert not found.change(torch.zeros(576)).any()
    toward = found.change(50 * torch.nn.functional.normalize(smol.module.lm_head.weight[found._ids[1]].mean(0), dim=0))
    assert toward[1] > toward[0]
