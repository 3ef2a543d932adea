"""K-21: query, key and value heads are as many as the network has, and each is what its name says."""

from __future__ import annotations

import torch
from torch import Tensor

from covec.edits.algebra import Add
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from laws.given import PROMPTS, close
from tiny import tiny_model

TEXT = PROMPTS[1]


def raw(model: TextModel, part: torch.nn.Module, text: str, end: str) -> Tensor:
    """Input or output of a part of the network in a pass of its own."""
    kept: list[Tensor] = []
    handle = part.register_forward_hook(lambda _, args, output: kept.append(args[0] if end == "in" else output))
    with torch.no_grad():
        model.module(model.tokenizer(text, return_tensors="pt").input_ids, use_cache=False)
    handle.remove()
    return kept[0].flatten(0, -2)


def check_heads(model: TextModel, block: int, queries: int, shared: int) -> None:
    rows = model.capture([TEXT], [f"{kind}.{block}" for kind in ("head", "key", "value", "attn")], "all")
    found = {
        kind: [rows[site] for site in rows.sites if site.kind == kind] for kind in ("head", "key", "value", "attn")
    }
    assert [len(found[kind]) for kind in ("head", "key", "value")] == [queries, shared, shared]
    attention = model.anatomy.blocks[block].self_attn
    assert torch.equal(torch.cat(found["head"], dim=1), raw(model, attention.o_proj, TEXT, "in"))
    assert torch.equal(torch.cat(found["key"], dim=1), raw(model, attention.k_proj, TEXT, "out"))
    assert torch.equal(torch.cat(found["value"], dim=1), raw(model, attention.v_proj, TEXT, "out"))
    with torch.no_grad():
        assert close(attention.o_proj(torch.cat(found["head"], dim=1)), found["attn"][0])
    # Token 0 sees itself alone: every query head copies the value head that it shares.
    for head in range(queries):
        assert close(found["head"][head][:1], found["value"][head // (queries // shared)][:1])


def check_edit_of_a_head(model: TextModel, block: int, head: int) -> None:
    """It reaches the stream through that head's columns of the output projection, and nothing else."""
    site = Site("head", block, head)
    size = model.capture([TEXT], site, "last")[site].shape[1]
    shift = torch.randn(size, generator=torch.Generator().manual_seed(0))
    weight = model.anatomy.tap(site).module.weight
    sites = [f"head.{block}", f"attn.{block}"]
    plain = model.capture([TEXT], sites, "all")
    with model.edit(Add(site=site, shift=shift, position=Position("all"))):
        edited = model.capture([TEXT], sites, "all")
    for other in plain.sites:
        if other.kind == "head" and other != site:
            assert torch.equal(edited[other], plain[other])
    assert torch.allclose(edited[site] - plain[site], shift, atol=1e-4)
    expected = weight[:, head * size : (head + 1) * size] @ shift
    moved = edited[f"attn.{block}"] - plain[f"attn.{block}"]
    assert torch.allclose(moved, expected.detach().expand_as(moved), atol=1e-3)


def test_the_embedded_model_has_nine_query_and_three_key_heads(smol: TextModel) -> None:
    assert (smol.config.num_attention_heads, smol.config.num_key_value_heads) == (9, 3)
    check_heads(smol, 0, 9, 3)
    check_heads(smol, 17, 9, 3)
    check_edit_of_a_head(smol, 17, 4)


def test_heads_wider_than_their_share_of_the_stream() -> None:
    """Qwen3's: four heads of 16 in a stream of 32, two of keys."""
    for family in ("llama", "qwen3"):
        model = TextModel(*tiny_model(family))
        check_heads(model, 1, 4, 2)
        check_edit_of_a_head(model, 1, 3)
