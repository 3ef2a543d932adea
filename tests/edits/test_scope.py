"""Laws of edits: with and without cache, in any batch, in any thread, undone whatever happens."""

import threading

import numpy as np
import pytest
import torch

from comparing import hooks
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Ablate, Add, Gate, SetCoordinate
from covec.errors import ExamplesError, ModelError
from covec.models.positions import Position
from covec.models.sites import Site

PROMPTS = ["The hotel was", "A dull film: two hours", "ice"]
POSITIONS = ["all", "content", "prompt", "generated", "last", "last+generated", "from-3", "2"]


def add(model, size=3.0, site="resid.1", position="content", seed=0, gate=None):
    shift = size * torch.randn(model.width, generator=torch.Generator().manual_seed(seed))
    return Add(site=Site.parse(site), shift=shift, position=Position.parse(position), gate=gate)


@pytest.mark.parametrize("position", POSITIONS)
def test_texts_are_the_same_with_and_without_cache_alone_and_together(tiny, position):
    with tiny.edit(add(tiny, position=position)):
        cached = tiny.generate(PROMPTS, max_new_tokens=6)
        assert tiny.generate(PROMPTS, max_new_tokens=6, use_cache=False) == cached
        assert [tiny.generate(prompt, max_new_tokens=6) for prompt in PROMPTS] == cached


def test_beams_are_the_same_with_and_without_cache_and_rows_keep_their_edits(tiny):
    edits = [[], [add(tiny)], [add(tiny, -3.0)]]
    prompts = [PROMPTS[0]] * 3
    cached = tiny.generate(prompts, edits=edits, max_new_tokens=6, num_beams=3)
    assert tiny.generate(prompts, edits=edits, max_new_tokens=6, num_beams=3, use_cache=False) == cached
    alone = [tiny.generate(PROMPTS[0], edits=one, max_new_tokens=6, num_beams=3) for one in edits]
    assert alone == cached


def test_rows_of_one_batch_carry_different_edits(tiny):
    edits = [
        [],
        [add(tiny)],
        [add(tiny, seed=1), add(tiny, site="resid.0")],
        [Ablate(site=Site("resid", 1), **axis(tiny))],
    ]
    prompts = [PROMPTS[1]] * 4
    together = tiny.generate(prompts, edits=edits, max_new_tokens=6)
    assert together == [tiny.generate(PROMPTS[1], edits=one, max_new_tokens=6) for one in edits]
    assert together[0] == tiny.generate(PROMPTS[1], max_new_tokens=6)


def axis(model, seed=0, target=0.5):
    direction = torch.nn.functional.normalize(
        torch.randn(model.width, generator=torch.Generator().manual_seed(seed)), dim=0
    )
    return {"directions": direction[None], "targets": torch.tensor([target])}


def test_an_edit_changes_its_tokens_by_its_shift_and_no_others(tiny):
    edit = add(tiny, position="from-2")
    plain = tiny.capture(PROMPTS, "resid.1", "all/none")
    with tiny.edit(edit):
        changed = tiny.capture(PROMPTS, "resid.1", "all/none")
    step = changed["resid.1"] - plain["resid.1"]
    late = torch.from_numpy(np.asarray(plain.tokens) >= 2)
    torch.testing.assert_close(step[late], edit.shift.expand(int(late.sum()), -1), atol=1e-4, rtol=1e-4)
    assert torch.equal(step[~late], torch.zeros_like(step[~late]))


def test_add_then_subtract_is_nothing_and_ablating_twice_is_ablating_once(tiny):
    plain = tiny.capture(PROMPTS, "final", "content/none")["final"]
    with tiny.edit(add(tiny), add(tiny, -3.0)):
        torch.testing.assert_close(tiny.capture(PROMPTS, "final", "content/none")["final"], plain, atol=1e-4, rtol=1e-4)
    ablate = Ablate(site=Site("resid", 0), **axis(tiny))
    with tiny.edit(ablate):
        once = tiny.capture(PROMPTS, "final", "content/none")["final"]
    with tiny.edit(ablate, ablate):
        torch.testing.assert_close(tiny.capture(PROMPTS, "final", "content/none")["final"], once, atol=1e-4, rtol=1e-4)


def test_a_strength_of_nothing_is_an_exact_no_op(tiny):
    plain = tiny.capture(PROMPTS, "final", "content/none")["final"]
    with tiny.edit(add(tiny, 0.0)):
        assert torch.equal(tiny.capture(PROMPTS, "final", "content/none")["final"], plain)


def test_after_the_scope_the_model_is_what_it_was_also_after_an_error(tiny):
    known, plain = hooks(tiny), tiny.generate(PROMPTS, max_new_tokens=5)
    with pytest.raises(ZeroDivisionError), tiny.edit(add(tiny)):
        raise ZeroDivisionError
    assert hooks(tiny) == known
    assert tiny.generate(PROMPTS, max_new_tokens=5) == plain
    with tiny.edit(add(tiny)):
        with tiny.edit(add(tiny, seed=2)):
            pass
        inner = tiny.generate(PROMPTS, max_new_tokens=5)
    with tiny.edit(add(tiny)):
        assert tiny.generate(PROMPTS, max_new_tokens=5) == inner
    assert hooks(tiny) == known


def test_two_threads_do_not_see_each_others_edits(tiny):
    alone = {}
    for seed in (0, 1):
        with tiny.edit(add(tiny, seed=seed)):
            alone[seed] = tiny.generate(PROMPTS, max_new_tokens=5)
    found, ready = {}, threading.Barrier(3)

    def run(seed):
        ready.wait()
        for _ in range(5):
            with tiny.edit(add(tiny, seed=seed)):
                found.setdefault(seed, []).append(tiny.generate(PROMPTS, max_new_tokens=5))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    plain = tiny.capture(PROMPTS, "final", "last")["final"]
    ready.wait()
    assert torch.equal(tiny.capture(PROMPTS, "final", "last")["final"], plain)
    for thread in threads:
        thread.join()
    assert found == {seed: [alone[seed]] * 5 for seed in (0, 1)}


def test_edits_act_when_the_model_is_called_or_generates_by_itself(tiny):
    text = PROMPTS[1]
    batch = tiny.tokenizer(text, return_tensors="pt")
    with tiny.edit(add(tiny)):
        expected = tiny.generate(text, max_new_tokens=6)
        ids = tiny.module.generate(**batch, max_new_tokens=6, do_sample=False, pad_token_id=tiny.pad_id)
        last = tiny.capture([text], "final", "last")["final"]
        with torch.no_grad():
            raw = tiny.anatomy.body(**batch)[0][0, -1]
    assert tiny.tokenizer.decode(ids[0, batch.input_ids.shape[1] :], skip_special_tokens=True) == expected
    torch.testing.assert_close(raw, last[0], atol=1e-4, rtol=1e-4)


def test_a_gate_lets_an_edit_act_only_where_it_fires(tiny):
    direction = axis(tiny)["directions"][0]
    plain = tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"]
    gate = Gate(Site("resid", 1), direction, 0.0, 1.0, threshold=float((plain @ direction).median()))
    with tiny.edit(add(tiny, gate=gate)):
        changed = tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"]
    moved = (changed - plain).norm(dim=1) > 1e-3
    assert torch.equal(moved, plain @ direction > gate.threshold)
    assert 0 < moved.sum() < len(moved)
    with pytest.raises(ModelError, match="comes after"), tiny.edit(add(tiny, site="resid.0", gate=gate)):
        pass


def test_set_coordinate_sets_it(tiny):
    edit = SetCoordinate(site=Site("resid", 1), **axis(tiny, target=2.5))
    with tiny.edit(edit):
        found = tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"] @ edit.directions[0]
    torch.testing.assert_close(found, torch.full_like(found, 2.5), atol=1e-4, rtol=1e-4)


def test_a_sampled_text_depends_on_its_prompt_and_seed_alone(tiny):
    options = {"do_sample": True, "max_new_tokens": 6, "temperature": 0.8}
    one = tiny.generate([PROMPTS[0], PROMPTS[2], PROMPTS[0]], seed=3, **options)
    other = tiny.generate([PROMPTS[1], PROMPTS[0], PROMPTS[0]], seed=3, **options)
    assert [one[0], one[2]] == other[1:]
    assert tiny.generate([PROMPTS[0]] * 8, seed=4, **options) != tiny.generate([PROMPTS[0]] * 8, seed=5, **options)
    assert tiny.generate(PROMPTS, seed=1, max_new_tokens=6) == tiny.generate(PROMPTS, seed=2, max_new_tokens=6)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda model: Add(site=Site("resid", 99), shift=torch.zeros(model.width)), "no site"),
        (lambda model: Add(site=Site("resid", 0), shift=torch.zeros(model.width + 1)), "width"),
        (lambda model: add(model, position="content/mean"), "no pooling"),
        (lambda model: "louder", "is no edit"),
        (
            lambda model: Add(site=Site("resid", 0), shift=torch.zeros(model.width), fingerprint="another"),
            "another model",
        ),
    ],
)
def test_what_a_model_cannot_honour_is_refused_before_it_runs(tiny, edit, words):
    with pytest.raises(ModelError, match=words):
        tiny.edit(edit(tiny))  # at the call, before any block is entered


def test_generation_refuses_what_it_cannot_do(tiny):
    with pytest.raises(ExamplesError, match="one list an input"):
        tiny.generate(PROMPTS, edits=[[]])
    with pytest.raises(ExamplesError, match="at least 1"):
        tiny.generate(PROMPTS, max_new_tokens=0)
    with pytest.raises(ModelError, match="beams"):
        tiny.generate(PROMPTS, do_sample=True, num_beams=2)
    with pytest.raises(ExamplesError, match="exceed"):
        tiny.generate(PROMPTS, max_new_tokens=10_000)


def test_strengths_move_the_score_by_exactly_that_much(tiny):
    rows = tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"]
    positive, negative = rows[:5].mean(0), rows[5:].mean(0)
    vector = ConceptVector.from_direction("c", "resid.1", positive - negative, positive, negative)
    plain = vector.score(tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"])
    for strength in (-2.0, 0.5, 1.0):
        with tiny.edit(vector.add(strength)):
            moved = vector.score(tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"])
        torch.testing.assert_close(moved - plain, torch.full_like(plain, strength), atol=1e-3, rtol=1e-3)
    with tiny.edit(vector.ablate()):
        none = vector.score(tiny.capture(PROMPTS, "resid.1", "content/none")["resid.1"])
    torch.testing.assert_close(none, torch.zeros_like(none), atol=1e-3, rtol=0)
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ModelError, match="finite"):
            vector.add(wrong)
    for absurd in (1e12, -1e30, 1e38):
        for call in (vector.add, vector.set_coordinate):
            with pytest.raises(ModelError, match="too large"):
                call(absurd)
    assert vector.add(1e4)
    with pytest.raises(ModelError, match="no calibrated"):
        vector.to_probability(0.5)
    with pytest.raises(ModelError, match="midpoint"):
        vector.ablate(sites=["resid.0"])
