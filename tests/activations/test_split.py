"""Running the blocks above a site alone gives what the whole network does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from covec.activations.split import Split
from covec.models.batching import Batch, pad
from covec.models.text import TextModel

TEXTS = ["The hotel was clean.", "x y", "A dull film: two hours"]
SITES = ["resid.0", "resid.1", "final", "embed", "attn.1", "mlp.1", "head.1.2", "neuron.1"]


def batch_of(model: TextModel) -> Batch:
    tokens = model.tokenize(TEXTS)
    return pad(tokens, range(len(tokens)), pad_id=model.pad_id, masked=False, device=model.device)


def real(hidden: Tensor, batch: Batch) -> Tensor:
    """The rows of real tokens [tokens, d]."""
    return torch.cat([hidden[row, : layout.length] for row, layout in enumerate(batch.layouts)])


@pytest.mark.parametrize("site", SITES)
def test_below_and_above_make_the_whole(tiny: TextModel, site: str) -> None:
    batch, split = batch_of(tiny), Split(tiny, site)
    stream = split.encode(batch)
    ran: list[int] = []
    handles = [
        block.register_forward_hook(lambda *_, index=index: ran.append(index))
        for index, block in enumerate(tiny.anatomy.blocks)
    ]
    with torch.no_grad():
        found = split.decode(batch, stream)
    for handle in handles:
        handle.remove()
    expected = tiny.capture(TEXTS, "final", "all")["final"]
    assert torch.allclose(real(found, batch), expected, atol=1e-4)
    assert set(ran) >= set(range(split.top + 1, tiny.blocks))


@pytest.mark.parametrize("site", SITES)
def test_what_a_visit_changes_is_what_an_edit_changes(tiny: TextModel, site: str) -> None:
    from covec.edits.algebra import Add
    from covec.models.positions import Position
    from covec.models.sites import Site

    batch, split = batch_of(tiny), Split(tiny, site)
    width = tiny.capture(TEXTS[:1], site)[site].shape[1]
    shift = torch.randn(width, generator=torch.Generator().manual_seed(0))
    stream = split.encode(batch)
    with torch.no_grad():
        found = split.decode(batch, stream, lambda hidden: hidden + shift)
    with tiny.edit(Add(site=Site.parse(site), shift=shift, position=Position("all"))), torch.no_grad():
        expected = tiny.anatomy.body(input_ids=batch.ids)[0]
    assert torch.allclose(real(found, batch), real(expected, batch), atol=1e-4)


def test_logits_are_those_of_the_network(tiny: TextModel) -> None:
    batch = batch_of(tiny)
    with torch.no_grad():
        hidden = tiny.anatomy.body(input_ids=batch.ids)[0]
        expected = tiny.module(batch.ids).logits
        found = Split(tiny, "resid.1").logits(hidden.reshape(-1, hidden.shape[-1]))
    assert torch.allclose(found.reshape(expected.shape), expected, atol=1e-4)


def test_gradients_reach_the_stream_and_no_lower(tiny: TextModel) -> None:
    batch, split = batch_of(tiny), Split(tiny, "resid.0")
    stream: Any = split.encode(batch)
    assert stream.grad_fn is None
    stream.requires_grad_()
    split.decode(batch, stream).pow(2).sum().backward()
    assert stream.grad is not None
    assert bool((stream.grad != 0).any())
    assert tiny.module.get_input_embeddings().weight.grad is None
    tiny.module.zero_grad()


def test_the_model_is_left_as_it_was_also_after_an_error(tiny: TextModel) -> None:
    batch, split = batch_of(tiny), Split(tiny, "resid.1")
    plain = tiny.capture(TEXTS, "final")["final"]
    stream = split.encode(batch)

    def fail(_: Tensor) -> Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        split.decode(batch, stream, fail)
    assert not any("forward" in vars(part) for part in tiny.module.modules())
    assert torch.equal(tiny.capture(TEXTS, "final")["final"], plain)
