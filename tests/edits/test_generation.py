"""Generation under edits: from the first new token on, in every way of decoding; every option works or is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add
from covec.errors import CovecError, ExamplesError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from tiny import tiny_model

PROMPTS = ["The hotel", "A dull film: two hours", "ice melts"]
CHAT = [{"role": "user", "content": "Is it clean?"}]
STEERED = ["all", "content", "prompt", "last", "last+generated", "generated", "from-2", "4"]


def add(model: TextModel, position: str = "content", size: float = 3.0, site: str = "resid.1") -> Add:
    shift = size * torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    return Add(site=Site.parse(site), shift=shift, position=Position.parse(position))


@pytest.mark.parametrize("position", STEERED)
@pytest.mark.parametrize("decoding", [{"do_sample": True, "seed": 3}, {"num_beams": 3}], ids=["sampled", "beams"])
def test_sampled_and_beamed_texts_are_the_same_with_and_without_cache(
    tiny: TextModel, position: str, decoding: dict[str, Any]
) -> None:
    with tiny.edit(add(tiny, position)):
        cached = tiny.generate(PROMPTS, max_new_tokens=5, **decoding)
        assert tiny.generate(PROMPTS, max_new_tokens=5, use_cache=False, **decoding) == cached
        assert [tiny.generate(prompt, max_new_tokens=5, **decoding) for prompt in PROMPTS] == cached


@pytest.mark.parametrize("position", STEERED)
@pytest.mark.parametrize("use_cache", [True, False])
def test_an_edit_acts_once_a_pass(tiny: TextModel, position: str, use_cache: bool) -> None:
    """One pass for the prompt, one for each new token but the last, which nobody reads (K-5)."""
    passes: list[int] = []

    class Counted(Add):
        def apply(self, h: Tensor, context: Any) -> Tensor:
            passes.append(h.shape[1])
            return h

    edit = Counted(site=Site("resid", 1), shift=torch.zeros(tiny.width), position=Position.parse(position))
    stops = tiny.module.generation_config.eos_token_id
    tiny.module.generation_config.eos_token_id = None
    with tiny.edit(edit):
        tiny.generate(PROMPTS[0], max_new_tokens=5, use_cache=use_cache)
    tiny.module.generation_config.eos_token_id = stops
    size = len(tiny.tokenize([PROMPTS[0]])[0].ids)
    assert passes == ([size, 1, 1, 1, 1] if use_cache else [size + step for step in range(5)])


@pytest.mark.parametrize(("position", "first"), [("last", True), ("last+generated", True), ("generated", False)])
def test_the_first_new_token_is_steered_from_the_last_of_the_prompt(
    tiny: TextModel, position: str, first: bool
) -> None:
    """`generated` begins with the first new token, whose own reading changes the second (K-3)."""
    with torch.no_grad():
        plain = first_logits(tiny)
        with tiny.edit(add(tiny, position)):
            changed = first_logits(tiny)
    assert torch.equal(plain, changed) is not first


def first_logits(model: TextModel) -> Tensor:
    kept: list[Tensor] = []
    handle = model.module.register_forward_hook(lambda _, args, output: kept.append(output.logits[:, -1].clone()))
    model.generate(PROMPTS[1], max_new_tokens=1)
    handle.remove()
    return kept[0]


def test_chats_get_the_header_of_the_reply(tiny: TextModel) -> None:
    rendered = tiny.tokenizer.apply_chat_template(
        CHAT, add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    ids = tiny.module.generate(rendered, attention_mask=torch.ones_like(rendered), max_new_tokens=5, do_sample=False,
                               pad_token_id=tiny.pad_id)  # fmt: skip
    expected = tiny.tokenizer.decode(ids[0, rendered.shape[1] :], skip_special_tokens=True)
    assert tiny.generate(CHAT, max_new_tokens=5) == expected
    assert tiny.generate([CHAT, PROMPTS[0]], max_new_tokens=5) == [
        expected,
        tiny.generate(PROMPTS[0], max_new_tokens=5),
    ]
    assert tiny.generate([], max_new_tokens=5) == []


def test_edits_of_a_row_come_after_those_of_the_scope(tiny: TextModel) -> None:
    around, own = add(tiny), add(tiny, size=-3.0)
    with tiny.edit(around):
        both = tiny.generate(PROMPTS[:2], edits=[[own], []], max_new_tokens=5)
        alone = tiny.generate(PROMPTS[1], max_new_tokens=5)
    assert both == [tiny.generate(PROMPTS[0], max_new_tokens=5), alone]


def test_warpers_are_those_of_transformers(tiny: TextModel) -> None:
    """With one token left to choose, sampling is greedy; so it is when the temperature goes to zero."""
    greedy = tiny.generate(PROMPTS, max_new_tokens=5)
    for options in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}, {"min_p": 1.0}):
        assert tiny.generate(PROMPTS, max_new_tokens=5, do_sample=True, seed=7, **options) == greedy


def test_samples_follow_the_models_probabilities() -> None:
    model = TextModel(*tiny_model("llama"))
    with torch.no_grad():
        logits = model.module(model.tokenizer(PROMPTS[0], return_tensors="pt").input_ids).logits[0, -1]
    top = logits.topk(3)
    drawn = model.generate([PROMPTS[0]] * 400, do_sample=True, max_new_tokens=1, seed=1)
    expected = logits.softmax(0)[top.indices]
    found = torch.tensor([drawn.count(model.tokenizer.decode(token)) / 400 for token in top.indices.tolist()])
    assert ((found - expected).abs() < 4 * (expected * (1 - expected) / 400).sqrt() + 1e-3).all()


def test_a_processor_of_ones_own_works_beside_sampling(tiny: TextModel) -> None:
    class Only:
        def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
            barred = torch.full_like(scores, -torch.inf)
            barred[:, 20] = 0.0
            return barred

    found = tiny.generate(PROMPTS, do_sample=True, max_new_tokens=3, logits_processor=[Only()])
    assert found == [tiny.tokenizer.decode([20] * 3)] * 3


def test_generation_stops_at_strings() -> None:
    model = TextModel(*tiny_model("llama"))
    text = model.generate(PROMPTS[1], max_new_tokens=6)
    assert text.startswith("ts")
    assert model.generate(PROMPTS[1], max_new_tokens=6, stop_strings=["s"]) == "ts"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_return_sequences": 2}, "several times"),
        ({"return_dict_in_generate": True}, "model.module.generate"),
        ({"max_length": 9}, "max_new_tokens"),
        ({"loudness": 3}, "refuses an option"),
        ({"do_sample": True, "temperature": -1.0}, "temperature"),
        ({"do_sample": True, "num_beams": 2}, "exclude each other"),
        ({"edits": [["louder"]]}, "is no edit"),
    ],
)
def test_options_that_cannot_be_honoured_are_refused(options: dict[str, Any], message: str) -> None:
    model = TextModel(*tiny_model("llama"))
    with pytest.raises(CovecError, match=message) as told:
        model.generate(["x"], **options)
    assert "\n" not in str(told.value)


def test_what_half_precision_cannot_hold_is_refused() -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module.half(), tokenizer, name="half")
    with model.edit(add(model, size=1e6)), pytest.raises(ModelError, match="does not fit into float16"):
        model.generate(PROMPTS[0])


def test_logits_that_are_no_numbers_are_refused() -> None:
    model = TextModel(*tiny_model("gpt2"), name="tiny-gpt2")
    for options in ({}, {"do_sample": True}, {"num_beams": 2}):
        with model.edit(add(model, size=1e30)), pytest.raises(ModelError, match="no numbers"):
            model.generate(PROMPTS[0], **options)


def test_a_prompt_that_leaves_no_room_is_refused(tiny: TextModel) -> None:
    with pytest.raises(ExamplesError, match="exceed the model's context of 128 tokens"):
        tiny.generate(PROMPTS, max_new_tokens=125)


def test_vectors_of_other_models_need_force(tiny: TextModel) -> None:
    stranger = ConceptVector.from_direction(
        "s", "resid.1", torch.ones(tiny.width), scale=1.0, scale_from="spread", model={"fingerprint": "other"}
    )
    with pytest.raises(ModelError, match="another model"):
        tiny.generate(PROMPTS[0], edits=[stranger.add(1.0)])
    forced = tiny.generate(PROMPTS[0], edits=[stranger.add(9.0)], force=True, max_new_tokens=3)
    with tiny.edit(stranger.add(9.0), force=True):
        assert tiny.generate(PROMPTS[0], max_new_tokens=3) == forced


def log_probabilities(model: TextModel, text: str, edit: Add) -> Tensor:
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad(), model.edit(edit):
        return model.module(ids).logits.float().log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]


def test_in_bfloat16_cached_steps_agree_with_one_pass_over_the_text() -> None:
    """Teacher-forced log-probabilities, with and without cache, and against float32."""
    exact = TextModel(*tiny_model("llama"))
    module, tokenizer = tiny_model("llama")
    rough = TextModel(module.to(torch.bfloat16), tokenizer)
    text = "A dull film: two hours that I shall never get back!"
    edit = add(exact, "from-3")
    whole = log_probabilities(rough, text, edit)
    assert (whole - log_probabilities(exact, text, edit)).abs().max() < 0.15
    ids = tokenizer(text, return_tensors="pt").input_ids
    steps: list[Tensor] = []
    with torch.no_grad(), rough.edit(edit):
        output = rough.module(ids[:, :3])
        for index in range(3, ids.shape[1]):
            steps.append(output.logits[0, -1].float().log_softmax(-1)[ids[0, index]])
            cache = next(value for key, value in output.items() if key in ("cache", "past_key_values"))
            output = rough.module(ids[:, index : index + 1], past_key_values=cache)
    assert (torch.stack(steps) - whole[2:]).abs().max() < 0.1
    assert rough.generate(PROMPTS, edits=[[edit]] * 3, max_new_tokens=4)


def test_the_embedded_model_writes_the_same_with_and_without_cache_and_batch(smol: TextModel) -> None:
    edit = add(smol, "last+generated", 1.0, "resid.12")
    with smol.edit(edit):
        cached = smol.generate(PROMPTS[:2], max_new_tokens=6)
        assert smol.generate(PROMPTS[:2], max_new_tokens=6, use_cache=False) == cached
        assert smol.generate(PROMPTS[1], max_new_tokens=6) == cached[1]
    assert smol.generate(PROMPTS[1], max_new_tokens=6) != cached[1]


def test_rows_with_edits_of_their_own_write_what_single_runs_write(smol: TextModel) -> None:
    made = torch.Generator().manual_seed(0)
    openings = ("The hotel was", "Water boils when the", "My neighbour told me that", "In the second half of the year,")
    prompts = [openings[row % len(openings)] for row in range(32)]
    shifts = 0.5 * torch.randn(32, smol.width, generator=made)
    edits = [[Add(site=Site("resid", 15), shift=shift)] for shift in shifts]
    together = smol.generate(prompts, edits=edits, max_new_tokens=3)
    for row in range(0, 32, 3):
        assert together[row] == smol.generate(prompts[row], edits=edits[row], max_new_tokens=3)
    assert len(set(together)) > len(openings)
