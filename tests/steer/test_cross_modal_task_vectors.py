"""Task vectors: one token's activation, in the place of another's."""

from __future__ import annotations

import math

import pytest
import torch

from covec.activations.answers import Answered
from covec.concepts.demonstrations import demonstrations, question
from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.steer.cross_modal_task_vectors import CrossModalTaskVectors, task_vector
from covec.worlds.word_tasks import word_pairs

SHOWN = Examples.from_lists(
    ["one two : three", "four five : six", "good : better"], ["one two : six", "four five : three", "good : two"]
)


@pytest.fixture(scope="module")
def fitted(tiny: TextModel) -> CrossModalTaskVectors:
    return CrossModalTaskVectors("resid.0").fit(tiny, SHOWN)


def means(tiny: TextModel) -> tuple[torch.Tensor, torch.Tensor]:
    rows = tiny.capture(SHOWN.inputs, "resid.0", "last")["resid.0"]
    return rows[:3].mean(0), rows[3:].mean(0)


def test_strength_one_puts_the_mean_at_the_last_token_and_nowhere_else(
    tiny: TextModel, fitted: CrossModalTaskVectors
) -> None:
    text = "seven eight : nine"
    plain = tiny.capture([text], "resid.0", "all/none")["resid.0"]
    for strength, wanted in ((1.0, means(tiny)[0]), (-1.0, means(tiny)[1])):
        with tiny.edit(*fitted.edits(strength)):
            found = tiny.capture([text], "resid.0", "all/none")["resid.0"]
        torch.testing.assert_close(found[-1], wanted)
        torch.testing.assert_close(found[:-1], plain[:-1])


def test_strengths_are_shares_of_the_way_and_steps_beyond(tiny: TextModel, fitted: CrossModalTaskVectors) -> None:
    positive, negative = means(tiny)
    for strength, value, share in (
        (0.5, positive, 0.5),
        (-0.25, negative, 0.25),
        (3.0, positive + 2 * (positive - negative), 1.0),
        (-2.0, negative + (negative - positive), 1.0),
    ):
        (edit,) = fitted.edits(strength)
        assert (edit.share, edit.position) == (share, Position("last"))
        torch.testing.assert_close(edit.value, value, rtol=1e-4, atol=1e-5)
    assert fitted.edits(0) == ()


def test_with_the_cache_the_prompt_s_last_token_alone_is_replaced(
    tiny: TextModel, fitted: CrossModalTaskVectors
) -> None:
    with tiny.edit(*fitted.edits()):
        texts = [tiny.generate("seven eight :", max_new_tokens=6, use_cache=cached) for cached in (True, False)]
    assert texts[0] == texts[1]


def test_instructions_are_half_of_the_ensemble(tiny: TextModel) -> None:
    asked = ["the better of :", "what is more :"]
    (vector,) = CrossModalTaskVectors("resid.0", asked).fit(tiny, SHOWN).vectors.values()
    part = vector.parts[vector.site]
    torch.testing.assert_close(part.mean_positive, (means(tiny)[0] + task_vector(tiny, asked, "resid.0")) / 2)
    assert (vector.operation, vector.write_position) == ("replace", Position("last"))


def test_bad_input(tiny: TextModel, fitted: CrossModalTaskVectors) -> None:
    with pytest.raises(CovecError, match="at one site, not at"):
        CrossModalTaskVectors("resid.*").fit(tiny, SHOWN)
    with pytest.raises(CovecError, match=r"no site 'resid\.99'"):
        CrossModalTaskVectors("resid.99").fit(tiny, SHOWN)
    with pytest.raises(CovecError, match="finite number"):
        fitted.edits(math.nan)
    with pytest.raises(CovecError, match="not fitted"):
        CrossModalTaskVectors().edits()


def test_a_task_is_done_where_nothing_shows_it(smol: TextModel) -> None:
    pairs = word_pairs("plural")
    steering = CrossModalTaskVectors("resid.22").fit(smol, demonstrations(pairs[::2], prompts=6, name="plural"))
    words, answers = zip(*pairs[1:40:4], strict=True)
    asked = Answered.of(smol, [question(word) for word in words], answers)
    plain = asked.outcome()
    with smol.edit(*steering.edits()):
        moved = asked.outcome()
    assert moved.log_probability.mean() > plain.log_probability.mean() + 2
