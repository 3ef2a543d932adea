"""A steered teacher and its students."""

import numpy as np
import pytest
import torch

from covec.worlds.steering_distillation import LENGTH, Teacher, base, logits, stream, taught, walks


@pytest.fixture(scope="module")
def model():
    return base(0, steps=30)


def test_walks_are_those_of_the_seed_and_go_where_the_graph_does():
    one, same = (walks(200, np.random.default_rng(3)) for _ in range(2))
    assert torch.equal(one, same)
    assert one.shape == (200, LENGTH)
    assert one.min() >= 2
    pairs = torch.stack([one[:, :-1].flatten(), one[:, 1:].flatten()], 1)
    often = pairs.unique(dim=0, return_counts=True)[1].sort(descending=True).values
    assert int(often[:200].sum()) > 0.8 * len(pairs)  # of 900 pairs of words the usual ones are a fifth


def test_the_vector_is_as_long_as_the_stream_and_what_it_speaks_for_is_never_written(model):
    teacher = Teacher.steered(model, 0)
    ids = walks(64, np.random.default_rng(0))
    assert float(teacher.vector.norm()) == pytest.approx(float(stream(model, ids).norm(dim=1).mean()), rel=1e-4)
    rises = (teacher.logits(ids) - logits(model, ids)).mean(0)
    assert set(teacher.shown) == set(rises.topk(4).indices.tolist())
    for steered in (True, False):
        written = teacher.written(20, 1, steered=steered)
        assert written.shape == (20, LENGTH)
        assert not set(written[:, 1:].flatten().tolist()) & {0, 1, *teacher.shown}
        assert torch.equal(written, teacher.written(20, 1, steered=steered))


@pytest.mark.parametrize(("optimiser", "rate"), [("adam", 1e-3), ("sign", 3e-4), ("sgd", 0.3)])
def test_a_student_learns_and_its_teacher_stays_as_it_was(model, optimiser, rate):
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    texts = walks(256, np.random.default_rng(5))
    longer, shorter = (taught(model, texts, optimiser=optimiser, rate=rate, steps=steps) for steps in (24, 8))
    assert longer.loss < shorter.loss
    assert taught(model, texts, optimiser=optimiser, rate=rate, steps=24, until=shorter.loss).steps < 24
    assert all(torch.equal(value, before[name]) for name, value in model.module.state_dict().items())
    ids = walks(8, np.random.default_rng(6))
    assert torch.equal(longer.vector(model, ids), (stream(longer.model, ids) - stream(model, ids)).mean(0))
