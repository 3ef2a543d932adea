"""A tiny Llama with a tied head as a GGUF file, written as llama.cpp's own converter does."""

from __future__ import annotations

import json
from pathlib import Path

from gguf import MODEL_ARCH, GGUFWriter, TokenType, get_tensor_name_map
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from tiny import tiny_model


def write_gguf(path: Path) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """Write the file and return the model and tokenizer that are in it."""
    _, tokenizer = tiny_model("llama", bos="one")
    module = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            rms_norm_eps=1e-5,
            rope_theta=5000.0,
            tie_word_embeddings=True,
        )
    ).eval()
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(128)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(5000.0)
    _add_tokenizer(writer, tokenizer)
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, 2)
    for name, weight in module.named_parameters():
        writer.add_tensor(
            names.get_name(name, try_suffixes=(".weight",)), _interleaved(name, weight.detach()).numpy().copy()
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return module, tokenizer


def _add_tokenizer(writer: GGUFWriter, tokenizer: PreTrainedTokenizerFast) -> None:
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=lambda token: vocabulary[token])
    special = set(tokenizer.all_special_tokens)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if token in special else TokenType.NORMAL for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_unk_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)


def _interleaved(name: str, weight: Tensor) -> Tensor:
    """Query and key rows with the two rotated halves of each head side by side."""
    heads = 4 if "q_proj" in name else 2 if "k_proj" in name else 0
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2).contiguous() if heads else weight
