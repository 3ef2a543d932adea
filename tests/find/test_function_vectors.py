from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from covec.activations.answers import Answered
from covec.activations.heads import head_write
from covec.concepts.demonstrations import demonstrations, question
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Ablate, Add
from covec.errors import CovecError, ExamplesError, ModelError
from covec.find._mediation import Mediation
from covec.find.function_vectors import FunctionVectors, function_vector, mediation
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.worlds.toys import Toy, toy
from covec.worlds.word_tasks import word_pairs
from tiny import tiny_model

LAST = Position("last")


@pytest.fixture(scope="module")
def world() -> Toy:
    """The toy in which the first head of block 1 turns the concept into good words, with such a word as the answer."""
    made = toy(read=True, texts=24)
    asked = tuple(f"good{row % 6}" for row in range(len(made.examples)))
    return replace(made, examples=replace(made.examples, extra={"task": asked}))


def unpaired(pairs: list[tuple[str, str]], prompts: int) -> Examples:
    """Prompts that count whether or not the model answers them."""
    return replace(demonstrations(pairs, shots=2, prompts=prompts), pairs=None)


def test_the_head_that_writes_the_answer_is_found(world: Toy) -> None:
    """By the gradient and by patching, far before all others."""
    found = mediation(world.model, world.examples, confirmed=8)
    assert found.heads[found.top(1)[0]] == Site("head", 1, 0)
    assert int(found.estimates.argmax()) == found.top(1)[0]
    others = found.effects[[place for place in range(8) if place not in found.top(1)]]
    assert float(found.effects.max()) > 20 * float(others.abs().max())


def test_its_vector_makes_the_answers_likely(world: Toy) -> None:
    vector = function_vector(world.model, world.examples, "resid.1")
    assert (vector.scale_from, vector.write_position, vector.method) == ("native", LAST, "function-vectors")
    assert vector.scale == pytest.approx(float(vector.write.norm()), rel=1e-5)
    asked = Answered.of(world.model, world.neutral[:6], [f"good{place}" for place in range(6)])
    before = asked.outcome().log_probability
    with world.model.edit(vector.add()):
        assert (asked.outcome().log_probability > before + 0.5).all()


def test_effects_are_what_comes_of_the_mean_in_the_head_s_place() -> None:
    """With answers of several tokens, and whole texts run in a scope in which the head gives just that."""
    model = TextModel(*tiny_model("llama"))
    examples = unpaired([(word, f"{word} and {word}") for word in ("one", "two", "clean", "dull", "eight")], 4)
    found = mediation(model, examples, prompts=4, confirmed=16)
    clean = model.capture(examples.positive, "head.*", "last")
    asked = Answered.of(model, examples.negative, examples.extra["task"][1::2])
    assert max(map(len, asked.answers)) > 3
    before = asked.outcome().log_probability.exp()
    for place, head in enumerate(found.heads):
        mean = clean[head].mean(0)
        width = len(mean)
        give = (
            Ablate(site=head, position=LAST, directions=torch.eye(width), targets=torch.zeros(width)),
            Add(site=head, position=LAST, shift=mean),
        )
        with model.edit(give):
            wanted = (asked.outcome().log_probability.exp() - before).mean()
        assert float(found.effects[place]) == pytest.approx(float(wanted), rel=1e-3, abs=1e-9)
        torch.testing.assert_close(found.writes[place], head_write(model, head, mean[None])[0], rtol=1e-4, atol=1e-5)


def test_heads_are_ranked_by_effects_and_then_by_estimates() -> None:
    heads = tuple(Site("head", 0, head) for head in range(40))
    effects, estimates = torch.full((40,), torch.nan), torch.arange(40.0)
    effects[[3, 5]] = torch.tensor([0.1, 0.2])
    found = Mediation(heads, torch.eye(40), estimates, effects)
    assert found.top(4) == (5, 3, 39, 38)
    assert found.top(12) == (5, 3, 39, 38)  # a tenth of all
    assert torch.equal(found.vector(2), torch.eye(40)[3] + torch.eye(40)[5])
    with pytest.raises(ExamplesError, match="0 heads is none"):
        found.top(0)


def test_only_prompts_that_are_answered_as_wanted_count(world: Toy) -> None:
    """And their twins: others say nothing of the function."""
    pairs = tuple(str(row % 24) for row in range(48))
    examples = replace(world.examples, pairs=pairs)
    whole = Answered.of(world.model, examples.inputs, examples.extra["task"])
    right = whole.outcome().greedy.numpy() & examples.labels
    assert 0 < right.sum() < 24
    kept = np.flatnonzero(right)
    alone = examples.subset([*kept, *(kept + 24)])
    one, other = mediation(world.model, examples, prompts=48), mediation(world.model, alone, prompts=48)
    torch.testing.assert_close(one.writes, other.writes)
    torch.testing.assert_close(one.effects, other.effects, equal_nan=True)


def test_a_fit_points_along_the_function_vector(world: Toy) -> None:
    finder = FunctionVectors().fit_model(world.model, world.examples, "resid.1")
    wanted = mediation(world.model, world.examples).vector(12)
    assert abs(float(finder.direction_ @ wanted / wanted.norm())) == pytest.approx(1, abs=1e-5)
    assert isinstance(function_vector(world.model, world.examples, "resid.0"), ConceptVector)


def test_heads_are_asked_once_for_all_sites_and_again_for_other_examples(
    world: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a study asks: for a few sites at a time, of one finder."""
    asked: list[Examples] = []

    def counted(model: TextModel, examples: Examples, **settings: int) -> Mediation:
        asked.append(examples)
        return mediation(model, examples, **settings)

    monkeypatch.setattr("covec.find.function_vectors.mediation", counted)
    finder, columns = FunctionVectors(), {"inputs": world.examples.inputs, "task": world.examples.extra["task"]}
    rows = world.model.capture(world.examples.inputs, "resid.*")
    for site in rows.sites:
        finder.at(world.model, (site,)).fit_many(rows[site][None], world.examples.labels, **columns)
    assert len(asked) == 1
    finder.fit_many(rows[rows.sites[0]][None], ~world.examples.labels, **columns)
    assert len(asked) == 2


def test_no_example_but_a_vector_makes_the_embedded_model_do_a_task(smol: TextModel) -> None:
    pairs = word_pairs("present-past")
    vector = function_vector(smol, demonstrations(pairs[::3], prompts=6, name="past"), "resid.14", prompts=4)
    asked = Answered.of(smol, [question(word) for word, _ in pairs[1:40:3]], [answer for _, answer in pairs[1:40:3]])
    plain = asked.outcome()
    with smol.edit(vector.add(2)):
        moved = asked.outcome()
    assert plain.greedy.float().mean() < 0.1
    assert moved.greedy.float().mean() > plain.greedy.float().mean() + 0.2
    assert moved.log_probability.mean() > plain.log_probability.mean() + 2


def test_bad_input(world: Toy) -> None:
    examples = world.examples

    def given(*answers: object) -> Examples:
        return replace(examples, extra={"task": (answers * len(examples))[: len(examples)]})

    cases: list[tuple[Examples, type[CovecError], str]] = [
        (given("good1", ""), ExamplesError, "row 2 has no answer"),
        (given("good1", 3), ExamplesError, "row 2 has no answer"),
        (replace(examples, extra={}), ExamplesError, "needs task of each row"),
        (
            replace(given("bad2 word9 good3 bad1"), pairs=tuple(str(row % 24) for row in range(48))),
            ExamplesError,
            "to none of the prompts",
        ),
    ]
    for bad, kind, words in cases:
        with pytest.raises(kind, match=words):
            FunctionVectors().fit_model(world.model, bad, "resid.0")
    with pytest.raises(ExamplesError, match="reads a model: call fit_model"):
        FunctionVectors().fit(np.eye(4), [0, 1, 0, 1], inputs=["a"] * 4, task=["b"] * 4)
    with pytest.raises(ExamplesError, match="1 or more that show none"):
        mediation(world.model, examples.subset(range(24)))
    with pytest.raises(ExamplesError, match="1 or more that show none"):
        mediation(world.model, examples, prompts=0)
    with pytest.raises(ModelError, match=r"no site 'head\.9"):
        world.model.select("head.9.0")


def test_the_heads_are_read_again_where_the_model_has_changed() -> None:
    module, tokenizer = tiny_model("gpt2")
    model, pairs = TextModel(module, tokenizer), [("hot", "cold"), ("big", "small"), ("old", "new"), ("up", "down")]
    examples, finder = unpaired(pairs, 4), FunctionVectors(heads=1)
    before = finder.fit_model(model, examples, "resid.1").direction_
    with torch.no_grad():
        for block in module.transformer.h:
            block.attn.c_proj.weight.neg_()
    after = finder.fit_model(model, examples, "resid.1").direction_
    torch.testing.assert_close(after, FunctionVectors(heads=1).fit_model(model, examples, "resid.1").direction_)
    assert not torch.allclose(before, after)
