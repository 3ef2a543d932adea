"""What a model's configuration says of what it computes, beyond the shapes of its weights.

Some settings are told of every model. Every other one that the configuration's class names counts where it is not what
the class takes for granted, so that a setting that a later version of transformers adds leaves older models what they
were. Settings that no class names (notes of training programs) count nowhere, and neither does what is listed here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any, cast

from covec.models.anatomy import text_config

# Told of every model, the first alias that there is. Versions of transformers spell some in two ways.
_ALWAYS = (
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
_TOLD = {alias for aliases in _ALWAYS for alias in aliases}

# What weights tell by their shapes or bits.
_WEIGHTS = re.compile(
    r"(vocab|hidden|intermediate|embedding|moe_intermediate)_size|num_(hidden_|decoder_|encoder_)?layers|n_(embd|layers?"
    r"|head|heads|inner|positions)|num_heads|head_dim|(d|dim)_?(model|ff|kv)?|(ffn|hidden)_dim|tie_.*|max_seq_len"
)
# What is at work in training alone, or made the first weights.
_TRAINING = re.compile(r".*(drop|loss|jitter).*|init_.*|initializer_.*|rescale_prenorm_residual|time_step_(m|f|i).*")
# How a result is computed and handed over, with no other result, and what other heads make of it.
_HANDLING = re.compile(
    r"transformers_version|architectures|_?name_or_path|(torch_)?dtype|output_.*|return_dict|use_cache|problem_type"
    r"|id2label|label2id|num_labels|summary_.*|classifier_(dropout|bias|pooling)|(\w+_)?token_(id|index|ids)|chunk_size_feed_forward"
    r"|pretraining_tp|slow_but_exact|use_(mamba_kernels|mambapy|associative_scan)|deterministic_flash_attn|attn_impl"
    r"|_attn_implementation.*|sparse_pred.*|quantization_config|auto_map"
)
_UNCOUNTED = (_WEIGHTS, _TRAINING, _HANDLING)
_DERIVED = {"attention_layers": None}  # made of others (GPT-Neo's), kept beside them and read in their place
_ROTARY = ("rope_parameters", "rope_scaling")
_TURNING_BY_LENGTH = "max_position_embeddings"  # a limit, but where rotary angles depend on it


def settings(config: Any) -> list[Any]:
    """The settings of `config` that count, in plain values: those of every model, then the others with their names."""
    config = text_config(config)
    return [*(_first(config, aliases) for aliases in _ALWAYS), *map(list, sorted(_others(config)))]


def _first(config: Any, aliases: tuple[str, ...]) -> str | None:
    rotary = _rotary(config)
    for alias in aliases:
        value = getattr(config, alias, None)
        value = rotary.get(alias) if value is None else value
        if value is not None:
            return _plain(value)
    return None


def _others(config: Any) -> Iterator[tuple[str, str]]:
    turned, kind = dict(_flat(_rotary(config))), cast("Any", type(config))
    yield from ((f"rotary {name}", value) for name, value in turned.items())
    for name, default in _named(kind).items():
        if name in (*_ROTARY, *_TOLD) or any(words.fullmatch(name) for words in _UNCOUNTED):
            continue
        value = getattr(config, name, default)
        if hasattr(value, "to_dict"):  # a part with a class of its own
            yield from ((f"{name} {own}", found) for own, found in _others(value))
        elif name == _TURNING_BY_LENGTH:
            if any(one.endswith("type") for one in turned):
                yield name, _plain(value)
        elif _plain(value) != _plain(default) and not _is_usual(name, value):
            yield name, _plain(value)


def _is_usual(name: str, value: Any) -> bool:
    """Whether a list of attention's kinds says no more than none does."""
    return name == "layer_types" and isinstance(value, list | tuple) and set(value) <= {"full_attention"}


def _rotary(config: Any) -> Mapping[str, Any]:
    return next((found for name in _ROTARY if (found := getattr(config, name, None))), {})


def _flat(rotary: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings of the rotary angles that are not told anyway; some models have them by kind of attention."""
    for name, value in rotary.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        elif value not in (None, "default") and (prefix or name not in _TOLD):
            yield prefix + name, _plain(value)


@cache
def _named(kind: Any) -> dict[str, Any]:
    """The settings that a class of configurations names, with what it takes for granted."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    given = {one.name: one.default for one in signature(kind).parameters.values() if one.kind in kinds}
    return given | _DERIVED


def _plain(value: Any) -> str:
    """A value in words; of numbers seven digits, for files in other formats keep them in float32."""
    if isinstance(value, int | float):
        return f"{value:.7g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_plain(value[name])}' for name in sorted(value, key=str))}}}"
    return str(value)
