"""Soft concepts: the mean embedding of what comes next, mixed into what the head reads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.edits.soft_concept import mix_soft_concept, soft_concept
from covec.errors import ModelError
from covec.models.text import TextModel
from covec.worlds import small

HEAD = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
EMBEDDINGS = torch.tensor([[3.0, 0.0], [0.0, 5.0], [1.0, 1.0]])


@pytest.fixture(scope="module")
def model() -> TextModel:
    words = ("a", "b", "c", "d")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = small.transformer(words, width=16, blocks=2, longest=8)
    return TextModel(module, small.tokenizer(words))


def test_exact() -> None:
    certain, level = torch.tensor([1e4, 0.0]), torch.zeros(2)
    assert soft_concept(certain, EMBEDDINGS, HEAD).tolist() == [3.0, 0.0]
    torch.testing.assert_close(soft_concept(level, EMBEDDINGS, HEAD), torch.tensor([4 / 3, 2.0]))
    even = torch.tensor([1.0, 1.0])  # the first two tokens are as likely as each other, and the third is left out
    torch.testing.assert_close(soft_concept(even, EMBEDDINGS, HEAD, top=2), torch.tensor([1.5, 2.5]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), top=st.sampled_from([None, 1, 3, 9]))
def test_a_soft_concept_lies_among_the_embeddings(seed: int, top: int | None) -> None:
    generator = torch.Generator().manual_seed(seed)
    h, embeddings, head = (torch.randn(*shape, generator=generator) for shape in ((4, 5), (9, 5), (9, 5)))
    found = soft_concept(h, embeddings, head, top)
    probes = torch.randn(20, 5, generator=generator)
    assert bool(((found @ probes.T) <= (embeddings @ probes.T).amax(0) + 1e-4).all())
    if top == 9:
        torch.testing.assert_close(found, soft_concept(h, embeddings, head))


def test_the_head_reads_the_mixture(model: TextModel) -> None:
    ids = torch.tensor([[2, 3, 4, 5]])
    module = model.module
    with torch.no_grad():
        hidden = model.anatomy.body(input_ids=ids)[0]
        likely = module.lm_head(hidden).softmax(-1)
        wanted = module.lm_head(hidden + 0.5 * likely @ module.model.embed_tokens.weight)
        with model.edit(mix_soft_concept(model, 0.5)):
            found = module(input_ids=ids).logits
    torch.testing.assert_close(found, wanted)


def test_gradients_reach_both_tables_through_the_soft_concept(model: TextModel) -> None:
    edit = mix_soft_concept(model)
    h = torch.randn(3, model.width, generator=torch.Generator().manual_seed(0))
    found = soft_concept(h, edit.embeddings, edit.head).square().sum()
    given_ = torch.autograd.grad(found, [model.module.get_input_embeddings().weight, model.module.lm_head.weight])
    assert all(bool(gradient.any()) for gradient in given_)


def test_bad_input(model: TextModel) -> None:
    for top in (0, 99):
        with pytest.raises(ModelError, match=f"a number of tokens from 1 to 6, not {top}"):
            mix_soft_concept(model, top=top)
    body = TextModel(model.anatomy.body, model.tokenizer)
    with pytest.raises(ModelError, match="no head over tokens"):
        mix_soft_concept(body)
