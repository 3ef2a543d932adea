"""Blends: a patch at a share of 1, nothing at 0, and a part of the way between."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.edits.blend import Blend
from covec.models.plan import Pass, Plan
from covec.models.sites import Site

SEEN = Pass(Plan(()), 2, 0, 3, torch.device("cpu"))


def blended(h: torch.Tensor, value: torch.Tensor, share: float) -> torch.Tensor:
    return Blend(site=Site("resid", 0), value=value, share=share).apply(h, SEEN)


def test_exact() -> None:
    h = torch.tensor([[[0.0, 4.0]]])
    assert blended(h, torch.tensor([2.0, 0.0]), 0.25).tolist() == [[[0.5, 3.0]]]


@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_the_rest_of_the_way_leads_to_the_value(seed: int, share: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    h, value = torch.randn(2, 3, 4, generator=generator), torch.randn(4, generator=generator)
    assert torch.equal(blended(h, value, 1.0), value.expand(2, 3, 4))
    assert torch.equal(blended(h, value, 0.0), h)
    torch.testing.assert_close(blended(blended(h, value, share), value, 1.0), value.expand(2, 3, 4))
    torch.testing.assert_close(blended(h, value, share) - h, share * (value - h), rtol=1e-4, atol=1e-5)
