"""Bias probes: a late block's difference of means, behind a gate that opens where the probe asks for it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.steer.bias_probe_steer import BiasProbeSteer
from covec.worlds.toys import toy


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


@pytest.fixture(scope="module")
def fitted(world):
    return BiasProbeSteer(block=0, inverse_ridge=0.1).fit(world.model, world.examples)


def test_the_late_block_that_tells_best_is_steered(world):
    free = BiasProbeSteer(inverse_ridge=0.1).fit(world.model, world.examples)
    assert str(free.edits()[0].site) == "resid.1"  # the last third of two blocks
    for vector in free.vectors.values():
        assert 0.5 < vector.figures["auroc"].value <= 1.0


@pytest.mark.parametrize("strength", [1.0, -1.0, 0.5])
def test_it_adds_the_difference_of_means_where_the_probe_finds_the_other_class(world, fitted, strength):
    (edit,) = (replace(one, position=Position("all")) for one in fitted.edits(strength))
    vector = fitted.vectors["good words/resid.0"]
    plain = world.model.capture(world.examples.inputs, edit.site, "all/none")[edit.site]
    with world.model.edit(edit):
        found = world.model.capture(world.examples.inputs, edit.site, "all/none")[edit.site]
    present = vector.probability(vector.score(plain)) > 0.5
    steered = ~present if strength > 0 else present
    assert steered.any()
    assert (~steered).any()
    assert torch.equal(found[~steered], plain[~steered])
    assert torch.allclose(found[steered], plain[steered] + strength * vector.write, atol=1e-5)


def test_a_higher_threshold_opens_at_fewer_tokens(world, fitted):
    rows = world.model.capture(world.examples.inputs, "resid.0", "content/none")["resid.0"]
    opened = []
    for threshold in (0.1, 0.5, 0.9):
        one = BiasProbeSteer(threshold, block=0)
        one.vectors = fitted.vectors
        opened.append(int(one.edits()[0].gate.fires(rows[None]).sum()))
    assert opened[0] > opened[1] > opened[2]
    everywhere = BiasProbeSteer(0.0, block=0)
    everywhere.vectors = fitted.vectors
    assert everywhere.edits()[0].gate is None


def test_whole_groups_are_held_out(world):
    groups = tuple(row % 10 for row in range(len(world.examples)))
    examples = Examples(world.examples.inputs, world.examples.labels, groups=groups, name="c")
    fitted = BiasProbeSteer().fit(world.model, examples)
    per_group = len(examples) / 10
    held_out = next(iter(fitted.vectors.values())).figures["auroc"].n
    assert np.isclose(held_out / per_group, round(held_out / per_group), atol=0.2)


def test_what_cannot_be_done_is_told_in_one_line(world, fitted):
    with pytest.raises(CovecError, match="from 0 to below 1, not 1"):
        BiasProbeSteer(threshold=1.0).fit(world.model, world.examples)
    with pytest.raises(CovecError, match="not fitted"):
        BiasProbeSteer().edits()
    with pytest.raises(CovecError, match="finite number, not inf"):
        fitted.edits(math.inf)
    elsewhere = BiasProbeSteer(block=7)
    elsewhere.vectors = fitted.vectors
    with pytest.raises(CovecError, match="block 7 was not probed"):
        elsewhere.edits()
    assert fitted.edits(0.0) == ()


def test_texts_are_the_same_with_and_without_the_cache(world, fitted):
    with world.model.edit(*fitted.edits(5.0)):
        written = world.model.generate(list(world.neutral[:4]), max_new_tokens=4)
        assert world.model.generate(list(world.neutral[:4]), max_new_tokens=4, use_cache=False) == written


def test_any_family_can_be_steered(tiny: TextModel):
    words = ["Bread", "Water", "Stone", "Grass", "Light", "Night", "Paper", "Cloud", "River", "House"]
    examples = Examples.from_lists([f"{word} is good!" for word in words], [f"{word} is bad." for word in words])
    steering = BiasProbeSteer().fit(tiny, examples)
    assert len(steering.vectors) == tiny.blocks
    assert len(tiny.generate(["Bread"], edits=[steering.edits()], max_new_tokens=2)) == 1
