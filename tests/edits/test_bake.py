"""Baked models: loaded by plain transformers they write what the edited ones do, or nothing was written at all."""

import os

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, OPTConfig, OPTForCausalLM

from covec.concepts.vector import ConceptVector
from covec.edits.affine import affine
from covec.edits.algebra import Ablate, Add, Gate, Replace, SetCoordinate, ToProbability
from covec.edits.bake import bake
from covec.errors import CovecError, FileError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import FAMILIES, randomised, tiny_model, tiny_tokenizer

PROMPTS = ["The hotel was", "A dull film: two hours"]
ALL = Position("all")


def tiny_opt():
    tokenizer = tiny_tokenizer()
    config = OPTConfig(
        vocab_size=len(tokenizer), hidden_size=32, word_embed_proj_dim=32, ffn_dim=48, num_hidden_layers=3,
        num_attention_heads=4, max_position_embeddings=128, init_std=0.2, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return randomised(lambda: OPTForCausalLM(config)), tokenizer


@pytest.fixture(scope="module", params=(*FAMILIES, "opt"))
def model(request):
    module, tokenizer = tiny_opt() if request.param == "opt" else tiny_model(request.param)
    return TextModel(module, tokenizer, name=request.param)


def add(site, size=2.0, width=32, **others):
    shift = size * torch.randn(width, generator=torch.Generator().manual_seed(1))
    return Add(site=Site.parse(site), shift=shift, **{"position": ALL, **others})


def ablate(site, target=0.0, width=32):
    axis = torch.randn(width, generator=torch.Generator().manual_seed(2))
    return Ablate(
        site=Site.parse(site), directions=(axis / axis.norm())[None], targets=torch.tensor([target]), position=ALL
    )


def written(folder, model, count=12):
    """What plain transformers writes with the checkpoint in `folder`, in float32, greedily."""
    module = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        settings = GenerationConfig(
            max_new_tokens=count, pad_token_id=model.pad_id, eos_token_id=tokenizer.eos_token_id
        )
        out = module.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        texts.append(tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True))
    return texts


def edited(model, edits, count=12):
    with model.edit(*edits):
        return [model.generate(prompt, max_new_tokens=count) for prompt in PROMPTS]


def projected(model, block=1):
    """A projection of everything that is added to the stream, and of the stream itself."""
    sources = ["embed", *(f"{kind}.{index}" for index in range(model.blocks) for kind in ("attn", "mlp"))]
    return [*map(ablate, sources), ablate(f"resid.{block}")]


CASES = {
    "projection of what an MLP adds": lambda model: [ablate("mlp.1")],
    "constant in attention": lambda model: [add("attn.0")],
    "embedding": lambda model: [ablate("embed")],
    "embedding, moved": lambda model: [add("embed"), ablate("embed")],
    "projected out everywhere": projected,
}
CONSTANTS = {
    "stream": lambda model: [add("resid.1"), add("resid.0", -1.0)],
    "several at one place": lambda model: [add("mlp.1"), ablate("mlp.1", 0.5), add("resid.1", -1.0)],
    "midpoint where all else is projected out": lambda model: [*projected(model)[:-1], ablate("resid.1", 0.6)],
    "neurons": lambda model: [add("neuron.0", width=48), ablate("neuron.1", 0.3, width=48)],
    "in the place of an MLP": lambda model: [
        Replace(site=Site("mlp", 1), value=torch.linspace(-1, 1, 32), position=ALL)
    ],
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_baked_writes_what_is_edited(model, case, tmp_path):
    edits = CASES[case](model)
    before = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
    assert model.bake(edits, tmp_path / "baked") == tmp_path / "baked"
    assert written(tmp_path / "baked", model) == edited(model, edits)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.module.state_dict().items())
    assert os.listdir(tmp_path) == ["baked"]


@pytest.mark.parametrize("case", CONSTANTS)
def test_a_constant_of_the_stream_needs_a_bias(model, case, tmp_path):
    edits = CONSTANTS[case](model)
    if model.name == "qwen3":
        with pytest.raises(ModelError, match=r"down_proj\.bias, and Qwen3Config has no setting for such a bias"):
            bake(model, edits, tmp_path / "baked")
        assert not os.listdir(tmp_path)
        return
    bake(model, edits, tmp_path / "baked")
    assert written(tmp_path / "baked", model) == edited(model, edits)


def test_the_settings_say_which_biases_there_are_and_others_are_zero(tmp_path):
    model = TextModel(*tiny_model("llama"), name="llama")
    bake(model, add("resid.1"), tmp_path / "baked")
    module = AutoModelForCausalLM.from_pretrained(tmp_path / "baked")
    assert (module.config.mlp_bias, module.config.attention_bias) == (True, False)
    biases = {name: one for name, one in module.named_parameters() if name.endswith("bias") and bool(one.any())}
    assert set(biases) == {"model.layers.1.mlp.down_proj.bias"}


def test_a_tied_head_is_untied_and_stays_as_it_was(tmp_path):
    model = TextModel(*tiny_model("gpt2"), name="gpt2")
    assert model.module.lm_head.weight is model.module.transformer.wte.weight
    bake(model, ablate("embed"), tmp_path / "baked")
    module = AutoModelForCausalLM.from_pretrained(tmp_path / "baked")
    assert not module.config.tie_word_embeddings
    assert torch.equal(module.lm_head.weight, model.module.lm_head.weight)
    assert not torch.equal(module.transformer.wte.weight, model.module.transformer.wte.weight)
    bake(model, add("resid.1"), tmp_path / "tied")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "tied").config.tie_word_embeddings


def test_the_embedded_model_writes_the_same_text(smol, tmp_path):
    shift = 20 * torch.randn(smol.width, generator=torch.Generator().manual_seed(0)) / smol.width**0.5
    edits = [Add(site=Site("resid", 14), shift=shift, position=ALL)]
    bake(smol, edits, tmp_path / "baked")
    assert written(tmp_path / "baked", smol, 20) == edited(smol, edits, 20)
    assert (smol.module.config.tie_word_embeddings, smol.module.config.mlp_bias) == (True, False)


def test_bfloat16_stays_bfloat16(tmp_path):
    module, tokenizer = tiny_model("llama")
    model = TextModel(module.to(torch.bfloat16), tokenizer, name="llama")
    bake(model, add("resid.1"), tmp_path / "baked")
    assert {one.dtype for one in load_file(tmp_path / "baked" / "model.safetensors").values()} == {torch.bfloat16}


def refusals(model):
    gate = Gate(Site("resid", 0), torch.ones(32), 0.0, 1.0)
    return {
        "no edits": [],
        "acts on 'content', and weights on every token": [add("resid.1", position=Position("content"))],
        "has a gate": [add("resid.1", gate=gate)],
        "is no affine map": [
            ToProbability(site=Site("mlp", 1), direction=torch.ones(32), coordinate=1.0, position=ALL)
        ],
        "norms stand between.*missing at embed": [ablate("resid.1")],
        "undoes what is added": [*projected(model), add("resid.0")],
        "is no linear map with a bias": [add("final")],
        "gate, and weights.*acts on 'last'": [add("mlp.2", gate=gate), add("resid.1", position=Position("last"))],
    }


@pytest.mark.parametrize("reason", refusals(TextModel(*tiny_model("llama"))))
def test_what_cannot_be_baked_is_refused_in_a_line(reason, tmp_path):
    model = TextModel(*tiny_model("llama"), name="llama")
    with pytest.raises(ModelError, match=reason) as caught:
        bake(model, refusals(model)[reason], tmp_path / "baked")
    assert "\n" not in str(caught.value)
    assert not os.listdir(tmp_path)


def test_models_and_places_that_cannot_be_had_are_refused(tmp_path, monkeypatch):
    model = TextModel(*tiny_model("llama"), name="llama")
    (tmp_path / "there").mkdir()
    with pytest.raises(FileError, match="is there already"):
        bake(model, add("resid.1"), tmp_path / "there")
    with model.edit(add("resid.0")), pytest.raises(ModelError, match="outside"):
        bake(model, add("resid.1"), tmp_path / "new")
    vector = ConceptVector.from_direction(
        "d", "resid.1", torch.ones(32), scale=1.0, scale_from="native", model={"fingerprint": "another"}
    )
    with pytest.raises(ModelError, match="another model"):
        bake(model, vector.add(position="all"), tmp_path / "new")
    monkeypatch.setattr(model.config, "quantization_config", {"quant_method": "int8"}, raising=False)
    with pytest.raises(ModelError, match=r"quantised \(int8\)"):
        bake(model, add("resid.1"), tmp_path / "new")
    assert os.listdir(tmp_path) == ["there"]


def test_blocks_that_do_more_than_add_are_found_out(tmp_path, monkeypatch):
    model = TextModel(*tiny_model("llama"), name="llama")
    norm = model.module.model.layers[1].register_forward_hook(lambda _, args, output: 2 * output)
    try:
        with pytest.raises(ModelError, match="says something else than edited"):
            bake(model, add("resid.1"), tmp_path / "baked")
    finally:
        norm.remove()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "edit",
    [
        add("mlp.0"),
        ablate("mlp.0", 0.4),
        SetCoordinate(site=Site("mlp", 0), directions=torch.eye(32)[:2], targets=torch.tensor([1.0, -2.0])),
        Replace(site=Site("mlp", 0), value=torch.ones(32)),
    ],
)
def test_the_map_is_what_the_edit_does(edit):
    h = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(3))
    one, other = affine(edit), affine(ablate("mlp.0", -0.3))
    wanted = edit.apply(h, None)
    columns = h.reshape(-1, 32).double().T
    found = (one.turn(columns) + one.shift[:, None]).T.reshape(h.shape)
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=1e-5)
    both = one.then(other)
    found = (both.turn(columns) + both.shift[:, None]).T.reshape(h.shape)
    torch.testing.assert_close(found.float(), ablate("mlp.0", -0.3).apply(wanted, None), rtol=0, atol=1e-5)
    with pytest.raises(CovecError, match="no affine map"):
        affine(ToProbability(site=Site("mlp", 1), direction=torch.ones(32), coordinate=1.0))
