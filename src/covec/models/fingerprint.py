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
from covec.models.settings import settings
from covec.models.tokens import special_ids

# Behaviour stands for merges, normaliser and pre-tokeniser, whose serialised forms differ between versions.
PROBES = (
    "The quick brown fox, aged 1234.5 years, can't jump\n\n1. over  the lazy dogs!",
    " Ärger in Köln: naïve café — «да» 你好 🙂\t<|im_start|>\r\n    def f(x): return x**2",
)


def fingerprint(module: nn.Module, tokenizer: Any) -> str:
    """Digest of `module`'s architecture and weights and of `tokenizer`, as 32 hexadecimal digits.

    Reads all the weights, so that one changed weight changes it; a tensor under several names is hashed once. What code
    does to a network beside them goes unseen: buffers that are no part of its state, numbers on its modules, hooks.
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
    tensors = [*module.named_parameters(), *module.named_buffers()]
    changes = [(name, one.data_ptr(), 0 if one.is_inference() else one._version) for name, one in tensors]
    return (*changes, *_architecture(module), len(tokenizer))


def _architecture(module: nn.Module) -> list[Any]:
    return [type(module).__name__, *settings(getattr(module, "config", None)), *_adapters(module)]


def _adapters(module: nn.Module) -> list[Any]:
    """Of every layer with adapters (PEFT's) those at work, how strongly, and which are merged into its weight."""
    return [
        [name, list(part.active_adapters), bool(part.disable_adapters), list(part.merged_adapters), *_strengths(part)]
        for name, part in module.named_modules()
        if hasattr(part, "merged_adapters") and hasattr(part, "active_adapters")
    ]


def _strengths(part: Any) -> list[Any]:
    return sorted((name, f"{value:.7g}") for name, value in getattr(part, "scaling", {}).items())


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
    return [vocabulary, ends, [tokenizer(probe)["input_ids"] for probe in PROBES]]
