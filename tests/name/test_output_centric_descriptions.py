"""Output-centric descriptions: the words that a direction moves, exactly where they are known."""

import pytest
import torch

from covec.checks.namers import BAD, GOOD, world
from covec.edits.algebra import Add
from covec.errors import CovecError, ModelError
from covec.models.sites import Site
from covec.models.vocabulary import Vocabulary
from covec.name.output_centric_descriptions import Change, OutputCentricDescriptions, by_word

TEXTS = ("The hotel was clean and the people were kind.", "Water boils at 100 degrees; ice melts at 0.")


def test_the_vocabulary_is_read_behind_the_final_norm(tiny):
    """W_U LN(v), its mean over tokens left out, as the model's own head and norm give it."""
    directions = torch.nn.functional.normalize(torch.randn(2, tiny.width, generator=torch.Generator().manual_seed(0)))
    norm = tiny.anatomy.tap(Site("final")).module
    with torch.no_grad():
        wanted = tiny.module.get_output_embeddings()(norm(directions) - norm(torch.zeros(1, tiny.width)))
    wanted = (wanted - wanted.mean(1, keepdim=True))[:, : len(tiny.tokenizer)]
    found = Vocabulary(tiny).logits(directions * tiny.width**0.5)
    cosines = torch.nn.functional.cosine_similarity(found, wanted - wanted.mean(1, keepdim=True), dim=1)
    assert (cosines > 0.999).all()


def test_the_change_is_half_the_mean_logits_with_it_less_those_without(tiny):
    site, direction = Site("resid", 1), torch.nn.functional.normalize(torch.ones(tiny.width), dim=0)
    change = Change(tiny, site, TEXTS)
    amount = change.amount(direction, 0.01)
    means = []
    for sign in (1, -1):
        with tiny.edit(Add(site=site, shift=sign * amount * direction)):
            logits = []
            for text in TEXTS:
                item = tiny.tokenize([text])[0]
                with torch.no_grad():
                    found = tiny.module(input_ids=torch.tensor([item.ids]), use_cache=False).logits[0]
                content = ~torch.from_numpy(item.layout.special)
                content[0] = False
                logits.append(found[content])
        means.append(torch.cat(logits).mean(0))
    torch.testing.assert_close(change.of(direction, amount), (means[0] - means[1]) / 2, rtol=1e-3, atol=1e-4)


def test_the_addition_moves_the_model_as_far_as_it_is_told(tiny):
    change = Change(tiny, Site("resid", 0), TEXTS)
    direction = torch.nn.functional.normalize(
        torch.randn(tiny.width, generator=torch.Generator().manual_seed(1)), dim=0
    )
    for nats in (0.01, 0.1):
        amount = change._divergence.amount(direction, nats, most=10 * change._most)
        shifts = [Add(site=Site("resid", 0), shift=sign * amount * direction) for sign in (1, -1)]
        assert sum(map(change._divergence.value, shifts)) / 2 == pytest.approx(nats, rel=0.11)
    assert change._divergence.amount(direction, 1e3, most=0.5) == 0.5


def test_of_the_variants_of_a_word_the_one_that_moves_most_counts(tiny):
    vocabulary = Vocabulary.__new__(Vocabulary)
    vars(vocabulary)["words"] = {"one": (0, 3), "two": (1,), "three": (2, 4)}
    logits = torch.tensor([[1.0, -2.0, 3.0, -4.0, 0.5]])
    moved = torch.tensor([-4.0, -2.0, 3.0])
    wanted = (moved - moved.mean()) / moved.std()
    torch.testing.assert_close(by_word(vocabulary, logits)[0], wanted)
    torch.testing.assert_close(by_word(vocabulary, -logits)[0], -wanted)
    assert not by_word(vocabulary, 1e-5 * logits).any(), "rounding is no name"


@pytest.mark.parametrize("way", ["change", "vocabulary", "both"])
def test_planted_words_are_recovered(way):
    made = world(True)
    head = made.model.module.get_output_embeddings().weight.detach()
    good, bad = (head[[made.model.tokenizer.get_vocab()[_spelled(word)] for word in words]] for words in (GOOD, BAD))
    (names,) = OutputCentricDescriptions(count=6, texts=made.neutral[:8], way=way).name(
        made.model, (good.mean(0) - bad.mean(0))[None], "resid.1"
    )
    assert {text for text, weight in names if weight > 0} == set(map(_spelled, GOOD))
    assert {text for text, weight in names if weight < 0} == set(map(_spelled, BAD))


def _spelled(word):
    return word[:-1] + chr(ord("a") + int(word[-1]))


def test_what_has_no_words_is_refused_in_one_line(tiny, minilm):
    directions = torch.randn(1, tiny.width)
    with pytest.raises(CovecError, match="no way 'magic' to name by the output; there are change"):
        OutputCentricDescriptions(way="magic")
    with pytest.raises(ModelError, match=r"final is not read by the unembedding: name its directions by way='change'"):
        OutputCentricDescriptions(way="vocabulary").name(tiny, directions, "final")
    with pytest.raises(ModelError, match="has no unembedding"):
        OutputCentricDescriptions().name(minilm, torch.randn(1, 384), "resid.2")


def test_food_is_called_food_in_the_embedded_model(smol):
    from covec.worlds.topics import TOPICS, about

    means = {topic: smol.capture(about(topic, 12), "resid.20", "mean")["resid.20"].mean(0) for topic in TOPICS}
    others = torch.stack([means[topic] for topic in TOPICS if topic != "food"]).mean(0)
    (names,) = OutputCentricDescriptions(count=20).name(smol, (means["food"] - others)[None], "resid.20")
    up = {text for text, weight in names if weight > 0}
    assert (
        len(up & {"salad", "tasty", "yummy", "pasta", "sandwiches", "snack", "roast", "pastry", "soup", "bread"}) >= 3
    )
