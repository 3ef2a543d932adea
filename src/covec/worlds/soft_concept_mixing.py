"""A graph of layers with several paths to most goals, and a small transformer that learns by reward to reach them.

`n03 n42 :` asks for a way from one node to another, a node a layer. At first the transformer only knows the edges: it
has read walks that go anywhere, whatever goal stands before them. Then GRPO trains it to arrive, with soft concepts
mixed into its last hidden state ("Soft Concept Mixing", arXiv:2511.16885) or without.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from covec.edits.algebra import Edit
from covec.edits.soft_concept import mix_soft_concept
from covec.models.text import TextModel
from covec.worlds import small

LAYERS, NODES, EDGES = 5, 6, 2  # layers, nodes of each, and edges from a node to the next layer
WORDS = (*(f"n{layer}{node}" for layer in range(LAYERS) for node in range(NODES)), ":")
PROMPT = 3  # words before the way
_FIRST = 2  # the number of the first node, behind the padding and the unknown word
_ASK = _FIRST + LAYERS * NODES
_CLIP, _REFERENCE, _REUSED = 0.2, 0.01, 2  # of GRPO: ratios, the weight of the divergence, and updates a batch
_PROMPTS, _GROUP = 16, 8


@dataclass(frozen=True)
class Learned:
    """The mean reward of every step, and the model that came of them."""

    rewards: Float[np.ndarray, "steps"]
    model: TextModel


@cache
def edges() -> Int[Tensor, "layers nodes edges"]:
    """To which nodes of the next layer there is a way, from every node of all layers but the last."""
    rng = np.random.default_rng(0)
    found = [[rng.choice(NODES, EDGES, replace=False) for _ in range(NODES)] for _ in range(LAYERS - 1)]
    return torch.from_numpy(np.array(found))


@cache
def reachable() -> tuple[tuple[int, int], ...]:
    """Starts and goals between which there are ways."""
    ways = torch.eye(NODES, dtype=torch.long)
    for layer in edges():
        ways = ways @ torch.zeros(NODES, NODES, dtype=torch.long).scatter(1, layer, 1)
    return tuple((int(start), int(goal)) for start, goal in ways.nonzero().tolist())


def prompts(count: int, generator: torch.Generator) -> Int[Tensor, "n 3"]:
    """Starts, goals that can be reached from them, and what asks for a way."""
    pairs = torch.tensor(reachable())[torch.randint(len(reachable()), (count,), generator=generator)]
    return torch.stack(
        [_FIRST + pairs[:, 0], _FIRST + (LAYERS - 1) * NODES + pairs[:, 1], torch.full((count,), _ASK)], 1
    )


def arrived(ids: Int[Tensor, "n words"]) -> Float[Tensor, "n"]:
    """1 where a text's way follows edges from its start to its goal, else 0."""
    layer = torch.arange(1, LAYERS)
    nodes = ids[:, PROMPT:] - _FIRST - layer * NODES
    inside = ((nodes >= 0) & (nodes < NODES)).all(1)
    nodes = nodes.clamp(0, NODES - 1)
    before = torch.cat([ids[:, :1] - _FIRST, nodes[:, :-1]], 1)
    linked = (edges()[layer - 1, before] == nodes[..., None]).any(-1).all(1)
    goal = ids[:, -1] == ids[:, 1]
    return (inside & linked & goal).float()


def beginner(seed: int = 0, steps: int = 300) -> TextModel:
    """A transformer that has read walks and knows the edges, but not what a goal is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = small.transformer(WORDS, width=48, blocks=2, longest=PROMPT + LAYERS - 1)
        generator = torch.Generator().manual_seed(seed)
        small.train(module, lambda: _walks(128, generator), steps=steps)
    return TextModel(module, small.tokenizer(WORDS), name="world-graph")


def learned(model: TextModel, *, mixing: bool, steps: int = 200, rate: float = 1e-3, seed: int = 0) -> Learned:
    """Train `model` itself by GRPO: the reward of a way, standardised among those from the same prompt."""
    module, generator, rewards = model.module, torch.Generator().manual_seed(seed), []
    reference = TextModel(copy.deepcopy(module), model.tokenizer)
    edits, first = ((mix_soft_concept(one),) if mixing else () for one in (model, reference))
    optimiser = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.0)
    for _ in range(steps):
        asked = prompts(_PROMPTS, generator).repeat_interleave(_GROUP, 0)
        ids = ways(model, asked, edits, generator)
        reward = arrived(ids)
        rewards.append(float(reward.mean()))
        groups = reward.view(-1, _GROUP)
        gain = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
        with torch.no_grad():
            before, start = likelihoods(model, ids, edits), likelihoods(reference, ids, first)
        for _ in range(_REUSED):
            now = likelihoods(model, ids, edits)
            ratio = (now - before).exp()
            gained = torch.minimum(ratio * gain, ratio.clamp(1 - _CLIP, 1 + _CLIP) * gain)
            strayed = (start - now).exp() - (start - now) - 1  # an estimate of the divergence from the beginner
            loss = (_REFERENCE * strayed - gained).mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
    module.zero_grad()
    return Learned(np.array(rewards), model)


def ways(
    model: TextModel, asked: Int[Tensor, "n 3"], edits: tuple[Edit, ...], generator: torch.Generator
) -> Int[Tensor, "n words"]:
    """Prompts with ways that the model draws under `edits`, a word a layer."""
    ids = asked
    with torch.no_grad(), model.edit(*edits):
        for _ in range(LAYERS - 1):
            chances = model.module(input_ids=ids, use_cache=False).logits[:, -1].softmax(-1)
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=generator)], 1)
    return ids


def likelihoods(model: TextModel, ids: Int[Tensor, "n words"], edits: tuple[Edit, ...]) -> Float[Tensor, "n steps"]:
    """Log-probabilities of the words of each way under `edits`."""
    with model.edit(*edits):
        logits = model.module(input_ids=ids[:, :-1], use_cache=False).logits[:, PROMPT - 1 :]
    likely: Tensor = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    return likely


def _walks(count: int, generator: torch.Generator) -> small.Drawn:
    """Texts with any goal before a walk along edges; to be predicted is the walk."""
    node = torch.randint(NODES, (count,), generator=generator)
    goal = torch.randint(NODES, (count,), generator=generator)
    ids = [_FIRST + node, _FIRST + (LAYERS - 1) * NODES + goal, torch.full((count,), _ASK)]
    for layer, links in enumerate(edges(), 1):
        node = links[node, torch.randint(EDGES, (count,), generator=generator)]
        ids.append(_FIRST + layer * NODES + node)
    texts = torch.stack(ids, 1)
    marks = torch.zeros_like(texts, dtype=torch.bool)
    marks[:, PROMPT:] = True
    return texts, marks
