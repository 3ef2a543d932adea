"""CoT vectors: a context made into a vector, by learning or by difference."""

from dataclasses import replace

import pytest
import torch

from covec.activations.answers import Answered
from covec.concepts.examples import Examples
from covec.edits.objectives import Reading, Teaching
from covec.edits.trainable import TrainableAdd
from covec.edits.training import Settings
from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.steer.cot_vectors import CotVectors, contexts
from covec.worlds.two_steps import paired, problems

GIVEN = problems(8)
QUICK = Settings(steps=15, rate=5e-2)


def test_the_answer_of_a_problem_is_what_its_steps_come_to():
    for one in GIVEN:
        had, more, less = (int(word.strip(".")) for word in one.question.split() if word.strip(".").isdecimal())
        assert one.answer == str(had + more - less)
        assert one.steps.endswith(f"= {one.answer}.")
    assert len({one.question for one in GIVEN}) == 8
    assert problems(8) == GIVEN


def test_the_extracted_vector_is_the_mean_difference_at_the_tokens_of_the_answers(tiny: TextModel) -> None:
    (vector,) = CotVectors("resid.1", learned=False).fit(tiny, paired(GIVEN)).vectors.values()
    differences = []
    for one in GIVEN:
        answer = len(tiny.tokenizer(f" {one.answer}", add_special_tokens=False)["input_ids"])
        found = []
        for prompt in (one.worked(), one.plain):
            rows = tiny.capture([f"{prompt} {one.answer}"], "resid.1", "all/none")["resid.1"]
            found.append(rows[-answer:].mean(0))
        differences.append(found[0] - found[1])
    wanted = torch.stack(differences).mean(0)
    assert torch.allclose(vector.write, wanted, atol=1e-4 * float(wanted.abs().max()) + 1e-5)
    assert vector.scale_from == "native"


def test_learning_brings_what_is_said_nearer_to_the_teacher(tiny: TextModel) -> None:
    steering = CotVectors("resid.1", settings=QUICK, rows=8).fit(tiny, paired(GIVEN))
    having, lacking = contexts(tiny, paired(GIVEN))
    objective = Teaching(lacking, having, rows=None)
    with torch.no_grad():
        before, after = (float(objective.loss(edits, 0)) for edits in ([], added_by(steering)))
    assert after < before


def added_by(steering: CotVectors) -> list[TrainableAdd]:
    """What a fitted vector adds, as an edit that objectives take."""
    return [TrainableAdd(site=edit.site, shift=edit.shift) for edit in steering.edits()]


def test_the_loss_is_the_divergence_and_a_share_of_the_answers_own(tiny: TextModel) -> None:
    having, lacking = contexts(tiny, paired(GIVEN))
    with torch.no_grad():
        found = [float(Teaching(lacking, having, weight=weight, rows=None).loss([], 0)) for weight in (0.0, 1.0)]
        said = Reading(lacking).read([], range(8))
        none = float(Teaching(lacking, lacking, weight=0.0, rows=None).loss([], 0))
    assert found[1] - found[0] == pytest.approx(float(said.losses.mean()), rel=1e-4)
    assert none == pytest.approx(0.0, abs=1e-5)


def test_shuffled_steps_are_those_of_another_problem() -> None:
    whole, shuffled = paired(GIVEN), paired(GIVEN, shuffled=True)
    assert shuffled.negative == whole.negative
    assert GIVEN[1].steps in shuffled.positive[0]


def test_what_is_missing_is_told_in_one_line(tiny: TextModel) -> None:
    given = paired(GIVEN)
    with pytest.raises(ExamplesError, match="no pairs"):
        CotVectors().fit(tiny, replace(given, pairs=None))
    with pytest.raises(ExamplesError, match="no column `answer`"):
        CotVectors().fit(tiny, Examples(given.inputs, given.labels, pairs=given.pairs))
    lacking = contexts(tiny, given)[1]
    with pytest.raises(ExamplesError, match="the very answers"):
        Teaching(lacking, Answered.of(tiny, list(given.positive), ["no"] * 8))
