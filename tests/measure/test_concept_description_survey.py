"""Descriptions of a planted direction, where right and wrong ones are known."""

from dataclasses import replace

import numpy as np
import pytest

from covec.checks.trials.concept_description_survey import trial
from covec.measure.concept_description_survey import activations, concept_description_survey
from covec.worlds.toys import toy

NAMES = {"cosy", "difference", "clarity", "responsiveness", "purity", "detection", "simulation"}


def test_a_right_description_exceeds_its_null_in_every_measure():
    scores = concept_description_survey(**trial(True, 0).given)
    assert set(scores.figures) == NAMES
    assert scores.figure is scores.figures["cosy"]
    assert scores.figure.value > 0.8
    for name, figure in scores.figures.items():
        assert figure.null is None or figure.value > figure.null, name
    assert sum(scores.rated) == 24 + 16 + 16
    assert scores.p < 1e-3
    assert str(scores).startswith("good\n  cosy")


def test_what_nothing_reads_is_as_clear_and_not_faithful():
    given = dict(trial(True, 0).given)
    given["vector"] = replace(given["vector"], model={})
    found = {}
    for read in (True, False):
        made = toy(0, read=read)
        given |= {"model": made.model, "prompts": made.neutral[:12], "strengths": (4.0,), "max_new_tokens": 6}
        found[read] = concept_description_survey(**given).figures
    assert found[True]["clarity"].value == pytest.approx(found[False]["clarity"].value, abs=1e-6)
    assert found[True]["faithfulness"].value > 0.5
    assert found[False]["faithfulness"].value < 0.1


def test_without_clarity_nothing_is_steered():
    given = {**trial(False, 0).given, "prompts": ["word1 word2"]}
    figure = concept_description_survey(**given).figures["faithfulness"]
    assert np.isnan(figure.value)
    assert "below one half" in figure.how


def test_theactivations_of_a_text_is_the_score_of_its_largest_token():
    given = trial(True, 0).given
    texts = given["shown"][:3]
    rows = given["model"].capture(texts, "resid.0", "content/none")
    wanted = []
    for text in range(3):
        scores = given["vector"].score(rows.of(text, "resid.0")).numpy()
        wanted.append(scores[np.abs(scores).argmax()])
    assert activations(given["model"], given["vector"], texts) == pytest.approx(wanted)
