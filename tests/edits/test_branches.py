"""One text under many edits of its end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from covec.activations.answers import Answered
from covec.activations.capture import forward
from covec.edits import branches as module
from covec.edits.algebra import Ablate, Add, Edit
from covec.edits.branches import branches
from covec.errors import ModelError
from covec.models.batching import pad
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Tokenized

LAST = Position("last")


def random(width: int, seed: int) -> Tensor:
    return torch.randn(width, generator=torch.Generator().manual_seed(seed))


def edits(model: TextModel) -> list[tuple[Edit, ...]]:
    """Nothing, heads of several blocks, the stream, and several of them at once."""
    width = model.capture(["ice"], "head.0.0", "last")["head.0.0"].shape[1]
    heads = [Add(site=Site("head", 1, head), position=LAST, shift=random(width, head)) for head in range(4)]
    stream = Add(site=Site("resid", 0), position=LAST, shift=random(model.width, 9))
    axis = torch.nn.functional.normalize(random(model.width, 10), dim=0)[None]
    onward = Ablate(site=Site("resid", 1), position=Position("last+answer"), directions=axis, targets=torch.zeros(1))
    return [(), *((head,) for head in heads), (stream,), (heads[0], stream, onward)]


def whole(model: TextModel, item: Tokenized, own: tuple[Edit, ...]) -> Tensor:
    """The same, from one run of the whole text in a scope."""
    batch = pad([item], [0], pad_id=model.pad_id, masked=False, device=model.device)
    with torch.no_grad(), model.edit(own):
        return forward(model, batch)[0][0, item.layout.last :]


@pytest.mark.parametrize("prompt", ["The hotel was clean and", "i"])
@pytest.mark.parametrize("together", [2, 64])
def test_each_branch_is_the_whole_text_under_its_edits(
    tiny: TextModel, prompt: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands before them, in one batch or in several, with an answer of several tokens behind the prompt."""
    monkeypatch.setattr(module, "TOGETHER", together)
    (item,) = Answered.of(tiny, [prompt], ["the people were kind"]).tokens
    assert item.layout.length > item.layout.last + 1
    each = edits(tiny)
    found = branches(tiny, item, each)
    assert found.shape == (len(each), item.layout.length - item.layout.last, tiny.width)
    for row, own in zip(found, each, strict=True):
        wanted = whole(tiny, item, own)
        torch.testing.assert_close(row, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))
    assert not torch.allclose(found[0], found[1], atol=1e-3)


def test_without_a_cache_it_is_the_same(tiny: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    (item,) = Answered.of(tiny, ["The hotel was clean and"], ["the people"]).tokens
    cached = branches(tiny, item, edits(tiny))
    monkeypatch.setattr(module, "can_go_on", lambda model: False)
    torch.testing.assert_close(branches(tiny, item, edits(tiny)), cached, rtol=1e-4, atol=1e-4)


def test_nothing_is_left_behind(tiny: TextModel) -> None:
    (item,) = Answered.of(tiny, ["The hotel was"], ["clean"]).tokens
    first = branches(tiny, item, edits(tiny))
    assert torch.equal(branches(tiny, item, edits(tiny)), first)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in tiny.module.modules())
    assert first.grad_fn is None


def test_what_would_change_earlier_tokens_is_refused(tiny: TextModel) -> None:
    (item,) = Answered.of(tiny, ["The hotel was"], ["clean"]).tokens
    early = Add(site=Site("resid", 0), shift=torch.ones(tiny.width))
    with pytest.raises(ModelError, match="acts on 'content', and branches part at the prompt's last token"):
        branches(tiny, item, [early])
    with tiny.edit(early), pytest.raises(ModelError, match="call this outside"):
        branches(tiny, item, [()])
    with pytest.raises(ModelError, match="has width 3"):
        branches(tiny, item, [Add(site=Site("resid", 0), position=LAST, shift=torch.ones(3))])
