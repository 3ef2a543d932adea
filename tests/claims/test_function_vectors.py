"""How the claim of function vectors chooses and counts."""

import numpy as np
import pytest
import torch

from covec.claims import function_vectors as claimed
from covec.claims.function_vectors import _few_heads, _Place, _Setting, _Task, _Tested
from covec.find._mediation import Mediation
from covec.models.sites import Site


def test_controls_count_together():
    greedy = {"vector": np.array([1, 0, 1, 1]), "random 0": np.array([0, 0]), "random 1": np.array([1, 0])}
    likely = {"vector": np.array([-1.0, -3.0]), "random 0": np.array([-5.0]), "random 1": np.array([-7.0])}
    tested = _Tested(greedy, likely, _Place(14, 2.0))
    assert (tested.accuracy("vector"), tested.accuracy("random")) == (0.75, 0.25)
    assert (tested.log_probability("vector"), tested.log_probability("random")) == (-2.0, -6.0)
    figure = tested.figure("vector", "how")
    assert (figure.value, figure.n) == (0.75, 4)
    assert 0 < figure.low < 0.75 < figure.high < 1


class Chosen(_Task):
    """A task in which accuracy and likelihood are given, of the vector's places and then of the stream's."""

    vector = torch.ones(2)
    greedy, likely = [0.2, 0.5, 0.5, 0.1, 0.0, 0.3, 0.3, 0.3], [-1, -3, -2, 0, 0, -9, -8, -7]

    def _answers(self, pairs, edits):
        assert (len(pairs), len(edits)) == (3, 8)
        return np.array(self.greedy)[:, None], np.array(self.likely)[:, None]


def test_the_place_that_answers_most_is_chosen_and_of_equals_the_likelier():
    setting = _Setting(blocks=(1, 2), lengths=(1.0, 2.0), choosing=3)
    stream = {Site("resid", block): torch.zeros(2) for block in (1, 2)}
    task = Chosen(None, "task", setting, [("a", "b")] * 5, [], None, stream)
    assert task._chosen() == (_Place(2, 1.0), _Place(2, 2.0))


def test_the_share_of_a_few_heads_is_of_what_all_heads_add(monkeypatch):
    heads = tuple(Site("head", 0, head) for head in range(20))
    estimates = torch.tensor([3.0, 1.0, -4.0, *[0.0] * 17])
    effects = torch.full((20,), torch.nan)
    effects[:3] = torch.tensor([2.0, 1.0, -1.0])
    task = _Task(None, "task", _Setting(), [], [], Mediation(heads, torch.eye(20), estimates, effects), {})
    monkeypatch.setattr(claimed, "HEADS", 1)
    share, ranks = _few_heads([task])
    assert share.figure.value == pytest.approx(3 / 4)
    assert ranks.figure.value == pytest.approx(1.0)
