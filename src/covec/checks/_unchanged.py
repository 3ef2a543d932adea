"""A network that is as it was, whatever was done with it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from covec.worlds.toys import Toy


@contextmanager
def unchanged(made: Toy) -> Iterator[None]:
    """After the block every weight, output and hook of a toy's network is what it was before, and no gradient is left.

    Raises
    ------
    AssertionError
        One of them is not.
    """
    module, ids = made.model.module, made.model.tokenizer(made.neutral[0], return_tensors="pt").input_ids
    with torch.no_grad():
        weights, logits = [weight.clone() for weight in module.parameters()], module(ids).logits
    yield
    with torch.no_grad():
        assert torch.equal(module(ids).logits, logits)
    assert all(map(torch.equal, module.parameters(), weights))
    assert all(weight.grad is None for weight in module.parameters())
    assert not [part for part in module.modules() if part._forward_hooks or part._forward_pre_hooks]
