"""Which settings of a configuration are identity: all that change what the network gives, and no mere notes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.models.fingerprint import fingerprint
from covec.models.settings import settings
from families.zoo import build, model_of
from tiny import tiny_model, tiny_tokenizer

# Between them they have sliding windows, layers of two kinds, parallel blocks, experts, mixers, soft caps, multipliers,
# rotary angles by kind of layer, ALiBi and relative positions.
FAMILIES = (
    "llama", "qwen2", "gemma3-text", "gemma3", "gpt2", "gpt-neo", "gptj", "falcon", "cohere", "granite", "gpt-oss",
    "mpt", "dbrx", "jamba", "modernbert", "t5 (encoder)",
)  # fmt: skip
IDS = torch.tensor([[1, 40, 41, 42, 60, 70, 80, 90, 33, 44, 55, 66, 77, 88]])


def other_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value]
    if isinstance(value, float):
        return [1.7 * value + 0.3]
    if isinstance(value, str):
        return ["relu"]
    if isinstance(value, list) and value:
        return [value[::-1], value[:1] * len(value)]
    return [True, 0.5, 8] if value is None else []


def entries(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield from () if name == "vision_config" else entries(value)
        elif name != "output_attentions":  # another kernel, which rounds in another way
            yield document, name


def changed(config: Any) -> Iterator[tuple[str, Any]]:
    """The configuration with one entry changed, for every entry and some values."""
    document = config.to_dict()
    if config.model_type == "dbrx":  # this part of it takes no settings but its own in older versions of transformers
        document["ffn_config"] = config.ffn_config.to_diff_dict()
    for holder, name in entries(document):
        for value in other_values(holder[name]):
            kept, holder[name] = holder[name], value
            yield f"{name}: {kept} -> {value}", copy.deepcopy(document)
            holder[name] = kept


def given(module: Any) -> Tensor:
    with torch.no_grad():
        output = module(input_ids=IDS)
    return output.logits if "logits" in output else output[0]


def rebuilt(module: Any, document: dict[str, Any]) -> Any:
    """The same weights under other settings; None where these cannot be, or want other weights."""
    try:
        again = type(module)(type(module.config).from_dict(document)).eval()
        again.load_state_dict(module.state_dict())
        return again, given(again)
    except Exception:  # whatever transformers says to senseless settings
        return None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_setting_that_changes_what_the_network_gives_is_identity(family: str) -> None:
    module, tokenizer = model_of(family).module, tiny_tokenizer("one")
    expected, known = given(module), settings(module.config)
    before, counted = fingerprint(module, tokenizer), 0
    for what, document in changed(module.config):
        made = rebuilt(module, document)
        if made is None:
            continue
        again, found = made
        if settings(again.config) != known:
            counted += 1
        elif found.shape != expected.shape or (found - expected).abs().max() > 1e-5 * expected.abs().max():
            assert fingerprint(again, tokenizer) != before, what  # such as tied weights
    assert counted >= 3


NOTES = {
    "_name_or_path": "a copy", "torch_dtype": "bfloat16", "use_cache": False, "pad_token_id": 7,
    "attention_dropout": 0.1, "initializer_range": 1.0, "max_position_embeddings": 77, "output_hidden_states": True,
    "id2label": {0: "a"}, "unsloth_version": "2025.1", "a note of a training program": {"steps": 3},
}  # fmt: skip


@pytest.mark.parametrize("note", NOTES)
def test_what_changes_nothing_is_no_identity(note: str) -> None:
    module, tokenizer = tiny_model("llama")
    before = fingerprint(module, tokenizer)
    setattr(module.config, note, NOTES[note])
    assert fingerprint(module, tokenizer) == before


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3-text", "granite", "gpt-oss", "dbrx"])
def test_saved_and_read_again_settings_are_the_same(family: str, tmp_path: Any) -> None:
    module = build(family, tiny_tokenizer("one"))
    module.config.save_pretrained(tmp_path)
    assert settings(type(module.config).from_pretrained(tmp_path)) == settings(module.config)


def test_a_limit_counts_where_angles_depend_on_it() -> None:
    module, _ = tiny_model("llama")
    rotary = {**module.config.rope_parameters, "rope_type": "dynamic", "factor": 2.0}
    found = []
    for limit in (64, 128):
        config = type(module.config).from_dict({**module.config.to_dict(), "rope_parameters": rotary})
        config.max_position_embeddings = limit
        found.append(settings(config))
    assert found[0] != found[1]
    assert all(re.fullmatch(r"rotary \w+|max_position_embeddings", name) for name, _ in found[0][10:])
