"""Jacobians of the stream, held to torch's own and to finite differences."""

from __future__ import annotations

import pytest
import torch

from covec.activations import jacobian
from covec.activations.capture import read
from covec.activations.jacobian import linearise
from covec.activations.split import Split
from covec.edits.algebra import Add
from covec.errors import ModelError
from covec.models.batching import pad
from covec.models.sites import Site
from covec.models.text import TextModel

TEXT = "The hotel was clean and the people"


def ids(model: TextModel) -> tuple[int, ...]:
    return model.tokenize([TEXT])[0].ids


def test_it_is_the_jacobian_of_the_rest_of_the_network(tiny: TextModel) -> None:
    """As torch takes it of the blocks above, moved at the same token."""
    tokens = tiny.tokenize([TEXT])
    length, source = len(tokens[0].ids), 3
    targets, target = range(length - 2, length), Site("resid", tiny.blocks - 1)
    found = linearise(tiny, tokens[0].ids, source, targets, [Site("resid", 0)], target, at_once=7)
    split = Split(tiny, "resid.0")
    batch = pad(tokens, [0], pad_id=tiny.pad_id, masked=False, device=tiny.device)
    hidden = split.encode(batch)
    assert hidden is not None

    def of(value: torch.Tensor) -> torch.Tensor:
        kept: list[torch.Tensor] = []
        moved = torch.cat([hidden[0, :source], value[None], hidden[0, source + 1 :]])[None]
        with read(tiny, [target], lambda _, h: kept.append(h[0, targets.start :].mean(0))):
            split.decode(batch, hidden, lambda _: moved)
        return kept[0]

    wanted = torch.autograd.functional.jacobian(of, hidden[0, source])
    torch.testing.assert_close(found.jacobians[0], wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))
    torch.testing.assert_close(found.sources[0], hidden[0, source], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.target, of(hidden[0, source]).detach(), rtol=1e-3, atol=1e-3)
    moved = found.jacobians[0] @ found.sources[0] + found.offsets[0]
    torch.testing.assert_close(moved, found.target, rtol=1e-3, atol=1e-3)


def test_cached_is_uncached_and_several_sites_are_single_ones(tiny: TextModel, monkeypatch: pytest.MonkeyPatch) -> None:
    text, target = ids(tiny), Site("resid", tiny.blocks - 1)
    sites = [Site("embed"), *(Site("resid", block) for block in range(tiny.blocks - 1))]
    cached = linearise(tiny, text, 4, range(5, len(text)), sites, target)
    single = [linearise(tiny, text, 4, range(5, len(text)), [site], target, at_once=5) for site in sites]
    monkeypatch.setattr(jacobian, "can_go_on", lambda _: False)
    whole = linearise(tiny, text, 4, range(5, len(text)), sites, target)
    slack = 1e-4 * float(whole.jacobians.abs().max())
    torch.testing.assert_close(cached.jacobians, whole.jacobians, rtol=1e-3, atol=slack)
    torch.testing.assert_close(cached.target, whole.target, rtol=1e-3, atol=1e-3)
    for place, one in enumerate(single):
        torch.testing.assert_close(one.jacobians[0], whole.jacobians[place], rtol=1e-3, atol=slack)


def test_what_cannot_reach_the_target_has_none(tiny: TextModel) -> None:
    """A later site, a later token, another token at the same site; at its own place a source is the target itself."""
    text, target = ids(tiny), Site("resid", 0)
    later = linearise(tiny, text, 2, range(3, 4), [Site("resid", tiny.blocks - 1)], target)
    assert not later.jacobians.any()
    assert not later.sources.any()
    assert not linearise(tiny, text, 4, range(2, 3), [Site("embed")], target).jacobians.any()
    assert not linearise(tiny, text, 2, range(3, 4), [target], target).jacobians.any()
    own = linearise(tiny, text, 2, range(2, 3), [target], target)
    torch.testing.assert_close(own.jacobians[0], torch.eye(tiny.width))


def test_the_model_is_left_as_it_was(tiny: TextModel) -> None:
    linearise(tiny, ids(tiny), 2, range(3, 4), [Site("embed")], Site("resid", 0))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in tiny.module.modules())
    assert all(weight.grad is None for weight in tiny.module.parameters())


@pytest.mark.parametrize(
    ("source", "targets"), [(-1, range(2, 3)), (99, range(2, 3)), (1, range(3, 3)), (1, range(3, 99))]
)
def test_tokens_that_are_not_there_are_refused(tiny: TextModel, source: int, targets: range) -> None:
    with pytest.raises(ModelError, match="among which are not both"):
        linearise(tiny, ids(tiny), source, targets, [Site("embed")], Site("resid", 0))


def test_no_edit_acts_on_a_part_as_if_it_were_the_text(tiny):
    """At `last` it would act where the part ends that is run."""
    ids = tiny.tokenize(["The hotel was clean and kind."])[0].ids
    site = Site("resid", 0)
    with tiny.edit(Add(site=site, shift=torch.ones(tiny.width))), pytest.raises(ModelError, match=r"leave model\.edit"):
        linearise(tiny, ids, 1, range(2, 3), [site], Site("resid", 1))
