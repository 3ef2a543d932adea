"""Planted rotations and stretches come back, and prompts end alike."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.measure.truth_vector_context import truth_vector_context, truth_vectors
from covec.models.text import TextModel
from covec.worlds.contexts import turned
from tiny import tiny_model


@settings(deadline=None, max_examples=20)
@given(st.floats(0, 180), st.floats(0.2, 5), st.integers(0, 100))
def test_without_noise_everything_is_exact(degrees, stretch, seed):
    found = truth_vector_context(*turned(6, 8, degrees=degrees, stretch=stretch, noise=0, seed=seed), halvings=3)
    assert found.angle.value == pytest.approx(degrees, abs=0.2)
    assert found.theta.value == pytest.approx(degrees, abs=0.2)
    assert found.ratio.value == pytest.approx(stretch**2, rel=1e-3)
    assert found.growth.value == pytest.approx(stretch**2, rel=1e-3)
    assert found.angle.null == pytest.approx(0, abs=0.2)
    assert found.figure is found.angle


def test_noise_lengthens_pairs_and_not_their_mean():
    found = truth_vector_context(*turned(400, 16, degrees=60, stretch=2, noise=1, seed=0))
    assert found.growth.value == pytest.approx(4, rel=0.1)
    assert found.ratio.value < 3
    assert found.angle.value == pytest.approx(60, abs=6)
    assert found.theta.value > found.angle.value + 5
    assert found.p_ratio < 1e-6


def test_the_same_differences_again_are_no_change():
    plain, _ = turned(20, 8, degrees=0, stretch=1, noise=1)
    found = truth_vector_context(plain, plain)
    assert found.theta.value == pytest.approx(0, abs=1e-3)
    assert found.p_ratio == 1.0
    assert found.angle == found.angle.__class__(**{**found.angle.to_json(), "value": found.angle.null})


def test_rotations_of_the_space_change_nothing():
    plain, context = turned(20, 8, degrees=40, stretch=2, noise=0.3)
    turn = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(1))).Q
    one, other = truth_vector_context(plain, context), truth_vector_context(plain @ turn, context @ turn)
    assert other.angle.value == pytest.approx(one.angle.value, abs=1e-3)
    assert other.ratio.value == pytest.approx(one.ratio.value, rel=1e-4)


def test_vectors_are_the_right_run_minus_the_wrong_one():
    model = TextModel(*tiny_model("llama"), name="tiny")
    texts, contexts = ["Water boils.", "Ice is hot."], ["Der Zug.", "A dull film."]
    found = truth_vectors(model, texts, [True, False], contexts, sites=["resid.0", "resid.1"])
    prompts = [
        f"{context}\nStatement: {text}\nTask: {task} the statement.\nAnswer: [choice"
        for text, context, tasks in zip(texts, contexts, (("support", "refute"), ("refute", "support")), strict=True)
        for task in tasks
    ]
    rows = model.capture(prompts, "resid.1", "last")["resid.1"]
    wanted = torch.stack([rows[0] - rows[1], rows[2] - rows[3]])
    assert list(map(str, found)) == ["resid.0", "resid.1"]
    torch.testing.assert_close(found[model.select("resid.1")[0]], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("labels", "contexts", "line"),
    [
        ([True], None, "2 statements, 1 labels, 2 contexts: give one each"),
        ([True, False], ["one"], "2 statements, 2 labels, 1 contexts"),
        ([True, True], None, "all true or all false: give as many of each"),
    ],
)
def test_statements_that_do_not_fit_are_refused(labels, contexts, line):
    model = TextModel(*tiny_model("llama"), name="tiny")
    with pytest.raises(ExamplesError, match=line):
        truth_vectors(model, ["Water boils.", "Ice melts."], labels, contexts)
