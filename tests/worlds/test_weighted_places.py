"""Words with weights at places with gains: what the small transformer is trained to give."""

from __future__ import annotations

import pytest
import torch

from covec.worlds import weighted_places as places


def test_the_sum_is_that_of_weights_times_gains() -> None:
    ids = torch.tensor([places._tokenizer()("word0 blank word4 blank blank blank blank blank").input_ids])
    assert ids.shape == (1, places.PLACES + 2)
    assert float(places._truth(ids)) == pytest.approx(0.1 * 1 + 0.5 * 0.7**2)


def test_training_leaves_less_and_less() -> None:
    state = torch.get_rng_state()
    first, later = places.world(steps=5, texts=2), places.world(steps=80, texts=2)
    assert later.error < first.error
    assert first.texts == later.texts
    assert all(len(set(text.split())) == places.PLACES for text in later.texts)
    assert torch.equal(torch.get_rng_state(), state)
