"""From the GGUF file of a Llama-like model to an ordinary transformers folder: exact float32 weights, plain
configuration, fast tokenizer.

transformers reads such files too, but takes four times as long, marks the model as one that cannot be saved, and gives
the tokenizer GPT-2's rule for digits whatever the file says.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gguf import MODEL_ARCH, GGUFReader, TokenType, dequantize, get_tensor_name_map
from safetensors.torch import save_file
from torch import Tensor
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from covec.progress import Bar


def convert(source: Path, target: Path, bar: Bar) -> None:
    """Write the model in the GGUF file `source` as the folder `target`; `bar` advances in 3 steps.

    Weights stay in float32, which holds the dequantised values exactly. bfloat16 would halve the folder, but change
    what float32 computes (activations by 0.4%, KL 7e-5 a token) for 0.2 s of loading time in bfloat16.
    """
    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    bar.advance()
    config = _config(fields)
    weights = _weights(reader, config)
    bar.advance()
    target.mkdir(parents=True)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "model.safetensors").chmod(0o644)  # a cache may be shared; safetensors writes for the owner alone
    config.save_pretrained(target)
    GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    ).save_pretrained(target)
    _tokenizer(fields).save_pretrained(target)
    _suit_all_versions(target, fields)
    bar.advance()


def gather(files: Sequence[Path], target: Path, bar: Bar) -> None:
    """Copy the files of a model that need no conversion into the folder `target`; `bar` advances in 3 steps."""
    target.mkdir(parents=True)
    for file in files:
        shutil.copyfile(file, target / file.name)
    bar.advance(3)


def _config(fields: dict[str, Any]) -> LlamaConfig:
    if fields["general.architecture"] != "llama":
        raise ValueError(f"only Llama-like models can be converted, not {fields['general.architecture']}")
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        dtype="float32",
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        hidden_size=fields["llama.embedding_length"],
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=fields["llama.attention.head_count"],
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),  # float32 in the file
        rope_theta=fields["llama.rope.freq_base"],
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
        tie_word_embeddings=True,
    )


def _weights(reader: GGUFReader, config: LlamaConfig) -> dict[str, Tensor]:
    """The dequantised weights under transformers' names; the language head is the tied embedding."""
    with torch.device("meta"):
        expected = dict(LlamaForCausalLM(config).named_parameters())  # a tied weight once
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    found = {}
    for name in expected:
        tensor = stored.pop(names.get_name(name, try_suffixes=(".weight",)) or "")
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        layer = name.split(".")[-2]
        found[name] = _halves(weight, heads[layer]) if layer in heads else weight
    if stored:
        raise ValueError(f"{', '.join(stored)} of the file are no weights of a Llama with a tied head")
    return found


def _halves(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head in halves, as transformers rotates them; GGUF keeps the rotated pairs side by side."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()


def _tokenizer(fields: dict[str, Any]) -> PreTrainedTokenizerFast:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(individual_digits=True)
    rules = {"smollm": pre_tokenizers.Sequence([digits, bytewise]), "gpt-2": bytewise}
    tokenizer.pre_tokenizer = rules[fields["tokenizer.ggml.pre"]]
    tokenizer.decoder = decoders.ByteLevel()
    kinds = zip(tokens, fields["tokenizer.ggml.token_type"], strict=True)
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, kind in kinds if kind == TokenType.CONTROL]
    )
    named = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{f"{ours}_token": tokens[fields[f"tokenizer.ggml.{theirs}_token_id"]] for ours, theirs in named.items()},
        chat_template=fields["tokenizer.chat_template"],
        model_max_length=fields["llama.context_length"],
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def _suit_all_versions(target: Path, fields: dict[str, Any]) -> None:
    """Say in both spellings what transformers 4 and 5 spell differently: environments share one cache."""
    both = {
        "config.json": {
            "rope_theta": fields["llama.rope.freq_base"],
            "rope_parameters": {"rope_theta": fields["llama.rope.freq_base"], "rope_type": "default"},
        },
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"},
    }
    for name, settings in both.items():
        written = json.loads((target / name).read_text(encoding="utf-8")) | settings
        (target / name).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
