"""Shapes: the pictures are what their truth says, and the shipped network tells more than chance."""

import pytest
import torch

from covec.errors import ExamplesError
from covec.worlds.shapes import ATTRIBUTES, PAIR, SIZE, TASKS, accuracy, network, scenes


def test_the_same_arguments_make_the_same_pictures():
    one, other, another = scenes(8, seed=3), scenes(8, seed=3), scenes(8, seed=4)
    assert torch.equal(one.images, other.images)
    assert not torch.equal(one.images, another.images)
    assert one.images.shape == (8, 3, SIZE, SIZE)
    assert float(one.images.min()) >= 0
    assert float(one.images.max()) <= 1


def test_shapes_stand_where_and_in_the_colour_that_the_truth_says():
    made = scenes(60, seed=1, texture="plain")
    half = SIZE // 2
    for row in range(len(made)):
        tall, wide = made.masks[row].nonzero().double().mean(0)
        assert int(made.values["position"][row]) == 2 * int(tall > half) + int(wide > half)
    for number, colour in enumerate(ATTRIBUTES["colour"]):
        rows = made.values["colour"] == number
        pixels = made.images[rows].permute(0, 2, 3, 1)[made.masks[rows]].mean(0)
        bright = {"red": "100", "green": "010", "blue": "001", "yellow": "110", "magenta": "101", "cyan": "011"}[colour]
        assert "".join(str(int(value > 0.5)) for value in pixels) == bright


def test_more_shapes_cover_more():
    area = [float(scenes(100, seed=2, count=count).masks.float().mean()) for count in ATTRIBUTES["count"]]
    assert area[0] < area[1] < area[2]
    assert area[2] == pytest.approx(3 * area[0], rel=0.1)


def test_attributes_are_fixed_or_independent():
    made = scenes(2000, seed=5, colour=("red", "blue"), shape="circle")
    assert set(made.labels("colour").tolist()) == {0, 2}
    assert set(made.labels("shape").tolist()) == {0}
    assert set(made.labels(PAIR).tolist()) == {0, 8}
    both = torch.stack([made.values[name].double() for name in ("colour", "texture", "position", "count")])
    assert float((torch.corrcoef(both) - torch.eye(4)).abs().max()) < 0.1


@pytest.mark.parametrize("fixed", [{"colour": "mauve"}, {"colour": ()}, {"size": "large"}])
def test_what_there_is_not_is_refused(fixed):
    with pytest.raises(ExamplesError) as caught:
        scenes(2, **fixed)
    assert "\n" not in str(caught.value)


def test_the_shipped_network_knows_every_task_a_little():
    module, made = network(), scenes(300, seed=6)
    for task, classes in TASKS.items():
        assert accuracy(module, made, task) > 1.3 / classes, task
    assert not module.training
