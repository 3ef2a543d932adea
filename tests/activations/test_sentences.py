"""Sentences as unit vectors: what is read, centred and cut."""

import pytest
import torch

from covec.activations.sentences import LONGEST, SentenceEncoder
from covec.errors import ExamplesError

TEXTS = ["The hotel was clean.", "A dull film: two hours!", "Water boils at 100 degrees; ice melts at 0."]


def test_rows_are_unit_means_of_all_tokens_of_the_last_block(tiny):
    rows = SentenceEncoder(tiny)(TEXTS)
    site = f"resid.{tiny.blocks - 1}"
    wanted = torch.nn.functional.normalize(tiny.capture(TEXTS, site, "all/mean")[site], dim=1)
    assert torch.equal(rows, wanted)


def test_the_background_is_at_the_origin(tiny):
    encode = SentenceEncoder(tiny, "resid.0", "mean", background=TEXTS)
    raw = tiny.capture(TEXTS, "resid.0", "mean")["resid.0"]
    wanted = torch.nn.functional.normalize(raw - raw.mean(0), dim=1)
    torch.testing.assert_close(encode(TEXTS), wanted, rtol=0, atol=1e-5)


def test_a_text_that_is_too_long_is_read_up_to_there(tiny):
    words = [f"word {index}" for index in range(400)]
    encode = SentenceEncoder(tiny)
    whole, *others = encode([" ".join(words), " ".join(words[:200]), TEXTS[0]])
    read = min(LONGEST, tiny.context)
    (cut, _) = encode._cut([" ".join(words), TEXTS[0]])
    assert 0.9 * read <= len(tiny.tokenizer(cut)["input_ids"]) <= read
    torch.testing.assert_close(whole, encode([cut])[0])
    torch.testing.assert_close(others[1], encode([TEXTS[0]])[0], rtol=0, atol=1e-5)


def test_what_is_no_sentence_is_refused(tiny):
    with pytest.raises(ExamplesError, match="several: pool them"):
        SentenceEncoder(tiny, position="content/none")
    with pytest.raises(ExamplesError, match="is no list of inputs"):
        SentenceEncoder(tiny)("a text")


def test_meaning_is_near_in_the_embedded_model_of_sentences(minilm):
    one, same, other = SentenceEncoder(minilm)(
        ["A man is eating food.", "Someone has a meal.", "The stock market fell."]
    )
    assert float(one @ same) == pytest.approx(0.679, abs=2e-3)
    assert float(one @ other) == pytest.approx(-0.035, abs=2e-3)
