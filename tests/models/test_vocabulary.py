"""The vocabulary as directions of the stream."""

import pytest
import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoModel, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from covec.errors import ModelError
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary, ids_behind_space
from tiny import randomised, tiny_model, tiny_tokenizer


def test_a_token_s_direction_is_the_gradient_of_its_logit(tiny):
    """Behind the final norm, up to the length that it divides by and the part along the stream itself."""
    vocabulary, ids = Vocabulary(tiny), [40, 41]
    x = torch.randn(tiny.width, generator=torch.Generator().manual_seed(0)).requires_grad_()
    norm, head = tiny.anatomy.taps[next(site for site in tiny.sites if site.kind == "final")].module, tiny.module
    logits = head.get_output_embeddings()(norm(x[None]))[0]
    (gradient,) = torch.autograd.grad(logits[ids].mean() - logits[: len(tiny.tokenizer)].mean(), x)
    found = vocabulary.direction(ids)
    along = torch.stack([x.detach(), torch.ones_like(x)])  # what a norm takes out of a gradient
    basis = torch.linalg.qr(along.T).Q
    flat = [one - basis @ (basis.T @ one) for one in (found, gradient)]
    assert torch.nn.functional.cosine_similarity(*flat, dim=0) > 0.999


def test_logits_are_what_the_head_says_of_a_direction_that_is_normed(tiny):
    vocabulary = Vocabulary(tiny)
    direction = torch.randn(2, tiny.width, generator=torch.Generator().manual_seed(1))
    norm = next(tap.module for site, tap in tiny.anatomy.taps.items() if site.kind == "final")
    head = tiny.module.get_output_embeddings()
    with torch.no_grad():
        said = (head(norm(direction)) - head(norm(-direction)))[:, : len(tiny.tokenizer)] / 2
    found = vocabulary.logits(direction)
    correlation = torch.nn.functional.cosine_similarity(found, said - said.mean(1, keepdim=True), dim=1)
    assert correlation.min() > 0.9999


def test_whitened_rows_are_white(tiny):
    vocabulary = Vocabulary(tiny)
    rows = vocabulary._whitened(torch.cat(list(vocabulary._rows()))).double()
    assert torch.allclose(rows.T @ rows / len(rows), torch.eye(rows.shape[1]).double(), atol=1e-3)
    assert torch.allclose(rows.mean(0), torch.zeros(rows.shape[1]).double(), atol=1e-3)


def test_a_word_is_the_nearest_to_its_own_direction(smol):
    vocabulary = Vocabulary(smol)
    for word in ("music", "rain", "money"):
        (nearest, cosine), *rest = vocabulary.nearest(vocabulary.direction([vocabulary.token(word)]))
        assert nearest == word
        assert cosine == pytest.approx(1, abs=1e-3)
        assert [weight for _, weight in rest] == sorted((weight for _, weight in rest), reverse=True)
    woman = vocabulary.direction([vocabulary.token("she")]) - vocabulary.direction([vocabulary.token("he")])
    assert {word for word, _ in vocabulary.nearest(woman, 4)} == {"she", "her", "hers", "herself"}
    assert {"he", "him", "his"} <= {word for word, _ in vocabulary.nearest(-woman)}


def test_words_are_whole_and_merge_their_variants(smol):
    words = Vocabulary(smol).words
    texts = {smol.tokenizer.decode([index]) for index in words["music"]}
    assert {" music", "music", " Music"} <= texts
    assert all(word == word.casefold() and word.isalpha() for word in words)
    assert not [text for ids in words.values() for text in map(smol.tokenizer.decode, ids) if "<" in text]
    assert "ing" not in words or " ing" in {smol.tokenizer.decode([index]) for index in words["ing"]}


def test_a_word_of_several_tokens_is_refused_with_its_tokens(smol):
    vocabulary = Vocabulary(smol)
    assert smol.tokenizer.decode([vocabulary.token(" rain ")]) == " rain"
    for word in ("antidisestablishment", "two words", ""):
        with pytest.raises(ModelError, match="give a word that is one token"):
            vocabulary.token(word)


@pytest.mark.parametrize("direction", [torch.zeros(32), torch.ones(31), torch.full((32,), float("nan"))])
def test_what_is_no_direction_is_refused(direction):
    with pytest.raises(ModelError, match="give 32 finite numbers"):
        Vocabulary(TextModel(*tiny_model("llama"))).nearest(direction)


def test_a_model_without_an_unembedding_is_refused():
    module, tokenizer = tiny_model("llama")
    with pytest.raises(ModelError, match="has no unembedding.*load a language model"):
        Vocabulary(TextModel(AutoModel.from_config(module.config), tokenizer, name="bare"))


def test_a_head_with_layers_of_its_own_is_refused():
    tokenizer = tiny_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    masked = TextModel(randomised(lambda: BertForMaskedLM(config)), tokenizer, name="masked")
    with pytest.raises(ModelError, match="the head of masked does not read its stream"):
        Vocabulary(masked)


@pytest.mark.parametrize("made", ["normalizer", "pre-tokenizer"])
def test_a_word_has_one_space_before_it_where_the_tokenizer_puts_one_before_every_text(made):
    """SentencePiece's (Llama 2, Mistral, Phi-3): another space in front would be a token of its own."""
    inner = Tokenizer(models.WordLevel({"▁": 0, "▁a": 1, "▁rain": 2, "▁▁rain": 3}, unk_token="▁"))
    if made == "normalizer":
        inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        inner.pre_tokenizer = pre_tokenizers.Split(Regex("▁+[^▁]*"), "isolated")
    else:
        inner.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    assert ids_behind_space(tokenizer, "rain ") == [2]
    assert ids_behind_space(tokenizer, " ") == []


def test_a_word_is_what_it_is_behind_a_space(tiny):
    for text in ("hotel", "film's", "100", "Köln"):
        assert ids_behind_space(tiny.tokenizer, text) == tiny.tokenizer(f" {text}", add_special_tokens=False).input_ids


def test_a_norm_of_small_weights_takes_no_mean_away():
    module, tokenizer = tiny_model("llama")
    with torch.no_grad():
        module.model.norm.weight.fill_(1e-3)
    rows = torch.ones(1, module.config.hidden_size)
    assert Vocabulary(TextModel(module, tokenizer)).read_by(rows).abs().min() > 0
