"""What a capture gives depends on the input alone, and costs one pass over what is needed."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from comparing import close
from covec.activations.rows import Activations
from covec.errors import BudgetError, CovecError, ModelError
from covec.models.batching import Batch, pad
from covec.models.positions import Position, mask
from covec.models.text import TextModel
from progresses import Remembered
from tiny import FAMILIES, tiny_model

PROMPTS = [
    "x y",
    "The hotel was clean.",
    "A dull film: two hours that I shall never get back!",
    "Der Zug nach Köln fährt um acht Uhr ab. Water boils at 100 degrees; ice melts at 0.",
    "yes",
    "The hotel and the people were kind; the film was dull",
    "0 1 2 3 4 5 6 7 8 9",
    "ab",
]
MODELS = {family: TextModel(*tiny_model(family)) for family in FAMILIES}
POSITIONS = ["last", "mean", "first", "1", "from-1/max", "content/none", "all/mean"]


def single(model: TextModel, prompts: list[str], site: str, position: str) -> Tensor:
    return torch.cat([model.capture([prompt], site, position)[site] for prompt in prompts])


def test_negative_inputs_count_from_the_end(tiny: TextModel) -> None:
    for position in ("last", "all/none"):
        found = tiny.capture(["The hotel", "ice melts"], "resid.1", position)
        assert torch.equal(found.of(-1, "resid.1"), found.of(1, "resid.1"))
        with pytest.raises(IndexError):
            found.of(2, "resid.1")


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("batch_tokens", [1, 60, 4096])
def test_rows_do_not_depend_on_the_batch(tiny: TextModel, position: str, batch_tokens: int) -> None:
    rows = tiny.capture(PROMPTS, ["resid.1", "final"], position, batch_tokens=batch_tokens)
    for site in ("resid.1", "final"):
        assert close(rows[site], single(tiny, PROMPTS, site, position))


@given(
    family=st.sampled_from(FAMILIES),
    order=st.lists(st.sampled_from(PROMPTS), min_size=1, max_size=9),
    position=st.sampled_from(POSITIONS),
    batch_tokens=st.integers(1, 200),
)
@settings(max_examples=20, deadline=None)
def test_rows_come_in_the_callers_order_repeats_included(
    family: str, order: list[str], position: str, batch_tokens: int
) -> None:
    model = MODELS[family]
    found = model.capture(order, "resid.1", position, batch_tokens=batch_tokens)
    alone = {prompt: model.capture([prompt], "resid.1", position)["resid.1"] for prompt in set(order)}
    assert close(found["resid.1"], torch.cat([alone[prompt] for prompt in order]))
    assert len(found) == len(order)


def test_padding_on_either_side_gives_the_same_rows(tiny: TextModel) -> None:
    """The model's own pass, padded on the left with a mask, agrees with covec's, padded on the right without one."""
    tokens = tiny.tokenize(PROMPTS)
    batch = pad(tokens, range(len(tokens)), pad_id=tiny.pad_id, masked=True, device=tiny.device, left=True)
    assert batch.mask is not None
    places = (batch.mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        hidden = tiny.anatomy.body(input_ids=batch.ids, attention_mask=batch.mask, position_ids=places)[0][:, -1]
    assert close(tiny.capture(PROMPTS, "final")["final"], hidden)


@pytest.mark.parametrize("batch_tokens", [16, 512])
def test_the_embedded_model_agrees_with_itself_alone(smol: TextModel, batch_tokens: int) -> None:
    rows = smol.capture(PROMPTS, ["resid.3", "resid.29"], "last", batch_tokens=batch_tokens)
    for index in (0, 3):
        alone = smol.capture([PROMPTS[index]], ["resid.3", "resid.29"], "last")
        for site in rows.sites:
            assert close(rows[site][index : index + 1], alone[site])


def test_bfloat16_agrees_to_its_own_precision(tiny: TextModel) -> None:
    module, tokenizer = tiny_model(tiny.name.removeprefix("tiny-"))
    rough = TextModel(module.to(torch.bfloat16), tokenizer)
    found = rough.capture(PROMPTS, "resid.1")["resid.1"]
    assert found.dtype == torch.float32
    assert close(found, single(rough, PROMPTS, "resid.1", "last"), 3e-2)
    assert close(found, tiny.capture(PROMPTS, "resid.1")["resid.1"], 0.15)


def test_a_pass_reads_every_distinct_input_once_and_stops_after_the_deepest_site(tiny: TextModel) -> None:
    tiny.check_addends(tiny.sites)  # which is measured once a model, and not here
    read: list[Tensor] = []
    ran: list[str] = []
    parts = {f"block {index}": block for index, block in enumerate(tiny.anatomy.blocks)}
    parts["head"] = tiny.module.get_output_embeddings()
    handles = [
        part.register_forward_pre_hook(lambda _, args, name=name: ran.append(name)) for name, part in parts.items()
    ]
    handles.append(
        tiny.anatomy.body.register_forward_pre_hook(
            lambda _, args, kwargs: read.append(kwargs["input_ids"]), with_kwargs=True
        )
    )
    tiny.capture([PROMPTS[1]] * 3 + [PROMPTS[1], PROMPTS[2]] * 2, ["resid.0", "attn.0"], batch_tokens=1)
    for handle in handles:
        handle.remove()
    assert sum(ids.numel() for ids in read) == sum(len(item.ids) for item in tiny.tokenize(PROMPTS[1:3]))
    assert set(ran) == {"block 0"}


def test_one_pass_serves_many_sites_and_positions(tiny: TextModel) -> None:
    rows = tiny.capture(PROMPTS, "resid.*", "mean")
    assert [str(site) for site in rows.sites] == [f"resid.{block}" for block in range(tiny.blocks)]
    for site in rows.sites:
        assert torch.equal(rows[site], tiny.capture(PROMPTS, site, "mean")[site])


def test_rows_are_plain_data_of_their_own(tiny: TextModel) -> None:
    """No graph, no view of a batch (K-16); the same bits again (K-11)."""
    rows = tiny.capture(PROMPTS, ["resid.*", "head.0.1"], "content/none")
    for site in rows.sites:
        assert (rows[site].dtype, rows[site].device.type) == (torch.float32, "cpu")
        assert rows[site].grad_fn is None
        assert not rows[site].requires_grad
        assert rows[site].untyped_storage().nbytes() == rows[site].nbytes
    again = tiny.capture(PROMPTS, ["resid.*", "head.0.1"], "content/none")
    assert all(torch.equal(rows[site], again[site]) for site in rows.sites)


@pytest.mark.parametrize("position", ["content/none", "from-2/none", "all/none"])
def test_unpooled_rows_know_their_input_and_token(tiny: TextModel, position: str) -> None:
    rows = tiny.capture([*PROMPTS, PROMPTS[1]], "resid.0", position)
    tokens = tiny.tokenize([*PROMPTS, PROMPTS[1]])
    assert rows.offsets is not None
    assert rows.tokens is not None
    everything = tiny.capture([*PROMPTS, PROMPTS[1]], "resid.0", "all")
    for index, item in enumerate(tokens):
        chosen = mask(Position.parse(position), item.layout)
        start, end = rows.offsets[index : index + 2].tolist()
        assert rows.tokens[start:end].tolist() == chosen.nonzero()[0].tolist()
        assert torch.equal(rows.of(index, "resid.0"), everything.of(index, "resid.0")[torch.from_numpy(chosen)])


@pytest.mark.parametrize(("pool", "reduce"), [("mean", lambda rows: rows.mean(0)), ("max", lambda rows: rows.amax(0))])
def test_pools_are_those_of_the_tokens(tiny: TextModel, pool: str, reduce: Any) -> None:
    rows = tiny.capture(PROMPTS, "resid.1", "content/none")
    expected = torch.stack([reduce(rows.of(index, "resid.1")) for index in range(len(PROMPTS))])
    assert close(tiny.capture(PROMPTS, "resid.1", f"content/{pool}")["resid.1"], expected)


def test_spans_and_answers_are_read_where_they_stand() -> None:
    model = MODELS["llama"]
    rows = model.capture([PROMPTS[1], PROMPTS[1]], "resid.1", "span/mean", spans=[(4, 9), (0, 20)])
    everything = model.capture([PROMPTS[1]], "resid.1", "all")["resid.1"]
    shown = [
        index for index, (start, end) in enumerate(model.tokenize([PROMPTS[1]])[0].offsets) if start < 9 and end > 4
    ]
    assert close(rows["resid.1"][:1], everything[shown].mean(0)[None])
    assert close(rows["resid.1"][1:], everything[1:].mean(0)[None])
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "It was."}]
    item = model.tokenize([chat])[0]
    assert item.layout.answer is not None
    expected = model.capture([chat], "resid.1", "all")["resid.1"][slice(*item.layout.answer)].mean(0)
    assert close(model.capture([chat], "resid.1", "answer/mean")["resid.1"], expected[None])


def test_an_input_without_content_is_read_at_its_last_token_and_counted() -> None:
    model = MODELS["gpt2"]
    with pytest.warns(UserWarning, match="2 inputs have no content"):
        rows = model.capture(["x", "The hotel", "x"], "resid.0", "mean")
    assert rows.fallbacks == 2
    assert close(rows["resid.0"][:1], model.capture(["x"], "resid.0", "last")["resid.0"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.capture(["x"], "resid.0", "last").fallbacks == 0


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ("40", r"position 40/none selects nothing in input 1, which has \d+ tokens"),
        ("from-40/mean", "selects nothing in input 1"),
        ("generated/max", "selects nothing in input 1"),
        ("generated", "selects nothing in any input"),
        ("span", "carry one"),
        ("cls", "images"),
        ("here", "is not a position"),
    ],
)
def test_positions_that_inputs_do_not_have_are_refused(position: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        MODELS["llama"].capture(PROMPTS[:2], "resid.0", position)


def test_nothing_to_read_is_refused() -> None:
    with pytest.raises(CovecError):
        MODELS["llama"].capture([], "resid.0")
    with pytest.raises(CovecError, match="no sites were named"):
        MODELS["llama"].capture(PROMPTS, [])


def test_more_rows_than_the_budget_are_refused_before_any_pass() -> None:
    model, ran = MODELS["llama"], []
    handle = model.anatomy.body.register_forward_pre_hook(lambda *_: ran.append(1))
    with pytest.raises(BudgetError, match=r"keeps about .* over the memory budget .*: name fewer sites, pool"):
        model.capture(PROMPTS, "resid.*", "all", memory_budget=10_000)
    handle.remove()
    assert not ran


class Scarce:
    """Memory for so many tokens a pass, as a hook on a block."""

    def __init__(self, tokens: int, error: Exception) -> None:
        self.tokens, self.error, self.sizes = tokens, error, list[int]()

    def __call__(self, _: Any, args: tuple[Tensor, ...]) -> None:
        self.sizes.append(args[0].shape[0] * args[0].shape[1])
        if self.sizes[-1] > self.tokens:
            raise self.error


ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory"),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_batch_that_does_not_fit_is_halved(error: Exception) -> None:
    model = MODELS["llama"]
    expected = model.capture(PROMPTS, ["resid.0", "resid.2"], "content/none")
    scarce = Scarce(120, error)
    handle = model.anatomy.blocks[1].register_forward_pre_hook(scarce)
    found = model.capture(PROMPTS, ["resid.0", "resid.2"], "content/none", batch_tokens=4096)
    handle.remove()
    assert max(scarce.sizes) > 120
    for site in found.sites:
        assert close(found[site], expected[site])


def test_a_single_input_that_does_not_fit_names_the_budget_and_other_errors_pass() -> None:
    model = MODELS["llama"]
    for error, expected, message in (
        (ERRORS[0], BudgetError, r"out of memory on a single input of \d+ tokens \(batch budget 99 tokens\)"),
        (RuntimeError("mat1 and mat2 shapes"), RuntimeError, "mat1 and mat2"),
    ):
        handle = model.anatomy.blocks[1].register_forward_pre_hook(Scarce(3, error))
        with pytest.raises(expected, match=message):
            model.capture(PROMPTS, "resid.2", batch_tokens=99)
        handle.remove()
    assert torch.isfinite(model.capture(PROMPTS, "resid.2")["resid.2"]).all()


def test_an_error_inside_a_pass_keeps_its_type_and_leaves_no_hook() -> None:
    model = MODELS["llama"]

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("of the model's own")

    handle = model.anatomy.blocks[1].register_forward_pre_hook(fail)
    installed = [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules()]
    with pytest.raises(ZeroDivisionError, match="of the model's own"):
        model.capture(PROMPTS, ["resid.0", "resid.3"])
    assert installed == [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules()]
    handle.remove()


def test_two_threads_capture_the_same_model_at_once() -> None:
    model = MODELS["llama"]
    expected = {site: model.capture(PROMPTS, site)[site] for site in ("resid.0", "resid.3")}
    found: dict[str, list[Activations]] = {site: [] for site in expected}

    def work(site: str) -> None:
        for _ in range(12):
            found[site].append(model.capture(PROMPTS, site, batch_tokens=40))

    threads = [threading.Thread(target=work, args=(site,)) for site in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for site, rows in expected.items():
        assert len(found[site]) == 12
        assert all(close(one[site], rows) for one in found[site])


def test_recomputation_does_not_double_rows() -> None:
    """Gradient checkpointing is at work in training mode only (K-8)."""
    model = TextModel(*tiny_model("llama"))
    expected = model.capture(PROMPTS, "resid.*", "content/none")
    model.module.train()
    model.module.gradient_checkpointing_enable()
    found = model.capture(PROMPTS, "resid.*", "content/none")
    assert all(close(found[site], expected[site]) for site in expected.sites)


@pytest.mark.parametrize("compile_body", [False, True])
def test_a_compiled_model_is_read_all_the_same(compile_body: bool) -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    expected = model.capture(PROMPTS[:3], "resid.2")["resid.2"]
    compiled = model.anatomy.body if compile_body else module
    compiled.compile(backend="eager")
    module(tokenizer(PROMPTS[1], return_tensors="pt").input_ids)
    assert close(model.capture(PROMPTS[:3], "resid.2")["resid.2"], expected)


def test_a_site_that_the_pass_does_not_reach_is_named() -> None:
    model = TextModel(*tiny_model("llama"))
    model.anatomy.body.add_module("idle", torch.nn.Linear(2, 2))
    with pytest.raises(ModelError, match="does not reach idle"):
        model.capture(PROMPTS, "idle")


def test_progress_counts_the_tokens_that_are_read() -> None:
    progress = Remembered()
    MODELS["llama"].capture(PROMPTS, "resid.0", batch_tokens=40, progress=progress)
    assert progress.told[0][1] == sum(progress.steps)
    assert len(progress.steps) > 1


MEMORY = """
import gc, sys
sys.path.insert(0, sys.argv[1])
import psutil, torch
from tiny import tiny_tokenizer
from transformers import LlamaConfig, LlamaForCausalLM
from covec.models.text import TextModel

torch.set_num_threads(1)
tokenizer = tiny_tokenizer("one")
config = LlamaConfig(hidden_size=768, num_attention_heads=1, head_dim=16, intermediate_size=16, num_hidden_layers=1,
                     vocab_size=len(tokenizer), max_position_embeddings=64)
model = TextModel(LlamaForCausalLM(config).eval(), tokenizer)
resident = lambda: psutil.Process().memory_info().rss
prompts = [f"hotel {index}" for index in range(10_000)]
model.capture(prompts[:300], "resid.0")
gc.collect()
before = resident()
rows = model.capture(prompts, "resid.0")
grown, kept = resident() - before, rows["resid.0"].nbytes
del rows
gc.collect()
print(kept, grown, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is counted as Linux does")
def test_ten_thousand_prompts_take_little_more_memory_than_their_rows() -> None:
    arguments = [sys.executable, "-c", MEMORY, str(Path(__file__).parents[1])]
    output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    kept, grown, left = map(int, output.split())
    assert kept == 10_000 * 768 * 4
    assert grown <= 1.2 * kept
    assert left <= 5e6


def test_batches_are_what_a_sweep_says(tiny: TextModel) -> None:
    from covec.activations.capture import run_batches

    tokens = tiny.tokenize(PROMPTS)
    seen: list[int] = []

    def visit(site: Any, hidden: Tensor, batch: Batch) -> None:
        assert hidden.shape[:2] == batch.ids.shape
        seen.extend(batch.rows)

    run_batches(tiny, tokens, [5, 2, 0], tiny.select("resid.0"), visit, batch_tokens=30)
    assert sorted(seen) == [0, 2, 5]


@pytest.mark.parametrize("position", ["last", "all/none", "mean"])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_rows_that_are_no_numbers_are_refused_by_site_and_input(position: str, number: float) -> None:
    """As stores, moments and detection refuse them: nothing is made of such rows unseen."""
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    texts = ["ice melts", "The hotel", "ice"]
    (token, *_) = set(tokenizer(texts[1]).input_ids) - set(tokenizer(texts[0]).input_ids)
    with torch.no_grad():
        module.get_input_embeddings().weight[token] = number
    with pytest.raises(ModelError, match=r"embed has NaN or infinite numbers in input 2: load the model in float32"):
        model.capture(texts, ["embed", "resid.1"], "all/none")
    with pytest.raises(ModelError, match=r"resid.1 has NaN or infinite numbers in input 2 and 1 more"):
        model.capture([*texts, "a dull hotel and The hotel"], ["resid.1"], position)
    assert len(model.capture(texts[::2], "resid.1", position)["resid.1"])
