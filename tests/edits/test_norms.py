"""An activation that is turned stays as long as it was."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.edits.norms import AddKeepingNorm
from covec.models.sites import Site


@given(st.integers(0, 100), st.floats(-50, 50))
def test_lengths_stay_and_the_direction_is_that_of_the_sum(seed, strength):
    generator = torch.Generator().manual_seed(seed)
    h, shift = torch.randn(3, 4, 8, generator=generator), strength * torch.randn(8, generator=generator)
    moved = AddKeepingNorm(site=Site("resid", 0), shift=shift).apply(h, None)
    assert torch.allclose(moved.norm(dim=-1), h.norm(dim=-1), rtol=1e-4)
    assert torch.allclose(torch.cosine_similarity(moved, h + shift, dim=-1), torch.ones(3, 4), atol=1e-4)


def test_an_activation_of_nothing_stays_nothing_and_a_large_shift_replaces_the_rest():
    edit = AddKeepingNorm(site=Site("resid", 0), shift=torch.tensor([1e6, 0.0]))
    h = torch.tensor([[[0.0, 0.0], [0.0, 3.0]]])
    assert torch.allclose(edit.apply(h, None), torch.tensor([[[0.0, 0.0], [3.0, 0.0]]]), atol=1e-4)
