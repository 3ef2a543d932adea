"""K-1: what is read of an input does not depend on its neighbours, their number, or the side of the padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import Phi3Config, Phi3ForCausalLM

from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel
from laws.given import PROMPTS, Seen, add, close
from tiny import rounds_finely, tiny_tokenizer

FLOAT32, BFLOAT16 = 1e-4, 3e-2


def in_batches(model: TextModel, size: int, sites: list[str]) -> list[Tensor]:
    """Every token's row at all sites, captured with exactly `size` inputs a forward pass, padded on the right."""
    parts = [PROMPTS[start : start + size] for start in range(0, len(PROMPTS), size)]
    found = [model.capture(part, sites, "all", batch_tokens=10**6) for part in parts]
    return [torch.cat([rows[site] for rows in found]) for site in sites]


def on_the_left(model: TextModel, size: int, sites: list[str]) -> list[Tensor]:
    """The same rows as seen while texts are written in batches of `size`, which are padded on the left."""
    rows: list[list[Tensor]] = [[] for _ in sites]
    for start in range(0, len(PROMPTS), size):
        part = PROMPTS[start : start + size]
        seen = [Seen(site=Site.parse(site)) for site in sites]
        with model.edit(*seen):
            model.generate(list(part), max_new_tokens=1, batch_tokens=10**6)
        for place, one in enumerate(seen):
            assert [len(inputs) for _, inputs, _ in one.passes] == [len(part)]
            states = sorted(one.rows(), key=lambda found: found[:2])
            rows[place] += [state.float() for _, _, state in states]
    return [torch.stack(found) for found in rows]


def check(model: TextModel, sizes: list[int], sites: list[str], tolerance: float) -> None:
    alone = in_batches(model, 1, sites)
    others = [in_batches(model, size, sites) for size in sizes]
    for found in [*others, on_the_left(model, sizes[-1], sites)]:
        for one, other in zip(found, alone, strict=True):
            assert one.shape == other.shape
            assert close(one, other, tolerance)


def test_tiny_models_of_learned_and_rotary_positions(tiny: TextModel) -> None:
    check(tiny, [3, 8], ["embed", "resid.0", "attn.1", "resid.1", "final"], FLOAT32)


def test_the_embedded_model(smol: TextModel) -> None:
    check(smol, [3, 8], ["resid.11", "resid.29"], FLOAT32)


@rounds_finely
def test_the_embedded_model_in_bfloat16(rough: TextModel) -> None:
    check(rough, [3, 8], ["resid.11", "resid.29"], BFLOAT16)


@pytest.mark.parametrize("position", ["last", "mean", "content/max", "from-2/mean"])
def test_pooling_does_not_see_the_padding(tiny: TextModel, position: str) -> None:
    rows = [tiny.capture(PROMPTS, "resid.1", position, batch_tokens=tokens)["resid.1"] for tokens in (1, 10**6)]
    assert close(rows[1], rows[0], FLOAT32)


def test_rows_padded_on_both_sides_are_refused_by_edits(tiny: TextModel) -> None:
    """The place of a token would be told from one side."""
    ids = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 8]])
    for mask in ([[0, 1, 1, 1], [1, 1, 1, 0]], [[1, 1, 1, 1], [1, 0, 1, 1]], [[0, 1, 1, 0], [1, 1, 1, 1]]):
        with tiny.edit(add(tiny)), pytest.raises(ModelError, match="padded on one side"):
            tiny.module(ids, attention_mask=torch.tensor(mask))


def stretching() -> TextModel:
    """A model of Phi-3's kind: where a pass holds a row of more than 16 tokens, all its rows are turned otherwise."""
    tokenizer = tiny_tokenizer("none")
    config = Phi3Config(
        vocab_size=len(tokenizer), hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
        num_hidden_layers=2, initializer_range=0.2, max_position_embeddings=128, original_max_position_embeddings=16,
        rope_scaling={"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4},
        pad_token_id=tokenizer.pad_token_id, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return TextModel(Phi3ForCausalLM(config).eval(), tokenizer)


def test_a_long_neighbour_does_not_turn_the_positions_of_short_rows() -> None:
    model = stretching()
    rows = model.capture(PROMPTS, ["resid.1"], "all", batch_tokens=10**6)
    texts = model.generate(list(PROMPTS), max_new_tokens=8, batch_tokens=10**6)
    for index, prompt in enumerate(PROMPTS):
        assert close(rows.of(index, "resid.1"), model.capture([prompt], "resid.1", "all")["resid.1"], FLOAT32)
        assert texts[index] == model.generate(prompt, max_new_tokens=8)
    lengths = sorted(len(model.tokenizer(prompt).input_ids) for prompt in PROMPTS)
    assert lengths[1] < 8  # short rows still share a batch
    assert lengths[-1] > 16
