"""K-5: steering is the same with and without the key-value cache, and acts in every pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from covec.errors import ModelError
from covec.models.sites import Site
from covec.models.text import TextModel
from laws.given import PROMPTS, Seen, add, vector
from tiny import FAMILIES, tiny_model

POSITIONS = ["all", "prompt", "generated", "from-3", "4", "content", "last"]
NEW = 3
SOME = [PROMPTS[1], PROMPTS[7]]


def written(model: TextModel, **options: Any) -> Tensor:
    """Ids that the network's own greedy `generate` writes, in one batch padded on the left."""
    model.tokenizer.padding_side = "left"
    model.tokenizer.pad_token = model.tokenizer.pad_token or model.tokenizer.eos_token
    batch = model.tokenizer(SOME, return_tensors="pt", padding=True)
    settings = {"do_sample": False, "max_new_tokens": NEW, "min_new_tokens": NEW, "pad_token_id": model.pad_id}
    return model.module.generate(**batch, **settings, **options)[:, batch.input_ids.shape[1] :]


def check(model: TextModel, position: str, site: str) -> None:
    """The same ids either way, and an edit's turn at every token that is read: the prompt, then one a pass."""
    edit, ids = add(model, position, site, 2.0), {}
    for use_cache in (True, False):
        seen = Seen(site=edit.site)
        with model.edit(edit, seen):
            ids[use_cache] = written(model, use_cache=use_cache)
        # The prompt, then every new token that is read: the last one is written and read by nobody.
        assert len(seen.passes) == 1 + (NEW - 1)
        reach = {(number, token) for number, token, _ in seen.rows()}
        sizes = [len(model.tokenizer(text).input_ids) for text in SOME]
        assert reach == {(row, token) for row, size in enumerate(sizes) for token in range(size + NEW - 1)}
    assert torch.equal(ids[True], ids[False])


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_ids_are_the_same_with_and_without_cache(family: str) -> None:
    model = TextModel(*tiny_model(family))
    model.module.generation_config.eos_token_id = None
    for position in POSITIONS:
        check(model, position, "resid.0")


@pytest.mark.parametrize("position", POSITIONS[:5])
def test_greedy_ids_of_the_embedded_model(smol: TextModel, position: str) -> None:
    check(smol, position, "resid.12")


def skip_where_unkept(model: TextModel, texts: Any, options: dict[str, Any]) -> None:
    """Some versions of transformers write otherwise with such an option, all by themselves."""
    plain = model.generate(texts, max_new_tokens=8)
    try:
        kept = model.generate(texts, max_new_tokens=8, **options) == plain
    except (ModelError, RuntimeError):
        kept = False
    if not kept:
        pytest.skip(f"this version of transformers does not keep {min(options)} itself")


@pytest.mark.parametrize(
    "options", [{"prompt_lookup_num_tokens": 3}, {"prefill_chunk_size": 3}, {"cache_implementation": "static"}]
)
def test_passes_of_several_tokens_and_other_caches_write_the_same(tiny: TextModel, options: dict[str, Any]) -> None:
    """Guessed tokens are read together and taken back; a prompt is read in pieces."""
    skip_where_unkept(tiny, PROMPTS[2], options)
    for position in ("content", "generated"):
        with tiny.edit(add(tiny, position, size=2.0)):
            plain = tiny.generate(PROMPTS[2], max_new_tokens=8)
            assert tiny.generate(PROMPTS[2], max_new_tokens=8, **options) == plain


def test_passes_over_other_tokens_than_the_text_are_refused(tiny: TextModel) -> None:
    """Guidance reads the text once more without its prompt: no position is true of both."""
    assert tiny.generate(PROMPTS[2], max_new_tokens=3, guidance_scale=1.5)
    seen = Seen(site=Site.parse("resid.1"))
    with tiny.edit(add(tiny), seen):
        with pytest.raises(ModelError, match="guidance_scale"):
            tiny.generate(PROMPTS[2], max_new_tokens=3, guidance_scale=1.5)
        with pytest.raises(ModelError, match="guidance_scale"):
            tiny.module.generate(tiny.tokenizer(PROMPTS[2], return_tensors="pt").input_ids, guidance_scale=1.5)
    assert not seen.passes


@pytest.mark.parametrize("options", [{"use_cache": False}, {"cache_implementation": "static"}])
def test_a_log_is_the_same_however_the_passes_are_cut(tiny: TextModel, options: dict[str, Any]) -> None:
    concept = vector(tiny)
    logs = []
    for given in ({}, options):
        with tiny.edit(add(tiny)), tiny.watch(concept) as log:
            tiny.generate(list(PROMPTS[:3]), max_new_tokens=6, **given)
        rows = sorted(log.rows, key=lambda row: (row.row, row.index))
        logs.append([(row.row, row.index, row.token, row.generated, row.score) for row in rows])
    assert [row[:4] for row in logs[1]] == [row[:4] for row in logs[0]]
    assert [row[4] for row in logs[1]] == pytest.approx([row[4] for row in logs[0]], abs=1e-3)


def test_guessed_tokens_that_are_taken_back_are_in_no_log(tiny: TextModel) -> None:
    with tiny.watch(vector(tiny)) as log:
        with pytest.raises(ModelError, match="takes some back"):
            tiny.generate(PROMPTS[2], max_new_tokens=6, prompt_lookup_num_tokens=3)
        with pytest.raises(ModelError, match="takes some back"):
            tiny.generate(PROMPTS[2], max_new_tokens=6, assistant_model=tiny.module)
    assert not log.rows
