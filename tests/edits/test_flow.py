"""Flows: velocities, their integration, and what training asks of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.edits.flow import Flow, encoded_words, flow, start
from covec.edits.objectives import FlowMatching
from covec.edits.training import Settings, train
from covec.errors import CovecError, ExamplesError
from covec.models.plan import Pass, Plan
from covec.models.positions import Layout
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.steer.flas import Flas
from covec.worlds.toys import BAD, GOOD, toy

WIDTH = 16


def made(**others) -> Flow:
    words = torch.randn(3, 4, WIDTH, generator=torch.Generator().manual_seed(0))
    return Flow(site=Site("resid", 0), words=words, counts=(4, 2, 1), **{**start(WIDTH), **others})


def moved(edit: Flow, h: torch.Tensor, inputs=()) -> torch.Tensor:
    layout = Layout(np.zeros(h.shape[1], dtype=bool), h.shape[1], h.shape[1] - 1)
    return edit.apply(h, Pass(Plan([layout] * len(h), inputs=inputs), len(h), 0, h.shape[1], h.device))


def activations(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, WIDTH, generator=torch.Generator().manual_seed(1))


def test_steps_are_those_of_euler():
    edit, h = made(time=1.5, steps=2, unit=3.0), activations(2, 5)
    x = h / 3
    for step in range(2):
        x = x + 0.75 * edit.velocity(x, step * 0.75, [0, 0])
    assert torch.allclose(moved(edit, h), 3 * x, atol=1e-5)
    assert torch.equal(moved(replace(edit, time=0.0), h), h)


def test_untrained_it_does_not_depend_on_the_time_and_moves_little():
    edit, h = made(), activations(2, 5)
    assert torch.equal(edit.velocity(h, 0.0, [0, 0]), edit.velocity(h, 0.9, [0, 0]))
    assert float((moved(edit, h) - h).norm() / h.norm()) < 0.3


def test_every_row_follows_its_own_concept_and_no_word_that_is_not_there():
    edit, h = made(), activations(1, 5)
    rows = moved(replace(edit, concepts=(2, 0)), h.repeat(2, 1, 1), inputs=(1, 0))
    for row, place in enumerate((0, 2)):
        alone = replace(edit, words=edit.words[place : place + 1], counts=edit.counts[place : place + 1])
        assert torch.allclose(rows[row], moved(alone, h)[0], atol=1e-5)
    filled = edit.words.clone()
    filled[2, 1:] = 7.0
    other = replace(edit, words=filled)
    assert torch.allclose(other.velocity(h, 0.0, [2]), edit.velocity(h, 0.0, [2]))
    assert not torch.allclose(edit.velocity(h, 0.0, [0]), edit.velocity(h, 0.0, [1]))


def test_velocities_of_different_concepts_cost_what_they_have_in_common():
    class Batch:
        rows = (0, 1, 2)

    edit, logits = made(concepts=(0, 0, 1)), torch.zeros(1)
    assert float(edit.loss(Batch(), logits)) == 0.0  # nothing was run yet
    edit.seen[:] = [torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])]
    assert float(edit.loss(Batch(), logits)) == pytest.approx(0.1 * 0.5)


def test_it_learns_velocities_that_are_known():
    turn = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(2)) / WIDTH**0.5

    def drawn(generator):
        x = torch.randn(32, WIDTH, generator=generator)
        return x, torch.rand(32, generator=generator), x @ turn.T

    found = train([made()], FlowMatching(drawn), Settings(steps=80, rate=1e-2))
    assert found.losses[-1] < found.losses[0] / 2
    assert train([made()], FlowMatching(drawn), Settings(steps=80, rate=1e-2)).losses == found.losses


def test_words_are_encoded_as_the_second_block_leaves_them(tiny: TextModel):
    words, counts = encoded_words(tiny, ["a lovely day", "rain"])
    rows = tiny.capture(["rain"], "resid.1", "all/none")["resid.1"]
    assert counts[1] == len(rows)
    assert torch.allclose(words[1, : counts[1]], rows / rows.square().mean(1, keepdim=True).sqrt(), atol=1e-3)
    assert not words[1, counts[1] :].any()
    with pytest.raises(ExamplesError, match="in words"):
        encoded_words(tiny, ["a", " "])
    assert flow(tiny, "resid.1", ["rain"], ["It rains."]).width == tiny.width


def test_a_fitted_flow_can_be_told_other_words():
    world = toy(0, read=True, texts=24)
    quick = Flas("resid.0", Settings(steps=4, rate=1e-3))
    with pytest.raises(CovecError, match="name the concept in words that it knows"):
        quick.fit(world.model, world.examples)
    steering = quick.fit(world.model, replace(world.examples, name=GOOD[0]))
    one, other = (steering.told(words) for words in (GOOD[0], BAD[0]))
    assert one != other
    assert one == steering.told(GOOD[0])
    with world.model.edit(one):
        assert world.model.generate(world.neutral[0], max_new_tokens=2)
    (vector,) = steering.vectors.values()
    assert vector.scale_from == "native"
    with pytest.raises(CovecError, match="not fitted"):
        Flas().told("rain")
    with pytest.raises(CovecError, match="finite number, not nan"):
        steering.told("rain", float("nan"))
