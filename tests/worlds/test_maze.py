"""The maze: what walkers see, where they step, and a policy that learned by reward which tiles to step on."""

from __future__ import annotations

import pytest
import torch

from covec.errors import ExamplesError
from covec.worlds import maze
from covec.worlds.maze import MOVES, NAMES, OUTCOMES, SIZE, TURNS, Walkers


def drawn(mazes: int = 20, each: int = 1) -> Walkers:
    return Walkers.drawn(mazes, torch.Generator().manual_seed(0), each)


def test_walkers_see_and_reach_what_lies_about_them() -> None:
    walkers = drawn()
    for side, (down, right) in enumerate([(-1, 0), (0, 1), (1, 0), (0, -1)]):
        moved, kinds = walkers.stepped(torch.full((20,), side))
        for row, (y, x) in enumerate(walkers.places.tolist()):
            kind = int(walkers.tiles[row, y + down, x + right])
            assert (int(walkers.about[row, side]), int(kinds[row])) == (kind, kind)
            outside = not (1 <= y + down <= SIZE and 1 <= x + right <= SIZE)
            assert (kind == len(OUTCOMES)) is outside
            assert moved.places[row].tolist() == ([y, x] if outside else [y + down, x + right])


def test_walkers_of_a_group_start_alike_on_the_path() -> None:
    walkers = drawn(3, 4)
    assert torch.equal(walkers.tiles[:4], walkers.tiles[:1].expand(4, -1, -1))
    rows = torch.arange(12)
    assert not walkers.tiles[rows, walkers.places[:, 0], walkers.places[:, 1]].any()


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_walks_end_as_they_were_asked_to(outcome: str) -> None:
    """The last move leads to the tile of that outcome, all before it to the path, and sides are as many."""
    texts = maze.ending_on(outcome, 8, 3)
    assert sorted(text.split()[-1] for text in texts) == sorted(MOVES * 2)
    for text in texts:
        words = text.split()
        assert len(words) == 18
        turns = [words[start : start + 6] for start in range(0, 18, 6)]
        reached = [turn[MOVES.index(turn[-1])] for turn in turns]
        assert reached == [NAMES[0], NAMES[0], NAMES[OUTCOMES.index(outcome)]]
    assert texts == maze.ending_on(outcome, 8, 3)


def test_walks_that_cannot_be_are_refused() -> None:
    for outcome, count, turns in (("silver", 8, 3), ("gold", 7, 3), ("gold", 0, 3), ("gold", 8, TURNS + 1)):
        with pytest.raises(ExamplesError, match="ask for a multiple of 4, 1 to 8 turns, and one of path, mold, gold"):
            maze.ending_on(outcome, count, turns)


def test_what_a_walk_earns_ends_with_the_reward() -> None:
    found = maze.walks(maze.naive(), drawn(200), torch.Generator().manual_seed(1), wind=0.0)
    assert found.ids.shape == (200, TURNS * maze.TURN)
    gold = found.rewards == maze.REWARDS[-1]
    assert gold.any()
    assert (gold.sum(1) <= 1).all()
    assert not found.rewards[~found.on].any()
    assert found.on[:, 0].all()


def test_training_raises_what_is_likely_to_be_rewarded() -> None:
    """A step after a batch makes the moves that gained more than others in their maze likelier."""
    module, policy = maze.naive().module, maze.naive()
    seen = maze.walks(policy, drawn(16, 8), torch.Generator().manual_seed(1))
    loss = maze._loss(module, seen)
    loss.backward()
    with torch.no_grad():
        for weight in module.parameters():
            weight -= 0.01 * weight.grad
        assert maze._loss(module, seen) < loss


def test_training_is_the_same_each_time_and_leaves_the_beginning_as_it_was() -> None:
    before = maze.naive().fingerprint
    found = [maze.trained(2) for _ in range(2)]
    assert found[0].fingerprint == found[1].fingerprint != before
    assert maze.naive().fingerprint == before
