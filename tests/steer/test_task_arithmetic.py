"""Task vectors: one strength on validation, or a learned coefficient a tensor."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from covec.concepts.vector import ConceptVector
from covec.concepts.weights import combined
from covec.edits.weights import patch_weights
from covec.errors import CovecError
from covec.steer.atlas import Atlas
from covec.steer.task_arithmetic import TaskArithmetic


@pytest.fixture
def made():
    """A network of two maps, and for each of them what leads to a target when it alone is moved."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        base = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3)).requires_grad_(False)
        vectors = []
        for place in (0, 1):
            tuned = copy.deepcopy(base)
            tuned[place].weight += torch.randn_like(tuned[place].weight)
            vectors.append(ConceptVector.from_models(base, tuned, f"task {place}"))
        inputs = torch.randn(64, 6)
    return base, vectors, inputs


def target(base, weighted, inputs):
    with patch_weights(base, combined("target", *weighted)):
        return base(inputs)


def test_the_strength_that_makes_the_target_is_found(made):
    base, (vector, _), inputs = made
    wanted, before = target(base, [(0.35, vector)], inputs), [one.clone() for one in base.parameters()]
    found = TaskArithmetic().fit(base, vector, lambda: -float(mse_loss(base(inputs), wanted)))
    assert found.strength == 0.35
    assert len(found.scores) == 21
    with patch_weights(base, found.vector):
        torch.testing.assert_close(base(inputs), wanted)
    assert all(torch.equal(one, other) for one, other in zip(base.parameters(), before, strict=True))


def test_with_a_control_it_is_the_largest_strength_that_keeps_it(made):
    base, (vector, _), inputs = made
    kept = base(inputs)

    reach = [0.0, 0.1, 0.2, 0.3, 0.5]
    with pytest.raises(CovecError, match="no strength"):
        TaskArithmetic(reach).fit(base, vector, lambda: 0.0, lambda: float(torch.equal(base(inputs), kept)))
    limit = float(mse_loss(target(base, [(0.4, vector)], inputs), kept))
    found = TaskArithmetic(reach).fit(base, vector, lambda: 0.0, lambda: float(mse_loss(base(inputs), kept) < limit))
    assert found.strength == 0.3


def test_coefficients_by_tensor_reach_what_one_strength_cannot(made):
    base, vectors, inputs = made
    wanted = target(base, [(0.8, vectors[0]), (0.2, vectors[1])], inputs)
    found = Atlas(steps=200, rate=0.05).fit(
        base,
        vectors,
        lambda call, _: mse_loss(call(inputs), wanted),
        lambda call: -float(mse_loss(call(inputs), wanted)),
    )
    assert found.tensors == ("0.weight", "1.weight")
    torch.testing.assert_close(found.coefficients, torch.tensor([[0.8, 0.0], [0.0, 0.2]]), rtol=0, atol=2e-2)
    with patch_weights(base, found.vector):
        torch.testing.assert_close(base(inputs), wanted, rtol=0, atol=5e-2)
    search = TaskArithmetic().fit(
        base, combined("sum", *((1, one) for one in vectors)), lambda: -float(mse_loss(base(inputs), wanted))
    )
    assert max(search.scores.values()) < -float(mse_loss(wanted, wanted)) - 0.01


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_fit_gives_the_same_bits(made, seed):
    base, vectors, inputs = made
    torch.manual_seed(seed)
    wanted = target(base, [(0.8, vectors[0])], inputs)

    def fit():
        return Atlas(steps=20).fit(
            base,
            vectors,
            lambda call, _: mse_loss(call(inputs), wanted),
            lambda call: -float(mse_loss(call(inputs), wanted)),
        )

    assert fit().vector.identical(fit().vector)


def test_bad_input_is_refused_in_a_line(made):
    base, vectors, inputs = made
    direction = ConceptVector.from_direction("d", "resid.1", torch.ones(4), scale=1.0, scale_from="native")

    def nothing(*_):
        return 0.0

    def loss(call, _):
        return call(inputs).square().mean()

    for wrong in (
        lambda: TaskArithmetic((0.0,)).fit(base, vectors[0], nothing),
        lambda: TaskArithmetic().fit(base, direction, nothing),
        lambda: Atlas().fit(base, [], loss, nothing),
        lambda: Atlas().fit(base, [direction], loss, nothing),
        lambda: Atlas().fit(base[0], vectors, loss, nothing),
        lambda: Atlas(steps=2).fit(base, vectors, loss, nothing),
    ):
        with pytest.raises(CovecError) as caught:
            wrong()
        assert "\n" not in str(caught.value)
