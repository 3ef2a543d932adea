"""Transformers without positions that learn to tell where a token stands: position as a direction.

The first token is always the same, and nothing else tells of the place. Blocks are attention alone, with one head and a
norm before it; what is trained is the number of a token's place. No paper but its abstract could be had ("How two-layer
NoPE transformers recover absolute position"): the parts here are derived from that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Change = Callable[[int, Tensor], Tensor]  # of the attention pattern of a block [rows, tokens, tokens]


@dataclass(frozen=True)
class Setting:
    """A network and its world: width, blocks, places and different words (the first token not counted)."""

    width: int = 32
    blocks: int = 2
    places: int = 32
    words: int = 16


@dataclass(frozen=True)
class Seen:
    """What a pass shows: logits of places, streams after each block and the same behind a norm, attention patterns."""

    logits: Float[Tensor, "rows tokens places"]
    streams: tuple[Float[Tensor, "rows tokens d"], ...]
    normed: tuple[Float[Tensor, "rows tokens d"], ...]
    patterns: tuple[Float[Tensor, "rows tokens tokens"], ...]


class Network(nn.Module):
    """Blocks of causal attention with one head, a norm before each and one behind all, and a head over places."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        d = setting.width
        self.embedding = nn.Embedding(setting.words + 1, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(setting.blocks + 1))
        self.maps = nn.ModuleList(nn.Linear(d, 3 * d, bias=False) for _ in range(setting.blocks))
        self.outputs = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(setting.blocks))
        self.head = nn.Linear(d, setting.places)

    def forward(self, ids: Int[Tensor, "rows tokens"], change: Change | None = None) -> Seen:
        """Read `ids`, with every attention pattern as `change(block, pattern)` gives it back."""
        stream, streams, normed, patterns = self.embedding(ids), [], [], []
        future = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).triu(1)
        for block, (maps, output) in enumerate(zip(self.maps, self.outputs, strict=True)):
            query, key, value = maps(self.norms[block](stream)).chunk(3, -1)
            scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
            pattern = scores.masked_fill(future, -torch.inf).softmax(-1)
            pattern = pattern if change is None else change(block, pattern)
            stream = stream + output(pattern @ value)
            streams.append(stream)
            normed.append(self.norms[block + 1](stream))
            patterns.append(pattern)
        return Seen(self.head(normed[-1]), tuple(streams), tuple(normed), tuple(patterns))


def drawn(setting: Setting, count: int) -> Int[Tensor, "n tokens"]:
    """Random words behind the first token, which has the number 0."""
    words = torch.randint(1, setting.words + 1, (count, setting.places))
    words[:, 0] = 0
    return words


def trained(setting: Setting, *, steps: int = 1200, rate: float = 2e-3, rows: int = 64, seed: int = 0) -> Network:
    """A network that was trained to name the place of every token, some seconds a thousand steps."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, places = Network(setting), torch.arange(setting.places).expand(rows, -1)
        optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        for _ in range(steps):
            logits = network(drawn(setting, rows)).logits
            loss = cross_entropy(logits.flatten(0, 1), places.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network.eval().requires_grad_(False)


def without_first(block: int | None = None) -> Change:
    """A change of patterns: nothing behind the first token attends to it, in one block or in all."""

    def cut(at: int, pattern: Tensor) -> Tensor:
        if block not in (None, at):
            return pattern
        kept = pattern.clone()
        kept[:, 1:, 0] = 0
        return kept / kept.sum(-1, keepdim=True).clamp_min(1e-9)

    return cut


def with_mean_share(block: int) -> Change:
    """A change of patterns: all tokens of a block give the first one the same share, the mean of theirs."""

    def levelled(at: int, pattern: Tensor) -> Tensor:
        if at != block:
            return pattern
        share = pattern[:, 1:, :1]
        moved = pattern.clone()
        moved[:, 1:, :1] = share.mean()
        moved[:, 1:, 1:] *= (1 - share.mean()) / (1 - share).clamp_min(1e-9)
        return moved

    return levelled
