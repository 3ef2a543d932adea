"""Packing token sequences into batches: identical ones once, the rest by length, within a token budget."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from covec.models.positions import Layout
from covec.models.tokens import Tokenized

TOKEN_BUDGET = 512  # the fastest on CPUs; larger devices take more


@dataclass(frozen=True)
class Batch:
    """Rows that run together: `ids` padded on the right, `mask` only where the model needs one."""

    rows: tuple[int, ...]
    ids: Int[Tensor, "rows tokens"]
    mask: Int[Tensor, "rows tokens"] | None
    layouts: tuple[Layout, ...]


def unique(tokens: Sequence[Tokenized]) -> tuple[list[int], list[int]]:
    """First index of every distinct input, and for every input the place of its own in that list.

    Inputs are the same where ids and layout (span, answer) are.
    """
    first: dict[bytes, int] = {}
    representatives: list[int] = []
    places = []
    for index, item in enumerate(tokens):
        layout = item.layout
        content = repr((item.ids, layout.prompt, layout.answer, layout.span)).encode()
        key = hashlib.blake2b(content, digest_size=16).digest()  # the ids themselves would weigh as much as narrow rows
        if key not in first:
            first[key] = len(representatives)
            representatives.append(index)
        places.append(first[key])
    return representatives, places


def pack(lengths: Sequence[int], budget: int, together: int | None = None) -> list[list[int]]:
    """Indices in batches of similar length, padded size within `budget` tokens (one row at least), longest first.

    Rows of more than `together` tokens run alone.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        longest = lengths[batches[-1][0]] if batches else 0
        apart = together is not None and longest > together
        if batches and not apart and longest * (len(batches[-1]) + 1) <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def pad(
    tokens: Sequence[Tokenized],
    rows: Sequence[int],
    *,
    pad_id: int,
    masked: bool,
    device: torch.device,
    left: bool = False,
) -> Batch:
    """The batch of `rows`, padded to its longest."""
    items = [tokens[row] for row in rows]
    length = max(len(item.ids) for item in items)
    ids = torch.full((len(rows), length), pad_id, dtype=torch.long, device="cpu")
    mask = torch.zeros_like(ids)
    for place, item in enumerate(items):
        size = len(item.ids)
        where = slice(length - size, length) if left else slice(0, size)
        ids[place, where] = torch.tensor(item.ids, device="cpu")
        mask[place, where] = 1
    needs = masked and bool((mask == 0).any())
    return Batch(
        tuple(rows),
        ids.to(device),
        mask.to(device) if needs else None,
        tuple(item.layout for item in items),
    )
