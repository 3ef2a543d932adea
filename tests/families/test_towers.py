"""What single families bring: towers beside the text's, encoders of other models, norms, positions, folders."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from packaging.version import Version
from torch import Tensor

import covec
from comparing import close
from covec.edits.algebra import Add
from covec.errors import CovecError, ExamplesError, ModelError
from covec.models.addends import straying
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from families.laws import TEXTS
from families.zoo import FAMILIES, SHAPE, model_of
from tiny import randomised, tiny_tokenizer

TOKENIZER = tiny_tokenizer("one")
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}


def small(kind: str, **config: Any) -> Any:
    """A random model of a class of transformers."""
    maker = getattr(transformers, kind)
    given = {**SHAPE, "vocab_size": len(TOKENIZER), "pad_token_id": TOKENIZER.pad_token_id, **config}
    return randomised(lambda: maker(maker.config_class(**given)))


def needs(version: str) -> pytest.MarkDecorator:
    """Of what transformers has from `version` on."""
    older = Version(transformers.__version__) < Version(version)
    return pytest.mark.skipif(older, reason=f"requires transformers >= {version}")


def one_line(error: pytest.ExceptionInfo[CovecError]) -> bool:
    return "\n" not in str(error.value)


def test_images_are_refused_by_a_model_that_takes_them() -> None:
    model = model_of("gemma3")
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}]
    with pytest.raises(ExamplesError, match="input 1 holds more than text") as told:
        model.capture([chat], "resid.1")  # type: ignore[list-item]
    assert one_line(told)
    with pytest.raises(ModelError, match="takes no pixel_values: .* not images") as told:
        model.generate("x", pixel_values=torch.zeros(1, 3, 8, 8))
    assert one_line(told)
    edit = Add(site=Site("resid", 1), shift=torch.ones(32))
    with model.edit(edit), pytest.raises(ModelError, match="not images") as told:
        model.module(input_ids=torch.ones(1, 3, dtype=torch.long), pixel_values=torch.zeros(1, 3, 8, 8))
    assert one_line(told)


def test_the_text_tower_is_the_one_beside_the_token_embedding() -> None:
    """The vision tower is deeper, and would be taken for the larger stack."""
    model = model_of("gemma3")
    assert (model.blocks, model.width) == (2, 32)
    assert type(model.anatomy.blocks[0]).__name__ == "Gemma3DecoderLayer"


@pytest.fixture(scope="module")
def seq2seq() -> Any:
    return small("T5ForConditionalGeneration", **T5)


def test_of_an_encoder_decoder_the_encoder_is_read(seq2seq: Any) -> None:
    model = covec.load(seq2seq, TOKENIZER)
    assert (model.blocks, model.causal, model.has_head, model.generates) == (2, False, False, False)
    alone = covec.load(seq2seq.get_encoder(), TOKENIZER)
    rows, expected = (some.capture(TEXTS, some.sites, "all") for some in (model, alone))
    assert all(torch.equal(rows[site], expected[site]) for site in model.sites)
    with pytest.raises(ModelError, match="does not continue texts, it is an encoder") as told:
        model.generate("x")
    assert one_line(told)


def test_what_the_encoder_reads_can_be_edited_and_the_decoder_hears_of_it(seq2seq: Any) -> None:
    model = covec.load(seq2seq, TOKENIZER)
    ids = TOKENIZER(TEXTS[0], return_tensors="pt").input_ids

    def written() -> Tensor:
        given = seq2seq.generate(ids, max_new_tokens=3, output_logits=True, return_dict_in_generate=True)
        return torch.stack(given.logits)

    plain = written()
    with model.edit(Add(site=Site("resid", 0), shift=torch.linspace(-3, 3, 32))):
        assert not torch.equal(written()[0], plain[0])
    assert torch.equal(written(), plain)


FOLDERS = {
    "bert": ("BertForMaskedLM", "BertForMaskedLM", {}),
    "bert without a head": ("BertModel", "BertModel", {}),
    "llama without a head": ("LlamaModel", "LlamaModel", {}),
    "llama that classifies": ("LlamaForSequenceClassification", "LlamaModel", {}),
    "modernbert": ("ModernBertForMaskedLM", "ModernBertForMaskedLM", {"cls_token_id": 1, "sep_token_id": 2}),
    "opt": ("OPTForCausalLM", "OPTForCausalLM", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    "t5": ("T5ForConditionalGeneration", "T5EncoderModel", T5),
    "t5 encoder": ("T5EncoderModel", "T5EncoderModel", T5),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_are_read_with_the_head_that_was_saved(name: str, tmp_path: Path) -> None:
    kind, read_as, config = FOLDERS[name]
    module = small(kind, **config)
    module.save_pretrained(tmp_path)
    TOKENIZER.save_pretrained(tmp_path)
    model, live = covec.load(tmp_path, dtype="float32", device="cpu"), covec.load(module, TOKENIZER)
    assert type(model.module).__name__ == read_as
    rows, expected = (some.capture(TEXTS, "resid.*", "all") for some in (model, live))
    assert all(close(rows[site], expected[site]) for site in rows.sites)


@pytest.mark.parametrize("name", ["bert", "t5 (encoder)"])
def test_a_study_of_an_encoder_says_what_it_cannot_test(name: str) -> None:
    examples = covec.Examples.from_lists(
        positive=[f"a lovely day, {number}" for number in range(50)],
        negative=[f"the train to {number} is late" for number in range(50)],
    )
    study = covec.study(model_of(name), examples, sites="resid.1", finders="mean-difference", position="mean")
    assert "continues no text" in study.used.why
    assert study.best.site == Site("resid", 1)


NORMS = {
    "bert": ("attention.output.LayerNorm", "output.LayerNorm"),
    "roberta": ("attention.output.LayerNorm", "output.LayerNorm"),
    "electra": ("attention.output.LayerNorm", "output.LayerNorm"),
    "distilbert": ("sa_layer_norm", "output_layer_norm"),
}


@pytest.mark.parametrize("name", NORMS)
def test_between_its_norms_the_stream_of_these_grows_by_attention_and_mlp(name: str) -> None:
    model = model_of(name)
    rows = model.capture(TEXTS, ["embed", "resid.*", "attn.*", "mlp.*"], "all")
    for block in range(model.blocks):
        before = rows["embed" if block == 0 else f"resid.{block - 1}"]
        first, second = (model.anatomy.blocks[block].get_submodule(path) for path in NORMS[name])
        with torch.no_grad():
            middle = first(before + rows[f"attn.{block}"])
            assert close(second(middle + rows[f"mlp.{block}"]), rows[f"resid.{block}"])


def test_every_family_that_says_so_is_among_them() -> None:
    assert set(NORMS) == {name for name, family in FAMILIES.items() if "stream" in family.breaks}


def test_what_a_block_multiplies_is_read_and_written_in_the_measure_of_the_stream() -> None:
    model = model_of("granite")
    site, shift = Site("mlp", 1), torch.linspace(-1, 1, 32)
    plain = model.capture(TEXTS, "resid.1", "all")["resid.1"]
    with model.edit(Add(site=site, shift=shift, position=Position("all"))):
        assert close(
            model.capture(TEXTS, "resid.1", "all")["resid.1"] - plain, shift.expand_as(plain), size=plain + shift
        )


STRAYING = [
    pytest.param("HyperCLOVAXForCausalLM", {}, marks=needs("5.9")),
    ("DogeForCausalLM", {}),
    pytest.param("MiniCPM3ForCausalLM", {}, marks=needs("5.13")),
    ("GPTNeoXJapaneseForCausalLM", {"intermediate_multiple_size": 2}),
]


@pytest.mark.parametrize(("kind", "config"), STRAYING)
def test_where_blocks_add_something_else_than_their_sublayers_give_that_is_said_once(
    kind: str, config: dict[str, int]
) -> None:
    """They multiply, mix or norm it on the way, which no structure tells."""
    model = TextModel(small(kind, **config), TOKENIZER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.capture(TEXTS, "resid.*", "last")
    with pytest.warns(UserWarning, match="before it adds that to the stream"):
        model.capture(TEXTS, "mlp.*", "last")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.capture(TEXTS, "attn.0", "last")


def test_an_edit_is_told_before_it_acts() -> None:
    model = TextModel(small("DogeForCausalLM"), TOKENIZER)
    with (
        pytest.warns(UserWarning, match="DogeForCausalLM multiplies, norms or mixes"),
        model.edit(Add(site=Site("mlp", 1), shift=torch.ones(32))),
    ):
        pass


@pytest.mark.parametrize("name", FAMILIES)
def test_what_sublayers_give_is_what_blocks_add_in_every_family(name: str) -> None:
    model = model_of(name)
    assert straying(model.anatomy, model.tokenizer(TEXTS[0]).input_ids) is None


def test_blocks_that_serve_several_layers_are_refused() -> None:
    with pytest.raises(ModelError, match="AlbertModel runs 1 blocks as 2 layers") as told:
        TextModel(small("AlbertForMaskedLM", embedding_size=16), TOKENIZER)
    assert one_line(told)


def test_a_norm_of_something_else_is_not_the_final_one() -> None:
    """DeBERTa norms its relative positions beside the blocks."""
    model = TextModel(small("DebertaV2ForMaskedLM", relative_attention=True, norm_rel_ebd="layer_norm"), TOKENIZER)
    assert "final" not in {site.kind for site in model.sites}
    assert len(model.capture(TEXTS, model.sites, "last")) == len(TEXTS)


def test_an_input_as_long_as_the_positions_reach_is_read_and_a_longer_one_refused() -> None:
    """RoBERTa counts positions from its padding's on, so that it has fewer than its configuration says."""
    for name in ("roberta", "gpt2", "opt", "mpt", "bert"):
        model = model_of(name)
        longest = " ".join("x" for _ in range(40))
        ids = model.tokenizer(longest).input_ids[: model.context]
        with torch.no_grad():
            model.module(torch.tensor([ids[:1] * (model.context or 0)]))
        with pytest.raises(ExamplesError, match=f"the model reads {model.context}"):
            model.capture([longest + longest], "resid.1")


def test_a_block_with_experts_has_no_neurons_and_one_without_has() -> None:
    """Block 1 has experts, of which one is shared by all tokens: its neurons are not the block's."""
    latent = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
    experts = {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24}
    module = small("DeepseekV3ForCausalLM", num_experts_per_tok=2, first_k_dense_replace=1, **latent, **experts)
    model = TextModel(module, TOKENIZER)
    assert [site for site in model.sites if site.kind == "neuron"] == [Site("neuron", 0)]
    rows = model.capture(TEXTS, ["resid.0", "resid.1", "attn.1", "mlp.1"], "all")
    assert close(rows["resid.1"] - rows["resid.0"], rows["attn.1"] + rows["mlp.1"], size=rows["resid.1"])


def test_experts_see_only_some_tokens_and_what_is_in_them_is_no_site() -> None:
    """The router sees all of them, in one list; tokens reach the experts sorted by expert."""
    model = model_of("mixtral")
    rows = model.capture(TEXTS, ["layers.0.mlp.gate@in", "layers.0.mlp@in"], "all")
    assert torch.equal(rows["layers.0.mlp.gate@in"], rows["layers.0.mlp@in"])
    with pytest.raises(ModelError, match=r"an expert of layers\.0\.mlp\.experts sees only .*: name layers") as told:
        model.capture(TEXTS, "layers.0.mlp.experts.act_fn")
    assert one_line(told)


def test_a_bidirectional_decoder_is_read_with_a_mask() -> None:
    """Without one, the padding of shorter rows would leak into them."""
    module = small("Gemma3ForCausalLM", num_key_value_heads=2, head_dim=8, use_bidirectional_attention=True)
    model = TextModel(module, TOKENIZER)
    assert not model.causal
    together = model.capture(TEXTS, "resid.*", "all")
    for index, text in enumerate(TEXTS):
        assert close(together.of(index, "resid.1"), model.capture([text], "resid.1", "all")["resid.1"])


@pytest.mark.parametrize("noise", [{"router_jitter_noise": 0.3}, {"attention_dropout": 0.3}])
def test_what_is_random_in_training_is_refused_while_it_is(noise: dict[str, float]) -> None:
    module = small("MixtralForCausalLM", num_key_value_heads=2, num_local_experts=4, **noise)
    model = TextModel(module.train(), TOKENIZER)
    with pytest.raises(ModelError, match=r"in training mode, where .*(jitter|dropout).* is at work") as told:
        model.capture(TEXTS, "resid.1")
    assert one_line(told)
    module.eval()
    assert torch.equal(*(model.capture(TEXTS, "resid.1")["resid.1"] for _ in range(2)))


LEAKY = {
    "RwkvForCausalLM": {"attention_hidden_size": 32},
    "RecurrentGemmaForCausalLM": {
        "num_hidden_layers": 3,
        "lru_width": 32,
        "attention_window_size": 4,
        "conv1d_width": 3,
    },
    "ConvBertForMaskedLM": {"embedding_size": 16, "head_ratio": 2, "conv_kernel_size": 3},
    "NystromformerForMaskedLM": {},
}


@pytest.mark.parametrize("kind", LEAKY)
def test_where_padding_leaks_through_the_mask_no_rows_share_a_batch(kind: str) -> None:
    """Their recurrent states, convolutions or landmarks take in what stands beside a row."""
    model = TextModel(small(kind, **LEAKY[kind]), TOKENIZER)
    assert model.together == 0
    rows = model.capture(TEXTS, "resid.*", "all")
    for index, text in enumerate(TEXTS):
        alone = model.capture([text], "resid.*", "all")
        assert all(close(rows.of(index, site), alone[site]) for site in rows.sites)
    if model.generates:
        texts = model.generate(TEXTS, max_new_tokens=4, min_new_tokens=4)
        assert texts == [model.generate(text, max_new_tokens=4, min_new_tokens=4) for text in TEXTS]


def test_what_heeds_its_mask_is_read_in_batches_and_edits_do_not_mislead_the_measurement() -> None:
    module = small("MambaForCausalLM", state_size=4, conv_kernel=3)
    for name in ("llama", "bert", "bloom", "mpt", "mamba", "jamba"):
        assert model_of(name).together is None
    edit = Add(site=Site("resid", 0), shift=torch.full((32,), 3.0), position=Position("2"))
    model = TextModel(module, TOKENIZER)
    with model.edit(edit):
        assert model.together is None


def test_a_state_that_edits_do_not_find_is_refused_and_they_act_without_it() -> None:
    model = TextModel(small("RwkvForCausalLM", **LEAKY["RwkvForCausalLM"]), TOKENIZER)
    plain = model.generate(TEXTS, max_new_tokens=4, min_new_tokens=4)
    with model.edit(Add(site=Site("resid", 0), shift=torch.linspace(-3, 3, 32), position=Position("generated"))):
        with pytest.raises(ModelError, match="generate with use_cache=False") as told:
            model.generate(TEXTS, max_new_tokens=4, min_new_tokens=4)
        assert one_line(told)
        steered = model.generate(TEXTS, max_new_tokens=4, min_new_tokens=4, use_cache=False)
    assert steered != plain
    assert model.generate(TEXTS, max_new_tokens=4, min_new_tokens=4) == plain
