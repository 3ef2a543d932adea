"""The graph: ways along edges from a start to a goal, and a transformer that is trained to write them."""

from __future__ import annotations

import torch

from covec.worlds import soft_concept_mixing as world
from covec.worlds.soft_concept_mixing import LAYERS, NODES, PROMPT


def walked(count: int = 50) -> torch.Tensor:
    ids, marks = world._walks(count, torch.Generator().manual_seed(0))
    assert marks.sum(1).tolist() == [LAYERS - 1] * count
    return ids


def test_a_way_along_edges_to_its_goal_arrives_and_no_other_does() -> None:
    ids = walked()
    ids[:, 1] = ids[:, -1]
    assert world.arrived(ids).tolist() == [1.0] * len(ids)
    other = ids.clone()
    other[:, 1] = ids[:, 1] - 1
    assert not world.arrived(other).any()
    astray = ids.clone()
    for row, nodes in enumerate(astray[:, PROMPT:].tolist()):
        linked = (world.edges()[0, ids[row, 0] - 2] + 2 + NODES).tolist()
        astray[row, PROMPT] = next(node for node in range(2 + NODES, 2 + 2 * NODES) if node not in linked)
        assert nodes[0] in linked
    assert not world.arrived(astray).any()
    strange = ids.clone()
    strange[:, PROMPT + 1] = 0
    assert not world.arrived(strange).any()


def test_goals_that_are_asked_for_can_be_reached() -> None:
    """As many walks as there are, drawn often enough, arrive at every one."""
    ids = walked(5000)
    ends = {
        (start - 2, goal - 2 - (LAYERS - 1) * NODES)
        for start, goal in zip(ids[:, 0].tolist(), ids[:, -1].tolist(), strict=True)
    }
    assert ends == set(world.reachable())


def test_training_is_the_same_for_a_seed_and_changes_the_model() -> None:
    found = [world.learned(world.beginner(steps=60), mixing=True, steps=4) for _ in range(2)]
    assert found[0].rewards.tolist() == found[1].rewards.tolist()
    before = world.beginner(steps=60).module.state_dict()
    after = [one.model.module.state_dict() for one in found]
    assert all(torch.equal(after[0][name], after[1][name]) for name in before)
    assert not torch.equal(before["lm_head.weight"], after[0]["lm_head.weight"])
