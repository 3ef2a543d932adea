"""A tiny random model of every family, and where its parts stand: told here by hand, found by covec from structure.

Windows of attention are four tokens long, so that the texts leave them; queries share keys wherever the family can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import transformers

from covec.models.text import TextModel
from tiny import randomised, tiny_tokenizer

HEADS = 4
SITES = ("embed", "resid", "attn", "mlp", "neuron", "mixer", "head", "key", "value", "final")
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "initializer_range": 0.2,
}
FUSED = "queries, keys and values come fused from one projection"
EXPERTS = "every expert has neurons of its own"
NORMED = "the stream is normed after every sum: between the norms it grows by what attention and MLP add"
NO_FINAL = "no norm follows the last block, which gives what the head reads"


@dataclass(frozen=True)
class Family:
    """One family: how its tiny model is made, and what is known of it.

    `out`, `down`, `key` are paths in a block (of the projections that end attention and MLP, and of the keys), `shared`
    the number of heads of keys; `mixes` says that blocks have state-space mixers. `lacks` and `breaks` say in one line
    why it has no sites of a kind, or does not keep a law.
    """

    model: str
    config: dict[str, Any] = field(default_factory=dict)
    shape: dict[str, str] = field(default_factory=dict)  # other names of what SHAPE says; "" where it says nothing
    out: str = "self_attn.o_proj"
    down: str = "mlp.down_proj"
    key: str = "self_attn.k_proj"
    shared: int = HEADS
    mixes: bool = False
    lacks: dict[str, str] = field(default_factory=dict)
    breaks: dict[str, str] = field(default_factory=dict)

    @property
    def kinds(self) -> set[str]:
        """The kinds of site it has."""
        absent = {kind for kinds in self.lacks for kind in kinds.split(", ")}
        return set(SITES) - absent - (set() if self.mixes else {"mixer"})


def _llama(model: str, config: dict[str, Any] | None = None, **others: Any) -> Family:
    """A family whose parts are called as in Llama, with two heads of keys and values."""
    return Family(model, {"num_key_value_heads": 2, **(config or {})}, **{"shared": 2, **others})


_FUSED = {"key, value": FUSED}
_OPENAI = {"out": "attn.c_proj", "down": "mlp.c_proj", "key": ""}
_BERT = {
    "out": "attention.output.dense",
    "down": "output.dense",
    "key": "attention.self.key",
    "lacks": {"final": NO_FINAL},
    "breaks": {"stream": NORMED},
}
_WINDOW = {"sliding_window": 4}
_VISION = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
_MPT = {
    "hidden_size": "d_model",
    "num_attention_heads": "n_heads",
    "num_hidden_layers": "n_layers",
    "max_position_embeddings": "max_seq_len",
    "intermediate_size": "",
}

FAMILIES: dict[str, Family] = {
    "llama": _llama("LlamaForCausalLM"),
    "mistral": _llama("MistralForCausalLM", _WINDOW),
    "mixtral": _llama("MixtralForCausalLM", {"num_local_experts": 4}, lacks={"neuron": EXPERTS}),
    "qwen2": _llama("Qwen2ForCausalLM", {**_WINDOW, "use_sliding_window": True, "max_window_layers": 1}),
    "qwen3": _llama("Qwen3ForCausalLM", {"head_dim": 16}),
    "qwen3-moe": _llama(
        "Qwen3MoeForCausalLM",
        {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
        lacks={"neuron": EXPERTS},
    ),
    "gemma": _llama("GemmaForCausalLM", {"head_dim": 8}),
    "gemma2": _llama("Gemma2ForCausalLM", {**_WINDOW, "head_dim": 8}),
    "gemma3-text": _llama("Gemma3ForCausalLM", {**_WINDOW, "head_dim": 8, "layer_types": None}),
    "gemma3": _llama("Gemma3ForConditionalGeneration", {**_WINDOW, "head_dim": 8}),
    "phi": Family("PhiForCausalLM", out="self_attn.dense", down="mlp.fc2"),
    "phi3": _llama("Phi3ForCausalLM", _WINDOW, key="", lacks=_FUSED),
    "gpt2": Family(
        "GPT2LMHeadModel", shape={"intermediate_size": "n_inner"}, lacks=_FUSED, **_OPENAI
    ),
    "gpt-neox": Family(
        "GPTNeoXForCausalLM", out="attention.dense", down="mlp.dense_4h_to_h", key="", lacks=_FUSED
    ),
    "gpt-neo": Family(
        "GPTNeoForCausalLM",
        {"attention_types": [[["global", "local"], 1]], "window_size": 4},
        shape={"num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"},
        out="attn.attention.out_proj",
        down="mlp.c_proj",
        key="attn.attention.k_proj",
    ),
    "gptj": Family(
        "GPTJForCausalLM", {"rotary_dim": 4}, {"intermediate_size": "n_inner"},
        out="attn.out_proj", down="mlp.fc_out", key="attn.k_proj",
    ),
    "opt": Family(
        "OPTForCausalLM", {"word_embed_proj_dim": 32}, {"intermediate_size": "ffn_dim"},
        out="self_attn.out_proj", down="fc2",
    ),
    "bloom": Family(
        "BloomForCausalLM", out="self_attention.dense", down="mlp.dense_4h_to_h", key="", lacks=_FUSED
    ),
    "falcon": Family(
        "FalconForCausalLM", {"alibi": True, "parallel_attn": False},
        out="self_attention.dense", down="mlp.dense_4h_to_h", key="", lacks=_FUSED,
    ),
    "falcon-parallel": Family(
        "FalconForCausalLM", {"new_decoder_architecture": True, "num_kv_heads": 2},
        out="self_attention.dense", down="mlp.dense_4h_to_h", key="", lacks=_FUSED,
    ),
    "olmo2": _llama("Olmo2ForCausalLM"),
    "glm4": _llama("Glm4ForCausalLM", {"head_dim": 8}),
    "stablelm": _llama("StableLmForCausalLM"),
    "starcoder2": _llama("Starcoder2ForCausalLM", _WINDOW, down="mlp.c_proj"),
    "cohere": _llama("CohereForCausalLM"),
    "granite": _llama("GraniteForCausalLM", {"residual_multiplier": 0.3, "embedding_multiplier": 3.0}),
    "gpt-oss": _llama(
        "GptOssForCausalLM", {**_WINDOW, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
        lacks={"neuron": EXPERTS},
    ),
    "mpt": Family("MptForCausalLM", shape=_MPT, out="attn.out_proj", down="ffn.down_proj", key="", lacks=_FUSED),
    "dbrx": Family(
        "DbrxForCausalLM",
        {
            "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 4.0},
            "ffn_config": {"hidden_size": 32, "ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        },
        _MPT,
        out="norm_attn_norm.attn.out_proj",
        key="",
        lacks={"neuron": EXPERTS, **_FUSED},
    ),
    "mamba": Family(
        "MambaForCausalLM", {"state_size": 4, "conv_kernel": 3},
        mixes=True,
        lacks={"attn, mlp, neuron, head, key, value": "its blocks are one state-space mixer each"},
        breaks={"hidden_states": "transformers leaves out the embeddings: `resid.k` is `hidden_states[k]`"},
    ),
    "jamba": _llama(
        "JambaForCausalLM",
        {"num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 4,
         "expert_layer_offset": 3, "use_mamba_kernels": False, "mamba_dt_rank": 4, "mamba_d_state": 4},
        down="feed_forward.down_proj",
        mixes=True,
    ),
    "bert": Family("BertForMaskedLM", **_BERT),
    "roberta": Family("RobertaForMaskedLM", **_BERT),
    "electra": Family("ElectraForMaskedLM", {"embedding_size": 16}, **_BERT),
    "distilbert": Family(
        "DistilBertForMaskedLM",
        shape={"hidden_size": "dim", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
               "num_hidden_layers": "n_layers"},
        out="attention.out_lin",
        down="ffn.lin2",
        key="attention.k_lin",
        lacks={"final": NO_FINAL},
        breaks={"stream": NORMED},
    ),
    "modernbert": Family(
        "ModernBertForMaskedLM",
        {"local_attention": 4, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
        out="attn.Wo", down="mlp.Wo", key="", lacks=_FUSED,
    ),
    "t5 (encoder)": Family(
        "T5EncoderModel", {"d_kv": 8, "decoder_start_token_id": 0},
        {"hidden_size": "d_model", "num_attention_heads": "num_heads", "intermediate_size": "d_ff",
         "num_hidden_layers": "num_layers", "max_position_embeddings": "", "initializer_range": ""},
        out="layer.0.SelfAttention.o", down="layer.1.DenseReluDense.wo", key="layer.0.SelfAttention.k",
    ),
}  # fmt: skip


@lru_cache
def model_of(name: str) -> TextModel:
    """The tiny model of a family; the same in every test."""
    tokenizer = tiny_tokenizer("one")
    return TextModel(randomised(lambda: build(name, tokenizer)), tokenizer, name=f"tiny-{name}")


def build(name: str, tokenizer: Any) -> Any:
    """A fresh model of a family with random weights."""
    family = FAMILIES[name]
    kind = getattr(transformers, family.model)
    given = {family.shape.get(key, key): value for key, value in SHAPE.items()} | family.config
    given.pop("", None)
    tokens = {
        "vocab_size": len(tokenizer),
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if name == "gemma3":
        vision = transformers.SiglipVisionConfig(num_hidden_layers=4, **_VISION)
        text = transformers.Gemma3TextConfig(**given, **tokens)
        return kind(kind.config_class(text_config=text, vision_config=vision, mm_tokens_per_image=4, **tokens))
    return kind(kind.config_class(**given, **tokens))
