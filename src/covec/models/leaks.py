"""Whether padding leaks: whether a row is another beside a longer one, though a mask hides what fills it up.

Transformers' attention heeds its mask. Convolutions over tokens, landmarks and recurrent states may not, and no
structure tells it: it is measured, on two rows of a few tokens. So is whether tokens see those to come.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextvars import Context
from typing import Any

import torch
from torch import Tensor, nn

_LIMITS = {torch.float32: 1e-4, torch.float64: 1e-4}  # of a row's largest entry; elsewhere that of bfloat16


def heeds_mask(blocks: Sequence[nn.Module]) -> bool:
    """Whether every block has attention of transformers' own kind, which says whether it is causal, and no other."""
    return all(
        any(isinstance(getattr(part, "is_causal", None), bool) for part in block.modules())
        and not any(isinstance(part, nn.modules.conv._ConvNd) for part in block.modules())
        for block in blocks
    )


def padding_leaks(body: nn.Module, short: Sequence[int], long: Sequence[int], pad_id: int, *, left: bool) -> bool:
    """Whether token ids `short` give another row beside `long`, padded on the right or, with `left`, on either side.

    It is measured outside all scopes: no edit acts.
    """
    device = next(body.parameters()).device
    gap = len(long) - len(short)
    alone = _last(body, torch.tensor([short], device=device), None)[0]
    for side in (False, True) if left else (False,):
        row = [pad_id] * gap + list(short) if side else list(short) + [pad_id] * gap
        mask = torch.ones(2, len(long), dtype=torch.long, device=device)
        real = slice(gap, None) if side else slice(0, len(short))
        mask[0] = 0
        mask[0, real] = 1
        beside = _last(body, torch.tensor([row, list(long)], device=device), mask)[0, real]
        limit = _LIMITS.get(alone.dtype, 3e-2)
        if ((beside - alone).abs().amax(-1) > limit * alone.abs().amax(-1)).any():
            return True
    return False


def looks_ahead(body: nn.Module, ids: Sequence[int]) -> bool:
    """Whether the last of the token ids `ids` changes the rows before it."""
    device = next(body.parameters()).device
    whole, other = (torch.tensor([row], device=device) for row in (ids, [*ids[:-1], ids[0]]))
    one, two = (_last(body, row, None)[0, :-1] for row in (whole, other))
    limit = _LIMITS.get(one.dtype, 3e-2)
    return bool(((one - two).abs().amax(-1) > limit * one.abs().amax(-1)).any())


def _last(body: Any, ids: Tensor, mask: Tensor | None) -> Tensor:
    """Last hidden states, with the positions that transformers' generate gives to padded rows."""
    named = {} if mask is None else {"attention_mask": mask}
    if mask is not None and "position_ids" in inspect.signature(body.forward).parameters:
        named["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        return Context().run(lambda: body(input_ids=ids, **named)[0])
