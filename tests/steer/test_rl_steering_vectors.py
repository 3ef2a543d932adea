"""Vectors trained by reward: the gradient that they follow, and what they raise."""

import numpy as np
import pytest
import torch

from covec.activations.answers import Answered
from covec.edits.objectives import PolicyGradient, Reading, sampled
from covec.edits.trainable import zero_shifts
from covec.edits.training import Settings
from covec.errors import CovecError, ExamplesError
from covec.models.text import TextModel
from covec.steer.rl_steering_vectors import RlSteeringVectors
from covec.worlds.toys import GOOD, toy

PROMPTS = ["The hotel", "A dull film: two hours", "ice melts"]


def length(_: int, text: str) -> float:
    return float(len(text))


def test_samples_are_those_of_the_seed_and_end_where_the_text_ends(tiny: TextModel) -> None:
    tokens = list(tiny.tokenize(PROMPTS))
    torch.manual_seed(1)
    state = torch.get_rng_state()
    found = sampled(tiny, tokens, [], 4, 6, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert sampled(tiny, tokens, [], 4, 6, seed=3) == found
    assert sampled(tiny, tokens, [], 4, 6, seed=4) != found
    assert len(found) == 12
    stop = tiny.module.generation_config.eos_token_id
    assert all(0 < len(ids) <= 6 and stop not in ids[:-1] for ids in found)


def test_the_loss_is_the_advantage_times_the_log_probability(tiny: TextModel) -> None:
    objective = PolicyGradient(tiny, PROMPTS, length, group=3, prompts_a_step=2, new_tokens=4)
    with torch.no_grad():
        loss = float(objective.loss([], 5))
    rows = objective.rows.of(5)
    from covec.edits.objectives import _seed

    written = sampled(tiny, [objective.tokens[row] for row in rows], [], 3, 4, seed=_seed(0, 5))
    rewards = np.array([len(tiny.tokenizer.decode(list(ids), skip_special_tokens=True)) for ids in written], float)
    total = 0.0
    for place, ids in enumerate(written):
        group = rewards[place // 3 * 3 : place // 3 * 3 + 3]
        advantage = rewards[place] - (group.sum() - rewards[place]) / 2
        answered = Answered.of_ids(tiny, [objective.tokens[rows[place // 3]]], [ids])
        with torch.no_grad():
            total -= advantage * -float(Reading(answered).read([], [0]).losses.sum())
    assert loss == pytest.approx(total / 6, rel=1e-3, abs=1e-3)
    assert objective.rewards[5] == pytest.approx(rewards.mean())


def test_equal_rewards_teach_nothing(tiny: TextModel) -> None:
    objective = PolicyGradient(tiny, PROMPTS, lambda row, text: 1.0, group=3)
    (edit,) = zero_shifts(tiny, "resid.1", PROMPTS)
    leaf = edit.shift.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective.loss([edit.with_parameters({"shift": leaf})], 0), leaf)
    assert not gradient.any()


def test_what_is_rewarded_is_written_more_often() -> None:
    made = toy(0, read=True)
    steering = RlSteeringVectors(
        "resid.1", lambda _, text: sum(word in GOOD for word in text.split()) / 8, Settings(30)
    )
    steering.fit(made.model, made.examples)

    def share(edits) -> float:
        tokens = list(made.model.tokenize(made.neutral[:16]))
        written = sampled(made.model, tokens, edits, 4, 6, seed=9)
        words = [word for ids in written for word in made.model.tokenizer.decode(list(ids)).split()]
        return float(np.mean([word in GOOD for word in words]))

    assert share(steering.edits()) > share([]) + 0.1


def test_the_words_of_the_examples_are_rewarded_where_nothing_else_is_said() -> None:
    made = toy(0, read=True, texts=24)
    steering = RlSteeringVectors("resid.1", settings=Settings(2), group=4).fit(made.model, made.examples)
    (vector,) = steering.vectors.values()
    assert [str(site) for site in vector.sites] == ["resid.1"]
    assert steering.edits(0.0) == ()


def test_what_cannot_be_done_is_told_in_one_line(tiny: TextModel) -> None:
    with pytest.raises(ExamplesError, match="group of 2 at least, not 1"):
        PolicyGradient(tiny, PROMPTS, length, group=1)
    with pytest.raises(CovecError, match="not fitted"):
        RlSteeringVectors().edits()
