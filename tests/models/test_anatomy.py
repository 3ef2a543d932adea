"""Sites mean what they say: checked against raw hooks, the model's own hidden states and its weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from covec.errors import ModelError
from covec.models.anatomy import Tap, dissect
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean.", "x", "A dull film: two hours"]
KINDS = {
    "llama": ("embed", "resid", "attn", "mlp", "neuron", "head", "key", "value", "final"),
    "gpt2": ("embed", "resid", "attn", "mlp", "neuron", "head", "final"),  # its projections are fused
    "gpt-neox": ("embed", "resid", "attn", "mlp", "neuron", "head", "final"),
    "qwen3": ("embed", "resid", "attn", "mlp", "neuron", "head", "key", "value", "final"),
}


def close(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() <= 1e-4 * other.abs().max())


def test_every_family_has_its_sites(tiny: TextModel) -> None:
    kinds = {site.kind for site in tiny.sites}
    assert kinds == set(KINDS[tiny.name.removeprefix("tiny-")])
    for kind in ("resid", "attn", "mlp", "neuron"):
        assert [site.block for site in tiny.sites if site.kind == kind] == list(range(tiny.blocks))
    heads = tiny.config.num_attention_heads
    assert len([site for site in tiny.sites if site.kind == "head"]) == heads * tiny.blocks
    assert tiny.sites[0] == Site("embed")
    assert tiny.sites[-1] == Site("final")


def test_resid_is_the_hidden_state_after_its_block_and_final_that_after_the_norm(tiny: TextModel) -> None:
    """Of the last block the raw stream is read, which `hidden_states[-1]` is not."""
    raw: list[Tensor] = []
    handle = tiny.anatomy.blocks[-1].register_forward_hook(
        lambda _, args, output: raw.append(output if isinstance(output, Tensor) else output[0])
    )
    ids = tiny.tokenizer(TEXTS[0], return_tensors="pt").input_ids
    with torch.no_grad():
        states = tiny.module(ids, output_hidden_states=True).hidden_states
    handle.remove()
    rows = tiny.capture([TEXTS[0]], ["embed", "resid.*", "final"], "all")
    assert close(rows["embed"], states[0][0])
    for block in range(tiny.blocks - 1):
        assert close(rows[f"resid.{block}"], states[block + 1][0])
    assert close(rows[f"resid.{tiny.blocks - 1}"], raw[0][0])
    assert close(rows["final"], states[-1][0])
    assert not close(rows[f"resid.{tiny.blocks - 1}"], states[-1][0])


def test_the_stream_grows_by_what_attention_and_mlp_add(tiny: TextModel) -> None:
    rows = tiny.capture(TEXTS, ["embed", "resid.*", "attn.*", "mlp.*"], "all")
    before = rows["embed"]
    for block in range(tiny.blocks):
        after = rows[f"resid.{block}"]
        assert close(after - before, rows[f"attn.{block}"] + rows[f"mlp.{block}"])
        before = after


def linear(module: nn.Module, rows: Tensor) -> Tensor:
    with torch.no_grad():
        return module(rows[None])[0]


def test_heads_and_neurons_rebuild_what_their_projection_gives(tiny: TextModel) -> None:
    """The projection adds attention's heads up (K-21): together they give `attn`; neurons give `mlp`."""
    rows = tiny.capture(TEXTS, ["attn.1", "mlp.1", "neuron.1", "head.1"], "all")
    heads = torch.cat([rows[Site("head", 1, head)] for head in range(tiny.config.num_attention_heads)], dim=1)
    for whole, parts, site in (("attn.1", heads, Site("head", 1, 0)), ("mlp.1", rows["neuron.1"], Site("neuron", 1))):
        assert close(linear(tiny.anatomy.tap(site).module, parts), rows[whole])


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_keys_and_values_have_their_own_number_of_heads(family: str) -> None:
    model = TextModel(*tiny_model(family))
    rows = model.capture(TEXTS, ["key.0", "value.0", "head.0"], "all")
    count = {kind: len([site for site in rows.sites if site.kind == kind]) for kind in ("key", "value", "head")}
    assert count == {"key": 2, "value": 2, "head": 4}
    attention = model.anatomy.blocks[0].get_submodule("self_attn")
    outputs: list[Tensor] = []
    handle = attention.get_submodule("v_proj").register_forward_hook(lambda _, args, output: outputs.append(output[0]))
    model.capture([TEXTS[0]], "resid.0")
    handle.remove()
    values = torch.cat([rows.of(0, Site("value", 0, head)) for head in range(2)], dim=1)
    assert close(values, outputs[0].detach())


def test_a_head_of_queries_that_share_keys_sees_only_its_own_values() -> None:
    """With one token attention copies its value: heads 0 and 1 are value head 0, heads 2 and 3 value head 1."""
    model = TextModel(*tiny_model("qwen3"))
    rows = model.capture(["x"], ["head.0", "value.0"], "all")
    for head in range(4):
        assert close(rows[Site("head", 0, head)], rows[Site("value", 0, head // 2)])


def test_modules_are_read_by_their_dotted_path_at_either_end(tiny: TextModel) -> None:
    """The second block's input is the first one's output, under any name."""
    names = {id(part): name for name, part in tiny.anatomy.body.named_modules()}
    path = names[id(tiny.anatomy.blocks[1])]
    rows = tiny.capture(TEXTS, [path, f"{path}@in", "resid.0", "resid.1"], "last")
    assert torch.equal(rows[path], rows["resid.1"])
    assert torch.equal(rows[f"{path}@in"], rows["resid.0"])


def test_unknown_sites_are_refused(tiny: TextModel) -> None:
    for site in ("resid.99", "mixer.0", "head.0.99"):
        with pytest.raises(ModelError, match="no site"):
            tiny.capture(TEXTS, site)
    with pytest.raises(ModelError, match=r"'nowhere\.at\.all' is neither a site nor .*; its sites are .*resid\.0"):
        tiny.capture(TEXTS, "nowhere.at.all")
    with pytest.raises(ModelError, match="no site"):
        tiny.anatomy.tap(Site("resid", 99))


@pytest.mark.parametrize("columns", [None, slice(1, 3)])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_tap_writes_what_it_reads(columns: slice | None, scale: float) -> None:
    """What does not change stays bit for bit, also where the site is a multiple of what its module gives."""
    tap = Tap(nn.Identity(), columns=columns, scale=scale)
    hidden = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    given = hidden.clone()
    assert torch.equal(tap.write(hidden, tap.read(hidden)), hidden)
    changed = tap.write(hidden, tap.read(hidden) + 1)
    assert torch.allclose(tap.read(changed), tap.read(hidden) + 1)
    assert torch.equal(hidden, given)
    outside = [0, 3] if columns else []
    assert torch.equal(changed[..., outside], hidden[..., outside])


def test_a_network_without_blocks_is_refused() -> None:
    with pytest.raises(ModelError, match="no stack of transformer blocks in Sequential"):
        dissect(nn.Sequential(nn.Linear(2, 2)), object())


def test_the_embedded_model_has_nine_query_and_three_key_heads(smol: TextModel) -> None:
    kinds = [site.kind for site in smol.sites if site.block == 0]
    assert {kind: kinds.count(kind) for kind in ("head", "key", "value")} == {"head": 9, "key": 3, "value": 3}
    rows = smol.capture([TEXTS[0]], ["head.3", "attn.3", "embed", "resid.0", "attn.0", "mlp.0"], "all")
    heads = torch.cat([rows[Site("head", 3, head)] for head in range(9)], dim=1)
    assert close(linear(smol.anatomy.tap(Site("head", 3, 0)).module, heads), rows["attn.3"])
    assert close(rows["resid.0"] - rows["embed"], rows["attn.0"] + rows["mlp.0"])


def test_a_block_that_stands_twice_in_the_stack_is_refused() -> None:
    """Both would be read where it runs first (models that are stacked from copies of their own blocks)."""
    module, tokenizer = tiny_model("llama")
    module.model.layers[2] = module.model.layers[1]
    with pytest.raises(ModelError, match="runs 3 blocks as 4 layers"):
        TextModel(module, tokenizer)


def test_parts_that_several_blocks_share_are_no_sites() -> None:
    module, tokenizer = tiny_model("llama")
    module.model.layers[2].mlp = module.model.layers[1].mlp
    module.model.layers[3].self_attn.o_proj = module.model.layers[0].self_attn.o_proj
    model = TextModel(module, tokenizer)
    kinds = {kind: [site.block for site in model.sites if site.kind == kind] for kind in ("mlp", "attn", "resid")}
    assert kinds == {"mlp": [0, 3], "attn": [1, 2], "resid": [0, 1, 2, 3]}
    assert {site.block for site in model.sites if site.kind == "head"} == {1, 2}
    for shared in ("mlp.1", "head.0.0", "layers.2.mlp", "layers.1.mlp.down_proj"):
        with pytest.raises(ModelError, match=r"no site|runs in several blocks"):
            model.capture(["ice melts"], shared)


def test_keys_wider_than_values_have_as_many_heads() -> None:
    """As where queries and keys are 12 wide a head and values 8 (MiMo, DeepSeek)."""
    module, tokenizer = tiny_model("llama")
    for layer in module.model.layers:
        layer.self_attn.k_proj = nn.Linear(32, 24, bias=False)
    model = TextModel(module, tokenizer)
    assert [str(site) for site in model.sites if site.kind == "key" and site.block == 0] == ["key.0.0", "key.0.1"]
    columns = [model.anatomy.tap(Site.parse(f"key.0.{head}")).columns for head in (0, 1)]
    assert columns == [slice(0, 12), slice(12, 24)]
    assert model.anatomy.tap(Site.parse("value.0.1")).columns == slice(8, 16)
