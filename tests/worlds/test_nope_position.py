"""Networks without positions: causal, blind to the place but for the first token, and changed as they are told."""

from __future__ import annotations

import torch

from covec.worlds.nope_position import Network, Setting, drawn, trained, with_mean_share, without_first

SETTING = Setting(width=16, blocks=2, places=8, words=4)


def test_a_token_sees_those_before_it_alone() -> None:
    network = trained(SETTING, steps=2)
    ids = drawn(SETTING, 4)
    changed = ids.clone()
    changed[:, 5:] = changed[:, 5:] % SETTING.words + 1
    assert torch.allclose(network(ids).logits[:, :5], network(changed).logits[:, :5], atol=1e-6)
    assert not torch.allclose(network(ids).logits[:, 5:], network(changed).logits[:, 5:], atol=1e-3)


def test_without_the_first_token_places_cannot_be_told_apart() -> None:
    """Of one word again and again every prefix has the same mean: attention without positions gives one stream."""
    network = Network(SETTING)
    same = torch.full((1, SETTING.places), 3)
    logits = network(same).logits
    assert torch.allclose(logits, logits[:, :1].expand_as(logits), atol=1e-5)
    same[:, 0] = 0
    assert not torch.allclose(network(same).logits[:, 1], network(same).logits[:, 7], atol=1e-4)


def test_changes_of_patterns_keep_their_sum() -> None:
    network, ids = Network(SETTING), drawn(SETTING, 3)
    for change in (without_first(), without_first(1), with_mean_share(1)):
        for pattern in network(ids, change).patterns:
            assert torch.allclose(pattern.sum(-1)[:, 1:], torch.ones(3, SETTING.places - 1), atol=1e-5)
    assert (network(ids, without_first()).patterns[0][:, 1:, 0] == 0).all()
    plain, cut = network(ids), network(ids, without_first(1))
    assert torch.equal(plain.patterns[0], cut.patterns[0])
    share = network(ids, with_mean_share(1)).patterns[1][:, 1:, 0]
    assert torch.allclose(share, share[0, 0].expand_as(share))


def test_the_same_seed_gives_the_same_network_and_leaves_the_generator_alone() -> None:
    state = torch.get_rng_state()
    one, other = (trained(SETTING, steps=3) for _ in range(2))
    assert all(map(torch.equal, one.parameters(), other.parameters()))
    assert torch.equal(torch.get_rng_state(), state)
