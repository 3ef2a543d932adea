"""The doctor: sound models pass, and for every check there is a sick one that fails it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import processors
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, OPTConfig, OPTForCausalLM
from transformers.models.llama import modeling_llama

import covec
from covec.checks.doctor import CHECKS, Diagnosis, doctor
from covec.checks.doctor._patient import Patient
from covec.errors import ModelError
from covec.models.anatomy import dissect
from covec.models.load import load
from covec.models.sites import Site
from covec.models.text import TextModel
from families.zoo import FAMILIES
from families.zoo import model_of as family
from tiny import rounds_finely, tiny_model, tiny_tokenizer

NAMES = [
    *("padding-left", "padding-right", "batch", "cache", "noop"),
    *("site-meaning", "determinism", "restore-after-error", "bos", "head-rebuild"),
]


def model_of(family: str = "llama", **options: Any) -> TextModel:
    return TextModel(*tiny_model(family, **options), name=f"tiny-{family}")


def _hooks(module: nn.Module) -> list[int]:
    return [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules()]


def failed(found: Diagnosis) -> set[str]:
    return {check.name for check in found.checks if not check.passed}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_passes_and_is_left_as_it_was(name: str) -> None:
    model = family(name)
    plain = Patient(model)
    ids = torch.tensor([plain.ids[1]])
    before = plain.logits(ids)
    plain.module(ids, output_hidden_states=True)  # for which transformers puts hooks of its own
    hooks = _hooks(model.module)
    found = covec.doctor(model)
    assert [check.name for check in found.checks] == NAMES == list(CHECKS)
    assert found.passed, str(found)
    assert torch.equal(plain.logits(ids), before)
    assert _hooks(model.module) == hooks


@pytest.mark.parametrize("name", ["llama", pytest.param("dbrx", marks=rounds_finely), "bert"])
def test_families_pass_in_bfloat16(name: str) -> None:
    module = copy.deepcopy(family(name).module).to(torch.bfloat16)
    found = doctor(TextModel(module, family(name).tokenizer))
    assert found.passed, str(found)


def test_the_embedded_model_passes(smol: TextModel) -> None:
    found = doctor(smol)
    assert found.passed, str(found)
    assert "does not apply" not in str(found)


def test_the_embedded_model_passes_in_bfloat16(smol: TextModel) -> None:
    found = doctor(load("smollm2-135m", dtype="bfloat16", device="cpu"))
    assert found.passed, str(found)


def test_hidden_states_of_another_width_are_no_fault() -> None:
    tokenizer = tiny_tokenizer()
    config = OPTConfig(
        vocab_size=len(tokenizer), hidden_size=32, word_embed_proj_dim=16, num_attention_heads=4, ffn_dim=48,
        num_hidden_layers=2, max_position_embeddings=64, do_layer_norm_before=False, init_std=0.2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = doctor(TextModel(OPTForCausalLM(config).eval(), tokenizer))
    assert found.passed, str(found)


def test_an_encoder_is_told_what_does_not_apply_to_it() -> None:
    tokenizer = tiny_tokenizer()
    shape = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 3}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), initializer_range=0.2, **shape)).eval()
    found = doctor(TextModel(module, tokenizer))
    assert found.passed, str(found)
    for name in ("padding-left", "cache"):
        assert found[name].detail.startswith("does not apply: ")
    assert "norm the stream" in found["site-meaning"].detail


# Sick models. What fails in them besides the check that they are made for fails rightly: `SICK` says why.


def _wrapped(module: nn.Module, change: Callable[[Any], Any]) -> None:
    """Change what `module` gives."""
    forward = module.forward
    module.forward = wraps(forward)(lambda *args, **kwargs: change(forward(*args, **kwargs)))  # type: ignore[method-assign]


def _called(module: nn.Module, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the named arguments that `module` takes."""
    forward = module.forward
    module.forward = wraps(forward)(lambda *args, **kwargs: forward(*args, **change(kwargs)))  # type: ignore[method-assign]


def attention_ignores_the_mask() -> TextModel:
    model = model_of()
    for block in model.anatomy.blocks:
        _called(block, lambda kwargs: {**kwargs, "attention_mask": None})
    return model


def positions_count_padding() -> TextModel:
    model = model_of("gpt2")
    _called(model.module.transformer, lambda kwargs: {**kwargs, "position_ids": None})
    return model


def a_decoder_that_sees_both_ways() -> TextModel:
    """As decoders that were made into embedding models by code of their own: nothing says that they are no decoders."""
    model = model_of()

    def both_ways(kwargs: dict[str, Any]) -> dict[str, Any]:
        mask, columns = kwargs.get("attention_mask"), kwargs["input_ids"].shape[1]
        whole = torch.ones(1, 1, columns, columns) if mask is None else mask[:, None, None].expand(-1, 1, columns, -1)
        return {**kwargs, "attention_mask": whole.bool()}

    _called(model.anatomy.body, both_ways)
    return model


def statistics_over_the_batch() -> TextModel:
    model = model_of()
    _wrapped(model.anatomy.blocks[1].mlp.down_proj, lambda hidden: hidden - hidden.mean((0, 1)))
    return model


def rows_leak() -> TextModel:
    model = model_of()
    _wrapped(model.anatomy.blocks[1].mlp.down_proj, lambda hidden: hidden + 0.1 * hidden.mean(0, keepdim=True))
    return model


def last_tokens_change_places() -> TextModel:
    """One row of a text's many is another's, as where an index of the last token is off."""
    model = model_of()

    def change(hidden: torch.Tensor) -> torch.Tensor:
        return torch.cat([hidden[:, :-1], hidden[:, -1:].roll(1, 0)], 1)

    _wrapped(model.anatomy.blocks[-1].mlp, change)
    return model


def cached_steps_begin_at_position_0() -> TextModel:
    model = model_of("gpt2")

    def from_0(kwargs: dict[str, Any]) -> dict[str, Any]:
        places = kwargs.get("position_ids")
        later = places is not None and places.shape[1] == 1
        return {**kwargs, "position_ids": torch.zeros_like(places)} if later else kwargs

    _called(model.module, from_0)
    return model


def a_fast_path_where_nobody_listens() -> TextModel:
    """A fused kernel that rounds otherwise, as some blocks have for calls without hooks."""
    model = model_of()
    block = model.anatomy.blocks[1]
    _wrapped(block, lambda hidden: hidden if block._forward_hooks else hidden * 1.000001)
    return model


def weights_of_another_model() -> TextModel:
    model = model_of()
    other, _ = tiny_model("llama", seed=1)
    model.anatomy = replace(dissect(other, other.config), places=model.anatomy.places)
    return model


def sites_one_block_off() -> TextModel:
    model = model_of()
    taps = dict(model.anatomy.taps)
    for depth in range(1, model.blocks):
        taps[Site("resid", depth)] = model.anatomy.taps[Site("resid", depth - 1)]
    model.anatomy = replace(model.anatomy, taps=taps)
    return model


def an_mlp_one_block_off() -> TextModel:
    model = model_of()
    taps = {**model.anatomy.taps, Site("mlp", 2): model.anatomy.taps[Site("mlp", 1)]}
    model.anatomy = replace(model.anatomy, taps=taps)
    return model


def the_last_block_after_the_final_norm() -> TextModel:
    model = model_of()
    taps = {**model.anatomy.taps, Site("resid", model.blocks - 1): model.anatomy.taps[Site("final")]}
    model.anatomy = replace(model.anatomy, taps=taps)
    return model


def dropout_that_never_rests() -> TextModel:
    model = model_of()
    _wrapped(model.anatomy.blocks[1], lambda hidden: functional.dropout(hidden, 0.1, training=True))
    return model


def noise_of_its_own_where_it_writes() -> TextModel:
    """Sampling that draws from the global generator: no seed of a row governs it."""
    model = model_of()
    head = model.module.get_output_embeddings()

    def noisy(logits: Tensor) -> Tensor:
        return logits + 1e4 * torch.rand_like(logits) if logits.shape[1] == 1 else logits

    _wrapped(head, noisy)
    return model


def a_hook_that_outlives_errors() -> TextModel:
    model = model_of()
    block, body = model.anatomy.blocks[0], model.anatomy.body
    forward = body.forward

    def careless(*args: Any, **kwargs: Any) -> Any:
        handle = block.register_forward_hook(lambda *_: None)
        output = forward(*args, **kwargs)
        handle.remove()
        return output

    body.forward = careless
    return model


def a_setting_that_outlives_errors() -> TextModel:
    model = model_of()
    block, body = model.anatomy.blocks[0], model.anatomy.body
    forward, block.times = body.forward, 1.0
    _wrapped(block, lambda hidden: hidden * block.times)

    def careless(*args: Any, **kwargs: Any) -> Any:
        block.times *= 1.5
        output = forward(*args, **kwargs)
        block.times /= 1.5
        return output

    body.forward = careless
    return model


def a_fallback_for_every_error() -> TextModel:
    model = model_of()
    block = model.anatomy.blocks[1]

    class Forgiving(type(block)):  # type: ignore[misc]
        def __call__(self, hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(hidden, *args, **kwargs)
            except Exception:
                return hidden

    block.__class__ = Forgiving
    return model


def two_bos() -> TextModel:
    model = model_of()
    twice = [("<bos>", model.tokenizer.bos_token_id)]
    model.tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> <bos> $A", pair="<bos> <bos> $A <bos> $B", special_tokens=twice
    )
    return model


def heads_in_another_order(monkeypatch: pytest.MonkeyPatch) -> TextModel:
    """Key-value heads tiled and not repeated: query head j reads head j % 2, and not j // 2."""
    model = model_of()
    model.module.set_attn_implementation("eager")
    monkeypatch.setattr(modeling_llama, "repeat_kv", lambda hidden, times: hidden.repeat(1, times, 1, 1))
    return model


def keys_in_another_order() -> TextModel:
    model = model_of()
    keys = [Site("key", 0, 0), Site("key", 0, 1)]
    swapped = dict(zip(keys, [model.anatomy.taps[site] for site in reversed(keys)], strict=True))
    model.anatomy = replace(model.anatomy, taps={**model.anatomy.taps, **swapped})
    return model


def too_many_heads() -> TextModel:
    model = model_of()
    model.config.num_attention_heads = 2
    model.anatomy = dissect(model.module, model.config)
    model.config.num_attention_heads = 4
    return model


def test_the_page_tells_of_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == NAMES


def _name(make: Callable[..., TextModel]) -> str:
    return make.__name__


ROWS = {"padding-left", "padding-right", "batch", "cache"}
CAPTURES = {"padding-right", "batch", "noop", "site-meaning"}
SICK: dict[Callable[..., TextModel], set[str]] = {
    # What writes pads on the left, too.
    attention_ignores_the_mask: {"padding-left", "cache"},
    positions_count_padding: {"padding-left", "cache"},
    # A capture of a decoder pads without a mask; a token that sees later ones is another once they are written.
    a_decoder_that_sees_both_ways: {"padding-right", "batch", "cache"},
    # Rows of one batch that see one another do so in every batch.
    statistics_over_the_batch: ROWS,
    rows_leak: ROWS,
    last_tokens_change_places: ROWS,
    cached_steps_begin_at_position_0: {"cache"},
    a_fast_path_where_nobody_listens: {"noop"},
    # Whatever reads or edits the wrong module differs from plain calls throughout.
    weights_of_another_model: {*CAPTURES, *ROWS, "restore-after-error", "head-rebuild"},
    sites_one_block_off: {*CAPTURES, *ROWS},
    the_last_block_after_the_final_norm: CAPTURES,
    an_mlp_one_block_off: {"site-meaning"},
    # Where no call is like the one before, no law can hold but that of the tokenizer.
    dropout_that_never_rests: {*NAMES} - {"bos"},
    noise_of_its_own_where_it_writes: {"determinism", "cache"},
    a_hook_that_outlives_errors: {"restore-after-error"},
    a_fallback_for_every_error: {"restore-after-error"},
    # A capture, too, leaves the pass by an exception, after the deepest site.
    a_setting_that_outlives_errors: {*NAMES} - {"padding-left", "padding-right", "cache", "bos"},
    # covec drops the second BOS, and so reads what the tokenizer does not write.
    two_bos: {"bos", *CAPTURES, "head-rebuild"},
    heads_in_another_order: {"head-rebuild"},
    keys_in_another_order: {"head-rebuild"},
    too_many_heads: {"head-rebuild"},
}


@pytest.mark.filterwarnings("ignore:.*already begin")
@pytest.mark.parametrize("make", SICK, ids=_name)
def test_a_sick_model_fails_its_check(make: Callable[..., TextModel], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(monkeypatch) if make is heads_in_another_order else make()
    found = doctor(model)
    assert failed(found) == SICK[make], str(found)


@pytest.mark.parametrize(
    "make",
    [
        positions_count_padding,
        attention_ignores_the_mask,
        last_tokens_change_places,
        cached_steps_begin_at_position_0,
    ],
    ids=_name,
)
def test_in_bfloat16_it_fails_the_same_check(make: Callable[[], TextModel]) -> None:
    model = make()
    model.module.to(torch.bfloat16)
    found = doctor(model)
    assert failed(found) == SICK[make], str(found)


def test_what_a_model_raises_is_a_finding() -> None:
    model = model_of()

    def refuse(kwargs: dict[str, Any]) -> dict[str, Any]:
        if kwargs.get("attention_mask") is not None:
            raise ValueError("masks are\nnot for me")
        return kwargs

    _called(model.module, refuse)
    found = doctor(model)
    assert found["padding-left"].detail == "raised ValueError: masks are not for me"
    assert found["batch"].passed
    assert not found.passed


def test_what_a_chat_template_raises_is_a_finding() -> None:
    model = model_of()
    model.tokenizer.chat_template = "{{ raise_exception('only the system may speak') }}"
    found = doctor(model)
    assert failed(found) == {"bos"}
    assert found["bos"].detail.endswith("only the system may speak")


def test_a_model_in_training_mode_is_refused() -> None:
    model = model_of("gpt2")
    with pytest.raises(ModelError, match=r"model\.module\.eval\(\)"):
        doctor(TextModel(model.module.train(), model.tokenizer))


def test_a_model_that_reads_too_little_is_refused() -> None:
    model = model_of()
    model.config.max_position_embeddings = 9
    with pytest.raises(ModelError, match="at most 9 tokens"):
        doctor(TextModel(model.module, model.tokenizer))


def test_a_diagnosis_shows_itself() -> None:
    found = doctor(an_mlp_one_block_off())
    assert found.headline == "tiny-llama (float32, cpu): site-meaning failed"
    assert str(found).splitlines()[0] == found.headline
    assert len(str(found).splitlines()) == 11
    assert found._repr_html_().count("<tr>") == 10
    assert "&lt;bos&gt;" in found._repr_html_()
    with pytest.raises(KeyError):
        found["no-such-check"]


def altered(part: nn.Module, forward: Callable[..., Any]) -> None:
    """Let `forward(usual, *args, **kwargs)` run in the place of a part's own forward, which is `usual`."""
    usual = part.forward
    part.forward = lambda *args, **kwargs: forward(usual, *args, **kwargs)


def test_blocks_that_add_to_their_input_in_place_are_sound() -> None:
    """The hidden states that transformers keeps of them are one tensor, overwritten by every block."""
    model, texts = model_of(), ["The hotel was cold, and wet", "ice"]
    rows = model.capture(texts, "embed, resid.*, mlp.*", "all")

    def in_place(usual: Any, hidden: Tensor, *args: Any, **kwargs: Any) -> Any:
        return hidden.copy_(usual(hidden.clone(), *args, **kwargs))

    for block in model.module.model.layers:
        altered(block, in_place)
    found = model.capture(texts, "embed, resid.*, mlp.*", "all")
    assert all(torch.equal(found[site], rows[site]) for site in rows.sites)
    assert doctor(model).passed


def test_a_fault_in_the_cached_text_of_a_single_prompt_is_seen() -> None:
    model = model_of()
    altered(model.module.model.norm, lambda usual, rows: rows if rows.shape[:2] == (1, 1) else usual(rows))
    assert failed(doctor(model)) == {"cache"}


def test_a_fault_in_batches_of_many_rows_is_seen() -> None:
    model = model_of()
    altered(
        model.module.model.layers[1], lambda usual, rows, **kwargs: usual(rows, **kwargs) * (1 + 0.1 * (len(rows) > 8))
    )
    assert failed(doctor(model)) == {"batch"}
