"""GCAV: SCAV's algebra for one concept, one linear program for several."""

import math

import pytest
import torch

from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.steer.gcav_generation import GcavGeneration, together
from covec.steer.scav import Scav
from covec.worlds.toys import toy


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


def fitted(world, examples, name):
    concept = Examples(examples.inputs, examples.labels, name=name)
    return GcavGeneration(reliable=0.5, inverse_ridge=0.1).fit(world.model, concept)


@pytest.fixture(scope="module")
def both(world):
    """Good words, and texts whose first filler has an even number: two concepts of the same texts."""
    even = [int("".join(filter(str.isdigit, text.split()[-1]))) % 2 == 0 for text in world.examples.inputs]
    other = Examples(world.examples.inputs, even, name="even")
    return fitted(world, world.examples, "good"), fitted(world, other, "even")


def test_one_concept_alone_is_scav_with_another_limit(world, both):
    scav = Scav(probability=0.9999, reliable=0.5, inverse_ridge=0.1)
    scav.fit(world.model, Examples(world.examples.inputs, world.examples.labels, name="good"))
    assert both[0].edits(1.0) == scav.edits(1.0)
    alone = together(both[:1], [1.0])
    rows = world.model.capture(world.examples.inputs, "resid.*", "last")
    for joint, single in zip(alone, both[0].edits(1.0), strict=True):
        assert (joint.site, joint.position) == (single.site, single.position)
        h = rows[joint.site]
        assert torch.allclose(joint.apply(h, None), single.apply(h, None), atol=1e-4)


@pytest.mark.parametrize("strengths", [(1.0, 1.0), (1.0, -1.0), (-0.5, 2.0)])
def test_several_limits_are_kept_at_once(world, both, strengths):
    rows = world.model.capture(world.examples.inputs, "resid.*", "last")
    for edit in together(both, strengths):
        after = edit.apply(rows[edit.site], None)
        for steering, strength in zip(both, strengths, strict=True):
            for vector in (one for one in steering.trusted() if one.site == edit.site):
                slope, offset = vector.calibration
                logits = slope * vector.score(after) + offset
                wanted = strength * math.log(0.9999 / 0.0001)
                assert bool((math.copysign(1, strength) * (logits - wanted) >= -1e-2).all())


def test_texts_are_written_with_both(world, both):
    texts = world.model.generate(list(world.neutral[:3]), edits=[together(both, [1.0, -1.0])] * 3, max_new_tokens=3)
    assert len(texts) == 3


def test_what_cannot_be_asked_is_told_in_one_line(world, both):
    good, _ = both
    again = fitted(world, world.examples, "well")
    with pytest.raises(
        CovecError, match=r"(good|well)/resid.0' (up|down) and '(good|well)/resid.0' (up|down) contradict"
    ):
        together([good, again], [1.0, -1.0])
    with pytest.raises(CovecError, match="finite number, not inf"):
        together(both, [1.0, math.inf])
    with pytest.raises(CovecError, match="2 concepts and 1 strengths"):
        together(both, [1.0])
    assert together(both, [0.0, 0.0]) == ()
    with pytest.raises(CovecError, match="gcav-generation raises the concept"):
        GcavGeneration(probability=0.1).fit(world.model, world.examples)
