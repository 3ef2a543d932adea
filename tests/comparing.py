"""What tests compare by: rows to a tolerance of their own, and the hooks that a model bears."""

from __future__ import annotations

from torch import Tensor

from covec.models.text import TextModel


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-4, *, size: Tensor | None = None) -> bool:
    """Agreement to `tolerance` of the largest entry of each row of `expected`, or of `size`."""
    largest = (expected if size is None else size).abs().amax(-1)
    return bool(((found - expected).abs().amax(-1) <= tolerance * largest).all())


def hooks(model: TextModel) -> list[int]:
    """Hooks of every part (transformers leaves some of its own once hidden states were asked for)."""
    return [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules()]
