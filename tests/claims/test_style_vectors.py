"""How the claim of style vectors measures."""

import numpy as np
import pytest
import torch

from covec.activations.fluency import perplexity, surprise
from covec.claims import style_vectors
from covec.steer.style_vectors import StyleVectors
from covec.worlds.styles import STYLES, styled


def test_the_judge_knows_styles_it_was_not_shown_by_the_vectors():
    judge = style_vectors._Judge({style: styled(style, 20) for style in STYLES}, 80)
    for style in STYLES:
        scores = {other: judge.score(style, styled(other, 40, seed=2)).mean() for other in STYLES}
        assert max(scores, key=scores.get) == style
        assert scores[style] > 0.8


def test_random_edits_have_the_norms_of_those_they_stand_beside(tiny):
    examples = style_vectors._against_others({"good": ("Lovely!", "Great!"), "bad": ("Awful.", "Poor.")}, "good")
    edits = StyleVectors().fit(tiny, examples).edits(1.5)
    drawn = style_vectors._random(edits, 0)
    assert [edit.site for edit in drawn] == [edit.site for edit in edits]
    for edit, random in zip(edits, drawn, strict=True):
        assert float(random.shift.norm()) == pytest.approx(float(edit.shift.norm()), rel=1e-5)


def test_surprise_is_the_loss_of_the_continuation_alone(tiny):
    prompts, written = ["A good day", "Rain"], [" is a long one.", " falls"]
    nats, counts = surprise(tiny, prompts, written)
    for row, (prompt, text) in enumerate(zip(prompts, written, strict=True)):
        begun = tiny.tokenizer(prompt)["input_ids"]
        ended = tiny.tokenizer(text, add_special_tokens=False)["input_ids"]
        ids = torch.tensor([[*begun, *ended]])
        with torch.no_grad():
            likely = tiny.module(input_ids=ids).logits[0, len(begun) - 1 : -1].log_softmax(1)
        assert counts[row] == len(ended)
        assert nats[row] == pytest.approx(-float(likely.gather(1, torch.tensor(ended)[:, None]).sum()), rel=1e-4)
    assert perplexity(tiny, prompts, written) == pytest.approx(float(np.exp(nats.sum() / counts.sum())))
