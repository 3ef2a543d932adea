"""Gradients at many sites from one backward pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from covec.activations.gradients import slopes
from covec.edits.algebra import Add
from covec.errors import ModelError
from covec.models.batching import Batch
from covec.models.positions import Position
from covec.models.text import TextModel

TEXTS = ["The hotel was clean and the people were kind.", "ice melts", "Water boils at 100 degrees"]
LAST = Position("last")
SITES = ["head.1.2", "head.0.*", "resid.0", "attn.1", "mlp.0"]


def value(batch: Batch, last: Tensor) -> Tensor:
    """A number of every row that bends: the norm of its last hidden state along some axes."""
    ends = [layout.length - 1 for layout in batch.layouts]
    return last[range(len(ends)), ends, :8].square().sum(1)


def test_it_is_the_slope_of_the_value(tiny: TextModel) -> None:
    tokens = tiny.tokenize(TEXTS)
    found = slopes(tiny, tokens, SITES, "last", value)
    sites = tiny.select(SITES)
    assert found.gradients.sites == found.activations.sites == sites
    for seed, site in enumerate(sites):
        direction = torch.randn(found.activations[site].shape[1], generator=torch.Generator().manual_seed(seed))
        step = 1e-2 * direction / direction.norm()
        moved = []
        for shift in (step, -step):
            with tiny.edit(Add(site=site, position=LAST, shift=shift)):
                moved.append(slopes(tiny, tokens, site, LAST, value).values)
        torch.testing.assert_close((moved[0] - moved[1]) / 2, found.gradients[site] @ step, rtol=2e-2, atol=1e-4)


def test_activations_are_those_of_a_capture(tiny: TextModel) -> None:
    found = slopes(tiny, tiny.tokenize(TEXTS), SITES, "last", value)
    wanted = tiny.capture(TEXTS, SITES, "last")
    for site in wanted.sites:
        torch.testing.assert_close(found.activations[site], wanted[site], rtol=1e-4, atol=1e-4)


def test_rows_do_not_see_their_neighbours(tiny: TextModel) -> None:
    together = slopes(tiny, tiny.tokenize(TEXTS), "head.*", "last", value)
    for row, text in enumerate(TEXTS):
        alone = slopes(tiny, tiny.tokenize([text]), "head.*", "last", value)
        assert float(alone.values) == pytest.approx(float(together.values[row]), rel=1e-4)
        for site in alone.gradients.sites:
            torch.testing.assert_close(alone.gradients[site][0], together.gradients[site][row], rtol=1e-3, atol=1e-4)


def test_the_change_to_first_order(tiny: TextModel) -> None:
    found = slopes(tiny, tiny.tokenize(TEXTS), "head.0.1", "last", value)
    (site,) = found.gradients.sites
    own = found.activations[site]
    assert not found.linear(site, own[1])[1]
    wanted = ((own[1] - own) * found.gradients[site]).sum(1)
    torch.testing.assert_close(found.linear(site, own[1]), wanted)


def test_the_model_is_left_as_it_was(tiny: TextModel) -> None:
    before = tiny.capture(TEXTS, "resid.*").stack()
    slopes(tiny, tiny.tokenize(TEXTS), "head.*", "last", value)
    assert torch.equal(tiny.capture(TEXTS, "resid.*").stack(), before)
    assert all(weight.grad is None for weight in tiny.module.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in tiny.module.modules())


@pytest.mark.parametrize("position", ["mean", "content/none", "all"])
def test_more_than_a_token_is_refused(tiny: TextModel, position: str) -> None:
    with pytest.raises(ModelError, match="gradients are taken at one token an input"):
        slopes(tiny, tiny.tokenize(TEXTS), "resid.0", position, value)


def test_a_token_that_is_not_there_is_refused(tiny: TextModel) -> None:
    with pytest.raises(ModelError, match="position 99/none selects nothing in input 1"):
        slopes(tiny, tiny.tokenize(TEXTS), "resid.0", "99", value)
