"""The fingerprint of a model: what makes two models the same for a concept vector.

It covers the architecture, the tokenizer and every weight rounded to bfloat16. The dtype a model was loaded in, its
device and its chat template are not identity: they are told beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from covec.errors import ModelError
from covec.models.tokens import special_ids

# What changes the function without changing the shape of any weight. Versions of transformers spell some in two ways.
_SETTINGS = (
    ("model_type",),
    ("num_attention_heads",),
    ("num_key_value_heads",),
    ("hidden_act", "activation_function"),
    ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"),
    ("rope_theta", "rotary_emb_base"),
    ("partial_rotary_factor", "rotary_pct"),
    ("factor",),
    ("sliding_window",),
    ("use_parallel_residual",),
)
# Those that most architectures lack: they count where they are set, so that others keep their fingerprints.
_RARE = (
    *("residual_multiplier", "attention_multiplier", "embedding_multiplier", "logits_scaling", "logit_scale"),
    *("attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "rope_local_base_freq"),
    *("num_experts_per_tok", "norm_topk_prob", "routed_scaling_factor", "n_group", "topk_group", "clip_qkv"),
    *("scale_attn_by_inverse_layer_idx", "use_sliding_window", "alibi"),
    *("rope_type", "low_freq_factor", "high_freq_factor", "attention_factor"),
)
# Behaviour stands for merges, normaliser and pre-tokeniser, whose serialised forms differ between versions.
_PROBES = (
    "The quick brown fox, aged 1234.5 years, can't jump\n\n1. over  the lazy dogs!",
    " Ärger in Köln: naïve café — «да» 你好 🙂\t<|im_start|>\r\n    def f(x): return x**2",
)


def fingerprint(module: nn.Module, tokenizer: Any) -> str:
    """Digest of `module`'s architecture and weights and of `tokenizer`, as 32 hexadecimal digits.

    Reads all the weights, so that one changed weight changes it; a tensor under several names is hashed once.
    """
    module = getattr(module, "_orig_mod", module)  # torch.compile wraps it
    digest = hashlib.sha256()
    for part in (_architecture(module), _weights(module), _tokenizer(tokenizer)):
        digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()[:32]


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Digest of all that an input's tokens depend on, and which of them are content; chat templates are part of it."""
    part = [_tokenizer(tokenizer), sorted(special_ids(tokenizer)), getattr(tokenizer, "chat_template", None)]
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:32]


def state(module: nn.Module, tokenizer: Any) -> tuple[Any, ...]:
    """What tells in no time that a fingerprint taken before may be of another network.

    Weights count their changes in place; only those made through `.data` go unseen.
    """
    tensors = [*module.parameters(), *module.buffers()]
    changes = [(tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]
    return (*changes, *_architecture(module), len(tokenizer))


def _architecture(module: nn.Module) -> list[Any]:
    config = getattr(module, "config", None)
    rare = [[name, value] for name in _RARE if (value := _setting(config, (name,))) not in (None, "0", "default")]
    return [type(module).__name__, *(_setting(config, aliases) for aliases in _SETTINGS), *rare]


def _setting(config: Any, aliases: tuple[str, ...]) -> str | None:
    rotary = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for alias in aliases:
        value = getattr(config, alias, None)
        value = rotary.get(alias) if value is None else value
        if value is not None:
            # Seven digits: files in other formats keep numbers in float32.
            return f"{value:.7g}" if isinstance(value, int | float) else str(value)
    return None


def _weights(module: nn.Module) -> list[Any]:
    named = _named(module)
    distinct = {_place(tensor): tensor for tensor in named.values()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing and rounding both release the interpreter's lock
        digests = dict(zip(distinct, pool.map(_digest, distinct.values()), strict=True))
    return [[name, list(tensor.shape), digests[_place(tensor)]] for name, tensor in sorted(named.items())]


def _named(module: nn.Module) -> dict[str, Tensor]:
    named: dict[str, Tensor] = module.state_dict()
    if away := [name for name, tensor in named.items() if tensor.is_meta]:
        raise ModelError(f"weights such as {away[0]} are not in memory (offloaded): load the model without offloading")
    # The language head is called differently by versions of transformers (GPT-NeoX).
    embeddings: Any = getattr(module, "get_output_embeddings", None)
    head = embeddings() if embeddings else None
    called = next((f"{name}." for name, part in module.named_modules() if part is head), "head.")
    return {re.sub(f"^{re.escape(called)}", "head.", name): tensor for name, tensor in named.items()}


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _digest(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        tensor = tensor.to(torch.bfloat16)
    raw = tensor.contiguous().cpu().view(-1).view(torch.uint8)
    return hashlib.sha256(raw.numpy().data).hexdigest()


def _tokenizer(tokenizer: Any) -> list[Any]:
    vocabulary = hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()
    ends = [tokenizer.bos_token_id, tokenizer.eos_token_id]  # not the padding, which people set as they like
    return [vocabulary, ends, [tokenizer(probe)["input_ids"] for probe in _PROBES]]
