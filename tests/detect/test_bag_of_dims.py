"""Bag of Dims: reading by counted signs, flipping them, and pushing towards them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.detect.bag_of_dims import BagOfDims, FlipSigns, PushSigns, token_states, word_states, writer
from covec.errors import ExamplesError, ModelError
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.auroc import auroc
from tiny import tiny_model


@pytest.fixture(scope="module")
def model() -> TextModel:
    module, tokenizer = tiny_model("llama")
    return TextModel(module, tokenizer, name="tiny")


def apply(edit: FlipSigns | PushSigns, h: torch.Tensor) -> torch.Tensor:
    return edit.apply(h, None)  # type: ignore[arg-type]


def test_it_reads_where_examples_and_background_differ_most() -> None:
    examples = torch.tensor([[1.0, 1.0, -2.0, 3.0], [2.0, -1.0, -1.0, 1.0]])
    background = torch.tensor([[1.0, 1.0, 2.0, -1.0], [1.0, -1.0, 1.0, 1.0]])
    reader = BagOfDims(2).fit(examples, background)
    assert reader.pattern_.tolist() == [0, 0, -1, 1]
    rows = torch.tensor([[9.0, 9.0, -1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, -1.0]])
    assert reader.score(rows).tolist() == [1.0, 0.5, 0.0]


def test_a_dimension_on_which_the_background_agrees_even_more_says_no() -> None:
    examples = torch.tensor([[1.0], [1.0], [-1.0]])
    assert BagOfDims(1).fit(examples, torch.ones(3, 1)).pattern_.item() == -1


def test_a_constant_sign_says_nothing() -> None:
    rows = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    rows[:, 0] = 1e4  # a massive activation of all tokens
    examples = rows[:20].clone()
    examples[:, 1] = examples[:, 1].abs()
    assert BagOfDims(1).fit(examples, rows[20:]).pattern_.nonzero().tolist() == [[1]]


@given(st.integers(0, 1000), st.floats(1e-3, 1e3))
@settings(max_examples=25, deadline=None)
def test_signs_do_not_depend_on_magnitudes(seed: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    examples, background, rows = torch.randn(3, 12, 8, generator=generator)
    one, other = BagOfDims(4).fit(examples, background), BagOfDims(4).fit(examples * size, background)
    assert torch.equal(one.pattern_, other.pattern_)
    assert torch.equal(one.score(rows), one.score(rows * size))


def test_a_planted_pattern_is_found_and_noise_is_not() -> None:
    generator = torch.Generator().manual_seed(0)
    shift = torch.zeros(200)
    shift[:40] = 0.8 * torch.randn(40, generator=generator).sign()
    rows = torch.randn(600, 200, generator=generator)
    reader = BagOfDims(40).fit(rows[:100] + shift, rows[100:300])
    scores = torch.cat([reader.score(rows[300:400] + shift), reader.score(rows[400:])]).numpy()
    labels = torch.arange(300).numpy() < 100
    assert auroc(scores, labels) > 0.95
    nothing = BagOfDims(40).fit(rows[:100], rows[100:300])
    assert abs(auroc(nothing.score(rows[300:]).numpy(), labels) - 0.5) < 0.1


def test_flipped_dimensions_all_disagree_and_no_size_changes() -> None:
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(2, 5, 8, generator=generator)
    reader = BagOfDims(3).fit(*torch.randn(2, 9, 8, generator=generator))
    flipped = apply(reader.flip("resid.1"), h)
    assert (reader.score(flipped) == 0).all()
    assert torch.equal(flipped.abs(), h.abs())
    untouched = reader.pattern_ == 0
    assert torch.equal(flipped[..., untouched], h[..., untouched])


def test_the_control_moves_as_far() -> None:
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(2, 5, 8, generator=generator)
    flip = FlipSigns(site=Site.parse("resid.1"), pattern=torch.tensor([1.0, -1, 1, 0, 0, 0, 0, 0]))
    control = FlipSigns(site=flip.site, pattern=torch.tensor([0.0, 0, 0, 1, -1, 1, 1, -1]), like=flip)
    moved, wanted = ((apply(edit, h) - h).norm(dim=-1) for edit in (control, flip))
    possible = apply(FlipSigns(site=flip.site, pattern=control.pattern), h) != h  # one that agrees can be flipped
    torch.testing.assert_close(moved[possible.any(-1)], wanted[possible.any(-1)])


def test_a_push_is_in_units_of_the_activation() -> None:
    h = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    push = PushSigns(site=Site.parse("attn.1"), signs=torch.ones(8), gain=0.5)
    torch.testing.assert_close(apply(push, 10 * h), 10 * apply(push, h))
    torch.testing.assert_close((apply(push, h) - h)[..., 0], 0.5 * h.square().mean(-1).sqrt())


def test_a_word_alone_is_read_after_the_first_special_token(model: TextModel) -> None:
    ids = [model.tokenizer(" the", add_special_tokens=False)["input_ids"][0]]
    found = token_states(model, ids, ["resid.0", "resid.2"])
    bos = model.tokenizer.bos_token_id
    text = model.tokenizer.decode(ids)
    rows = model.capture([text], "resid.2", "last")["resid.2"]
    assert model.tokenizer(text)["input_ids"] == [bos, *ids]
    torch.testing.assert_close(found[Site.parse("resid.2")], rows, atol=1e-4, rtol=1e-4)


def test_the_writer_is_the_sign_of_what_the_words_are_read_by(smol: TextModel) -> None:
    signs = writer(smol, ["dog", "cat"])
    assert set(signs.tolist()) == {-1.0, 1.0}
    push = [PushSigns(site=Site.parse(f"attn.{block}"), signs=signs, gain=1.0) for block in (15, 20, 25)]
    ids = [smol.tokenizer(f" {word}")["input_ids"][0] for word in ("dog", "cat")]

    def likely() -> float:
        last = smol.capture(["On the table there was a"], "final", "last")[Site("final")]
        logits = last @ smol.module.get_output_embeddings().weight.detach().float().T
        return float(logits.log_softmax(1)[0, ids].logsumexp(0))

    before = likely()
    with smol.edit(*push):
        assert likely() > before


def test_bad_input_is_told(model: TextModel, smol: TextModel) -> None:
    rows = torch.randn(3, 8)
    with pytest.raises(ExamplesError, match="9 dimensions cannot be chosen of 8"):
        BagOfDims(9).fit(rows, rows)
    with pytest.raises(ExamplesError, match="give rows of one site"):
        BagOfDims(2).fit(rows, torch.randn(3, 7))
    with pytest.raises(ExamplesError, match="give rows of one site"):
        BagOfDims(2).fit(rows[:0], rows)
    with pytest.raises(ModelError, match="give a word that is one token"):
        word_states(smol, ["dog", "antidisestablishmentarianism"], "resid.1")
    with pytest.raises(ModelError, match="no token"):
        token_states(model, [], "resid.1")
