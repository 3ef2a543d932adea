"""Laws of capture: a row depends on its own input alone, sites mean what they say, one pass serves all."""

import warnings

import numpy as np
import pytest
import torch

from covec.activations.capture import capture, capture_tokens
from covec.errors import BudgetError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site

TEXTS = [
    "The hotel was clean and the people were kind.",
    "A dull film",
    "Water boils at 100 degrees; ice melts at 0.",
    "Der Zug",
    "A dull film: two hours that I shall never get back!",
    "ice melts",
    "people were kind",
    "The people",
]
POSITIONS = ["last", "mean", "content/max", "first", "all/mean", "1", "content/none"]


def hooks(model):
    """Hooks on the model; transformers keeps some of its own."""
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules())


def close(found, expected, tolerance=1e-4):
    scale = expected.abs().amax(-1, keepdim=True)
    assert ((found - expected).abs() <= tolerance * scale + 1e-7).all()


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("batch_tokens", [1, 40, 512])
def test_a_row_does_not_depend_on_batch_order_or_padding(tiny, position, batch_tokens):
    whole = capture(tiny, TEXTS, "resid.*", position, batch_tokens=batch_tokens)
    alone = [capture(tiny, [text], "resid.*", position) for text in TEXTS]
    for site in whole.sites:
        close(whole[site], torch.cat([one[site] for one in alone]))
    turned = capture(tiny, TEXTS[::-1], "resid.*", position)
    for index in range(len(TEXTS)):
        close(turned.of(len(TEXTS) - 1 - index, "resid.0"), whole.of(index, "resid.0"))


def test_sites_are_those_of_a_raw_forward_pass(tiny):
    found = capture(tiny, TEXTS[:3], tiny.sites, "last")
    for row, text in enumerate(TEXTS[:3]):
        batch = tiny.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            hidden = tiny.module(**batch, output_hidden_states=True).hidden_states
        for block in range(tiny.blocks - 1):
            close(found[f"resid.{block}"][row], hidden[block + 1][0, -1])
        close(found["embed"][row], hidden[0][0, -1])
        close(found["final"][row], hidden[-1][0, -1])
        assert not torch.allclose(found[f"resid.{tiny.blocks - 1}"][row], hidden[-1][0, -1], atol=1e-3)


def test_the_stream_is_the_sum_of_what_the_sublayers_add(tiny):
    found = capture(tiny, TEXTS, tiny.sites, "last")
    for block in range(1, tiny.blocks):
        step = found[f"resid.{block}"] - found[f"resid.{block - 1}"]
        close(found[f"attn.{block}"] + found[f"mlp.{block}"], step, 1e-4)


def test_heads_are_the_columns_of_what_the_output_projection_reads(tiny):
    heads = sum(site.kind == "head" and site.block == 0 for site in tiny.sites)
    found = capture(tiny, TEXTS[:2], "head.0.*", "last")
    tap = tiny.anatomy.tap(Site("head", 0, 0))
    seen = []
    handle = tap.module.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        tiny.module(**tiny.tokenizer(TEXTS[0], return_tensors="pt"))
    handle.remove()
    joined = torch.cat([found[f"head.0.{head}"][0] for head in range(heads)])
    close(joined, seen[0][0, -1])


def test_the_pass_stops_after_the_deepest_site_and_never_reaches_the_head(tiny):
    ran = []
    handles = [
        block.register_forward_hook(lambda *_, n=n: ran.append(n)) for n, block in enumerate(tiny.anatomy.blocks)
    ]
    handles.append(tiny.module.get_output_embeddings().register_forward_hook(lambda *_: ran.append("head")))
    try:
        capture(tiny, TEXTS[:2], "resid.0", "last")
    finally:
        for handle in handles:
            handle.remove()
    assert set(ran) == {0}


def test_identical_inputs_run_once(tiny):
    counted = []
    handle = tiny.anatomy.body.register_forward_pre_hook(
        lambda _, args, kwargs: counted.append(kwargs["input_ids"].shape[0]), with_kwargs=True
    )
    try:
        found = capture(tiny, [TEXTS[0], TEXTS[1], TEXTS[0], TEXTS[0]], "resid.0", "content/none")
    finally:
        handle.remove()
    assert sum(counted) == 2
    assert torch.equal(found.of(0, "resid.0"), found.of(3, "resid.0"))
    assert len(found) == 4


def test_several_positions_come_from_one_pass(tiny):
    passes = []
    handle = tiny.anatomy.body.register_forward_pre_hook(lambda *_: passes.append(1))
    wanted = [Position.parse(name) for name in POSITIONS]
    try:
        together = capture_tokens(tiny, tiny.tokenize(TEXTS), "resid.*", wanted)
    finally:
        handle.remove()
    assert len(passes) == 1
    for position in wanted:
        alone = capture(tiny, TEXTS, "resid.*", position)
        for site in alone.sites:
            torch.testing.assert_close(together[position][site], alone[site])


def test_rows_are_plain_float32_and_the_model_is_left_as_it_was(tiny):
    known = hooks(tiny)
    before = {name: weight.clone() for name, weight in tiny.module.state_dict().items()}
    found = capture(tiny, TEXTS, "resid.*", "mean")
    for site in found.sites:
        assert found[site].dtype == torch.float32
        assert found[site].grad_fn is None
    assert all(torch.equal(weight, before[name]) for name, weight in tiny.module.state_dict().items())
    assert hooks(tiny) == known


def test_an_error_inside_the_pass_leaves_no_hook_and_keeps_its_type(tiny):
    known = hooks(tiny)

    def fail(*_):
        raise ZeroDivisionError("in the middle")

    handle = tiny.anatomy.blocks[0].register_forward_hook(fail)
    try:
        with pytest.raises(ZeroDivisionError, match="in the middle"):
            capture(tiny, TEXTS, "resid.1", "last")
    finally:
        handle.remove()
    assert hooks(tiny) == known


def test_more_than_the_budget_is_refused_before_any_work(tiny):
    with pytest.raises(BudgetError, match="memory budget"):
        capture(tiny, TEXTS, "resid.*", "content/none", memory_budget=1000)


def test_where_memory_runs_out_batches_are_halved_and_a_single_row_is_refused(tiny):
    limit = [3]

    def hungry(_, args, kwargs):
        if kwargs["input_ids"].shape[0] > limit[0]:
            raise torch.OutOfMemoryError("out of memory")

    expected = capture(tiny, TEXTS, "resid.0", "last")["resid.0"]
    handle = tiny.anatomy.body.register_forward_pre_hook(hungry, with_kwargs=True)
    try:
        close(capture(tiny, TEXTS, "resid.0", "last")["resid.0"], expected)
        limit[0] = 0
        with pytest.raises(BudgetError, match="batch budget"):
            capture(tiny, TEXTS, "resid.0", "last")
    finally:
        handle.remove()


def test_an_input_without_content_gives_its_last_token_and_a_warning(tiny):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = capture(tiny, ["T", TEXTS[0]], "resid.0", "mean")
    alone = len(tiny.tokenize(["T"])[0].ids) == 1
    assert bool(found.fallbacks) == alone
    assert any("no content" in str(one.message) for one in caught) == alone


def test_unknown_sites_and_modules_are_refused(tiny):
    for site in ("resid.77", "nowhere.at.all"):
        with pytest.raises(ModelError, match="no "):
            capture(tiny, TEXTS, site, "last")


def test_a_dotted_path_is_the_output_or_input_of_that_module(tiny):
    module = tiny.anatomy.tap(Site("final")).module
    name = next(name for name, part in tiny.anatomy.body.named_modules() if part is module)
    seen = {}
    handle = module.register_forward_hook(lambda _, args, output: seen.update(inside=args[0], outside=output))
    with torch.no_grad():
        tiny.module(**tiny.tokenizer(TEXTS[0], return_tensors="pt"))
    handle.remove()
    found = capture(tiny, TEXTS[:1], [name, f"{name}@in"], "last")
    close(found[name][0], seen["outside"][0, -1])
    close(found[f"{name}@in"][0], seen["inside"][0, -1])


def test_numbers_of_rows_and_offsets_agree(tiny):
    found = capture(tiny, TEXTS, "resid.0", "content/none")
    assert found.offsets[-1] == len(found["resid.0"]) == len(found.tokens)
    assert np.all(np.diff(found.offsets.numpy()) >= 1)
    assert sum(np.asarray(found.tokens) == 0) == found.fallbacks
