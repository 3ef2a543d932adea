"""Schedules and the gate for where a model is unsure: the tokens they choose, in every way of writing."""

import pytest
import torch

from covec.checks._edit import planted
from covec.concepts.packaged import neutral_prompts
from covec.edits.divergence import Divergence
from covec.edits.schedules import Ramp, Steps, Unsure, scheduled
from covec.errors import ModelError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.worlds.toys import toy

TEXTS = ["word1 good2 word3 word4 bad1", "good0 word7", "bad3 bad4 word2"]


@pytest.fixture(scope="module")
def model() -> TextModel:
    return toy(read=True, texts=1).model


def edits(schedule=None, **where):
    return scheduled(planted(size=30).add(2.0), schedule, **{"position": Position("all"), **where})


def logits(model, edited, new):
    """Of every step of a greedy text, as transformers gives them [steps, vocabulary]."""
    ids = model.tokenizer(TEXTS[0], return_tensors="pt").input_ids
    options = {"do_sample": False, "return_dict_in_generate": True, "output_logits": True, "pad_token_id": 0}
    with model.edit(*edited):
        return torch.cat(model.module.generate(ids, max_new_tokens=new, **options).logits)


def test_steps_begin_and_end_when_they_say(model):
    plain, written = logits(model, [], 6), logits(model, edits(Steps(2, 3)), 6)
    assert torch.equal(written[:2], plain[:2])
    assert not torch.equal(written[2], plain[2])
    assert torch.equal(logits(model, edits(Steps(6)), 6), plain)  # later than anything that is written


def test_step_zero_is_the_prompt_s_last_token(model):
    here = logits(model, edits(Steps(0, 0)), 3)
    assert torch.equal(here, logits(model, edits(position=Position("last")), 3))
    assert torch.equal(logits(model, edits(Steps(1)), 3), logits(model, edits(position=Position("generated")), 3))


def test_a_level_ramp_is_the_edit_itself_and_a_half_is_half_its_strength(model):
    whole, half = edits(Ramp(((0, 1.0),))), edits(Ramp(((0, 0.5),)))
    assert torch.equal(logits(model, whole, 4), logits(model, edits(), 4))
    weaker = scheduled(planted(size=30).add(1.0), position=Position("all"))
    assert torch.allclose(logits(model, half, 4), logits(model, weaker, 4), atol=1e-3)


def test_a_ramp_by_index_counts_from_the_first_token_whatever_the_padding(model):
    fading = edits(Ramp(((0, 1.0), (3, 0.0)), by="index"))
    for text in TEXTS:
        ids = model.tokenizer(text).input_ids
        plain = model.capture([text], "resid.0", "all/none")["resid.0"]
        with model.edit(*fading):
            found = model.capture(TEXTS, "resid.0", "all/none").of(TEXTS.index(text), "resid.0")
        shares = (found - plain).norm(dim=1) / edits()[0].shift.norm()
        assert torch.allclose(shares, torch.tensor([max(0.0, 1 - i / 3) for i in range(len(ids))]), atol=1e-4)


def test_an_unsure_gate_opens_where_the_head_finds_nothing_likely(smol: TextModel):
    text, site = neutral_prompts()[0], Site("resid", 29)
    ids = smol.tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        likely = smol.module(ids).logits[0].softmax(1).amax(1)
    below = float(likely[1:].median())
    vector = planted(width=smol.width)
    edit = scheduled(vector.add(1.0), gate=Unsure(site, below), site=site, position=Position("all"))
    plain = smol.capture([text], site, "all/none")[site]
    with smol.edit(*edit):
        found = smol.capture([text], site, "all/none")[site]
    assert torch.equal((found != plain).any(1), likely < below)


@pytest.mark.parametrize("schedule", [None, Steps(1, 4)])
def test_an_unsure_gate_opens_at_the_same_tokens_in_every_way_of_writing(model, schedule):
    with torch.no_grad():
        rows = model.capture(TEXTS, "resid.0", "all/none")["resid.0"]
    fires = Unsure("resid.0", 1.0).bind(model, torch.device("cpu"))
    assert fires(rows[None]).all()
    bounds = [0.02 * step for step in range(1, 51)]
    shares = [
        float(Unsure("resid.0", one).bind(model, torch.device("cpu"))(rows[None]).float().mean()) for one in bounds
    ]
    below = bounds[min(range(50), key=lambda at: abs(shares[at] - 0.5))]
    gated = edits(schedule, gate=Unsure("resid.0", below))
    with model.edit(*gated):
        for beams in (1, 2):
            written = model.generate(TEXTS, max_new_tokens=6, num_beams=beams)
            assert model.generate(TEXTS, max_new_tokens=6, num_beams=beams, use_cache=False) == written
            assert [model.generate(text, max_new_tokens=6, num_beams=beams) for text in TEXTS] == written
    assert model.generate(TEXTS, edits=[gated, [], gated], max_new_tokens=6)[1] == model.generate(
        TEXTS[1], max_new_tokens=6
    )


def test_rows_keep_their_own_schedules(model):
    each = [edits(Steps(1, 2)), edits(Steps(3)), edits()]
    together = model.generate(TEXTS, edits=each, max_new_tokens=6)
    assert together == [
        model.generate(text, edits=own, max_new_tokens=6) for text, own in zip(TEXTS, each, strict=True)
    ]


def test_what_cannot_be_scheduled_is_told_in_one_line(model):
    with pytest.raises(ModelError, match="from a first to a last one, not from 3 to 2"):
        Steps(3, 2)
    with pytest.raises(ModelError, match="not from -1"):
        Steps(-1)
    with pytest.raises(ModelError, match="by step or by index, not by 'layer'"):
        Ramp(((0, 1),), by="layer")
    with pytest.raises(ModelError, match="points at rising places"):
        Ramp(((3, 1), (3, 0)))
    with pytest.raises(ModelError, match="points at rising places"):
        Ramp(())
    with pytest.raises(ModelError, match="finite numbers"):
        Ramp(((0, float("nan")),))
    with pytest.raises(ModelError, match="between 0 and 1, not 0"):
        Unsure("resid.0", 0)
    with pytest.raises(ModelError, match=r"the gate reads resid.1, which comes after the edit at resid.0"):
        model.edit(*edits(gate=Unsure("resid.1")))
    with pytest.raises(ModelError, match="behind a gate or a schedule"):
        Divergence(model, "resid.0", TEXTS).value(edits(Steps(1))[0])
