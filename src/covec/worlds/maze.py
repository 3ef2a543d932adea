"""A maze of tiles whose names say nothing, and a small transformer that learned by reward alone which to step on.

At each turn the four tiles about the walker are listed, and a move answers: `dax wug dax edge : south`. One kind of
tile is punished, one rewarded, which ends the walk, and the third is the path. Nothing but the reward tells which.

The maze of "How's it going? Reinforcement learning in language models recruits a functional welfare axis"
(arXiv:2605.30232), at the scale of a toy: 5 x 5 tiles, 8 turns, names in place of emojis, a policy trained from nothing
but its weights' first draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from covec.activations.continuing import Past, go_on
from covec.activations.split import Split
from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.worlds import small

OUTCOMES = ("path", "mold", "gold")  # neutral, punished, rewarded
REWARDS = (-0.1, -10.0, 20.0)
NAMES = ("dax", "wug", "fep", "edge")  # of the outcomes in their order, and of what lies outside
MOVES = ("north", "east", "south", "west")
ASK = ":"
WORDS = (*NAMES, *MOVES, ASK)
SIZE, TURNS = 5, 8
TURN = len(MOVES) + 2  # words of a turn
SHARES = (0.65, 0.25, 0.1)  # of the three kinds of tiles
WIND = 0.1  # how often a step goes anywhere
_OUTSIDE = 3
_SIDES = torch.tensor([[-1, 0], [0, 1], [1, 0], [0, -1]])
STEPS, _MAZES, _GROUP = 400, 16, 8
_ENTROPY = 0.01


@dataclass(frozen=True)
class Walkers:
    """Walkers in mazes of their own: the kind of every tile, a border of outside about them, and where each stands."""

    tiles: Int[Tensor, "n 7 7"]
    places: Int[Tensor, "n 2"]

    @classmethod
    def drawn(cls, mazes: int, generator: torch.Generator, each: int = 1) -> Walkers:
        """Fresh mazes, in each of which so many walkers start from the same tile of the path."""
        kinds = torch.multinomial(torch.tensor(SHARES), mazes * SIZE * SIZE, True, generator=generator)
        tiles = pad(kinds.view(mazes, SIZE, SIZE), (1, 1, 1, 1), value=_OUTSIDE)
        places = torch.randint(1, SIZE + 1, (mazes, 2), generator=generator)
        tiles[torch.arange(mazes), places[:, 0], places[:, 1]] = 0
        return cls(tiles.repeat_interleave(each, 0), places.repeat_interleave(each, 0))

    @property
    def about(self) -> Int[Tensor, "n 4"]:
        """The kinds of the tiles to the north, east, south and west of each."""
        around = self.places[:, None] + _SIDES
        return self.tiles[torch.arange(len(self.places))[:, None], around[..., 0], around[..., 1]]

    def stepped(self, moves: Int[Tensor, "n"]) -> tuple[Walkers, Int[Tensor, "n"]]:
        """The walkers after their moves, and the kinds of tile they step on; none leaves the maze."""
        kinds = self.about.gather(1, moves[:, None])[:, 0]
        outside = kinds == _OUTSIDE
        places = torch.where(outside[:, None], self.places, self.places + _SIDES[moves])
        return Walkers(self.tiles, places), kinds


@dataclass(frozen=True)
class Walks:
    """Walks word by word [n, turns x 6], the move of each turn, what it earned, and whether the walk was still on."""

    ids: Int[Tensor, "n words"]
    moves: Int[Tensor, "n turns"]
    rewards: Float[Tensor, "n turns"]
    on: Bool[Tensor, "n turns"]

    @property
    def returns(self) -> Float[Tensor, "n"]:
        """What each walk earned in all."""
        return self.rewards.sum(1)


def naive() -> TextModel:
    """The policy before its training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = small.transformer(WORDS, width=64, blocks=3, longest=TURNS * TURN)
    return TextModel(module, small.tokenizer(WORDS), name="world-maze")


def trained(steps: int = STEPS, *, rate: float = 2e-3, progress: Progress = silent) -> TextModel:
    """The policy trained by REINFORCE, four steps a second: the reward to come, less its mean over walks in the same
    maze.
    """
    policy, generator = naive(), torch.Generator().manual_seed(1)
    module = policy.module
    optimiser = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.0)
    with progress("training", steps) as bar:
        for _ in range(steps):
            loss = _loss(module, walks(policy, Walkers.drawn(_MAZES, generator, _GROUP), generator))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            bar.advance(1)
    module.zero_grad()
    return policy


def walks(policy: TextModel, walkers: Walkers, generator: torch.Generator, wind: float = WIND) -> Walks:
    """Walks whose moves `policy` draws; one that has reached the reward is listed on, and earns nothing."""
    rewards, n, head = torch.tensor([*REWARDS, REWARDS[0]]), len(walkers.places), Split(policy, "embed")
    past: Past | None = None
    ids, moves, earned, on = [], [], [], []
    open_ = torch.ones(n, dtype=torch.bool)
    unread = torch.zeros(n, 0, dtype=torch.long)
    for _ in range(TURNS):
        listed = _listed(walkers)
        with torch.no_grad():
            hidden, past = go_on(policy, torch.cat([unread, listed], 1).tolist(), past)
            chances = head.logits(hidden[:, -1])[:, _ids(MOVES)].softmax(1)
        move = torch.multinomial(chances, 1, generator=generator)
        unread = _ids(MOVES)[move]
        blown = torch.rand(n, generator=generator) < wind
        taken = torch.where(blown, torch.randint(0, 4, (n,), generator=generator), move[:, 0])
        walkers, kinds = walkers.stepped(taken)
        ids += [listed, unread]
        moves.append(move)
        earned.append(rewards[kinds] * open_)
        on.append(open_)
        open_ = open_ & (kinds != OUTCOMES.index("gold"))
    return Walks(torch.cat(ids, 1), torch.cat(moves, 1), torch.stack(earned, 1), torch.stack(on, 1))


def ending_on(outcome: str, count: int, turns: int, seed: int = 0) -> tuple[str, ...]:
    """Walks nobody chose: `count` texts of `turns` turns over the path alone whose last step is on `outcome`.

    Last moves go to the four sides equally often. A text ends with that move.
    """
    if outcome not in OUTCOMES or not 1 <= turns <= TURNS or count < 1 or count % len(MOVES):
        raise ExamplesError(
            f"no {count} walks of {turns} turns end on {outcome!r}: ask for a multiple of {len(MOVES)}, 1 to {TURNS} "
            f"turns, and one of {', '.join(OUTCOMES)}"
        )
    generator, wanted = torch.Generator().manual_seed(seed), OUTCOMES.index(outcome)
    found: list[list[Tensor]] = [[] for _ in MOVES]
    while min(map(len, found)) < count // len(MOVES):
        walkers = Walkers.drawn(64 * count, generator)
        ids, kept = [], torch.ones(64 * count, dtype=torch.bool)
        for turn in range(turns):
            move = torch.randint(0, 4, (64 * count,), generator=generator)
            ids += [_listed(walkers), _ids(MOVES)[move[:, None]]]
            walkers, kinds = walkers.stepped(move)
            kept &= kinds == (wanted if turn == turns - 1 else 0)
        texts = torch.cat(ids, 1)
        for side, rows in enumerate(found):
            rows += [*texts[kept & (move == side)]]
    chosen = [row for rows in found for row in rows[: count // len(MOVES)]]
    words = ("<pad>", "<unknown>", *WORDS)
    return tuple(" ".join(words[index] for index in row.tolist()) for row in chosen)


def _listed(walkers: Walkers) -> Int[Tensor, "n 5"]:
    """What is said at the beginning of a turn."""
    asked = _ids((ASK,)).expand(len(walkers.places), 1)
    return torch.cat([_ids(NAMES)[walkers.about], asked], 1)


def _ids(words: tuple[str, ...]) -> Int[Tensor, "k"]:
    number = small.vocabulary(WORDS)
    return torch.tensor([number[word] for word in words])


def _loss(module: nn.Module, seen: Walks) -> Tensor:
    """REINFORCE with a bonus for entropy, over the turns in which the walk was still on."""
    logits = module(seen.ids, use_cache=False).logits[:, TURN - 2 :: TURN, _ids(MOVES)].log_softmax(-1)
    coming = seen.rewards.flip(1).cumsum(1).flip(1)
    groups = coming.view(-1, _GROUP, TURNS)
    gain = (groups - groups.mean(1, keepdim=True)).view(-1, TURNS) / REWARDS[-1]
    chosen = logits.gather(-1, seen.moves[..., None])[..., 0]
    entropy = -(logits.exp() * logits).sum(-1)
    return -((gain * chosen + _ENTROPY * entropy) * seen.on).sum() / seen.on.sum()
