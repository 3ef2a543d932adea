"""Options of transformers' `generate`: each does what it says, to each row as if it were alone, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache, GenerationConfig

from covec.errors import ModelError
from covec.models.text import TextModel
from tiny import tiny_model

PROMPTS = ["The hotel was clean and the people", "No.", "Water boils at 100 degrees; ice melts"]
LOOKING_BACK = [
    {"repetition_penalty": 3.0},
    {"encoder_repetition_penalty": 5.0},
    {"no_repeat_ngram_size": 1},
    {"min_length": 20},
    {"bad_words_ids": [[7], [8, 9]]},
    {"sequence_bias": [[[3], 9.0]]},
    {"logits_processor": [lambda ids, scores: scores.scatter_add(1, ids, torch.full_like(scores, 2.0))]},
]
SHARPER = [
    {"temperature": 0.01},
    {"top_h": 0.1},
    {"top_k": 1},
    {"top_p": 0.01},
    {"min_p": 0.999},
    {"typical_p": 0.01},
    {"epsilon_cutoff": 0.03},
    {"eta_cutoff": 0.9},
]


@pytest.mark.parametrize("options", LOOKING_BACK, ids=lambda options: next(iter(options)))
@pytest.mark.parametrize("sampled", [False, True])
def test_what_looks_back_at_a_row_does_not_see_its_padding(options: dict[str, Any], sampled: bool) -> None:
    """GPT-2's padding is its end: taken for text, it would be penalised, or barred, in shorter rows alone."""
    module, tokenizer = tiny_model("gpt2")
    module.lm_head.bias = torch.nn.Parameter(torch.zeros(len(tokenizer)))
    model = TextModel(module, tokenizer, name="tiny-gpt2")
    module.lm_head.bias.data[model.pad_id] = 3.0  # the end is always near
    together = model.generate(PROMPTS, max_new_tokens=8, do_sample=sampled, **options)
    assert together == [model.generate(one, max_new_tokens=8, do_sample=sampled, **options) for one in PROMPTS]


@pytest.mark.parametrize("options", SHARPER, ids=lambda options: next(iter(options)))
def test_everything_that_changes_the_distribution_is_heeded(tiny: TextModel, options: dict[str, Any]) -> None:
    plain = tiny.generate(PROMPTS, max_new_tokens=12, do_sample=True)
    assert tiny.generate(PROMPTS, max_new_tokens=12, do_sample=True, **options) != plain


@pytest.mark.parametrize(
    "own", [{"num_beams": 3}, {"num_beams": 2, "num_return_sequences": 2}, {"return_dict_in_generate": True}]
)
def test_one_text_an_input_whatever_the_models_own_settings(own: dict[str, Any]) -> None:
    model = TextModel(*tiny_model("llama"))
    usual = [model.generate(PROMPTS, max_new_tokens=5, do_sample=sampled) for sampled in (False, True)]
    model.module.generation_config.update(**own)
    assert [model.generate(PROMPTS, max_new_tokens=5, do_sample=sampled) for sampled in (False, True)] == usual


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"generation_config": GenerationConfig(temperature=0.1)}, "keywords"),
        ({"past_key_values": DynamicCache()}, "reads each prompt whole"),
        ({"do_sample": True, "watermarking_config": {"bias": 2.0}}, "watermarks"),
    ],
)
def test_what_could_not_be_heeded_is_refused(tiny: TextModel, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        tiny.generate(PROMPTS, **options)


def test_none_is_as_if_not_given(tiny: TextModel) -> None:
    options = dict.fromkeys(("logits_processor", "num_beams", "stop_strings", "temperature", "generation_config"))
    for sampled in (False, True):
        plain = tiny.generate(PROMPTS, max_new_tokens=3, do_sample=sampled)
        assert tiny.generate(PROMPTS, max_new_tokens=3, do_sample=sampled, **options) == plain
