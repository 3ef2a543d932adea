"""SCAV: probes with their own probabilities, and edits that reach a probability and go no further."""

import math

import numpy as np
import pytest
import torch

from covec.concepts.examples import Examples
from covec.edits.algebra import ToProbability
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.steer._probes import calibrated, probe
from covec.steer.scav import Scav
from covec.worlds.toys import toy


@pytest.fixture(scope="module")
def world():
    return toy(0, read=True)


@pytest.fixture(scope="module")
def fitted(world):
    return Scav(reliable=0.6, inverse_ridge=0.1).fit(world.model, world.examples)


def test_a_probe_is_that_of_scikit_learn_on_standardised_rows():
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X, y = rng.normal(3, [1, 5, 20], (60, 3)), rng.random(60) < 0.5
    w, b = probe(torch.from_numpy(X), y, 1.0)
    scaler = StandardScaler().fit(X)
    peer = LogisticRegression(max_iter=1000).fit(scaler.transform(X), y)
    assert np.allclose(X @ w.numpy() + b, peer.decision_function(scaler.transform(X)), atol=1e-9)


def test_a_vector_gives_the_probability_of_its_probe_and_fires_where_that_exceeds_a_half():
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(80, 6, generator=generator), np.arange(80) % 2 == 0
    X[y] += 0.7
    w, b = probe(X, y, 1.0)
    vector = calibrated("c", "resid.0", w, b, X[y].mean(0), X[~y].mean(0), model={})
    scores, logits = vector.score(X), X.double() @ w + b
    assert torch.allclose(vector.probability(scores).double(), torch.sigmoid(logits), atol=1e-5)
    assert torch.equal(scores > vector.threshold, logits > 0)


def test_every_block_has_a_vector_with_its_held_out_accuracy(world, fitted):
    assert [str(vector.site) for vector in fitted.vectors.values()] == ["resid.0", "resid.1"]
    for vector in fitted.vectors.values():
        assert vector.method == "scav"
        assert vector.figures["accuracy"].n == pytest.approx(0.4 * len(world.examples), rel=0.25)
    assert all(vector.figures["accuracy"].value > 0.6 for vector in fitted.trusted())


@pytest.mark.parametrize("strength", [1.0, -1.0, 0.5])
def test_edits_reach_the_probability_and_leave_alone_what_has_it(world, fitted, strength):
    wanted = strength * math.log(0.999 / 0.001)
    for edit, vector in zip(fitted.edits(strength), fitted.trusted(), strict=True):
        assert isinstance(edit, ToProbability)
        assert str(edit.position) == "last+generated/none"
        before = world.model.capture(world.examples.inputs, [vector.site], "last")[vector.site]
        after = edit.apply(before, None)
        slope, offset = vector.calibration
        logits = [slope * vector.score(rows) + offset for rows in (before, after)]
        moves = logits[0] < wanted if strength > 0 else logits[0] > wanted
        assert moves.any()
        assert torch.allclose(logits[1][moves], torch.full_like(logits[1][moves], wanted), atol=1e-3)
        assert torch.equal(after[~moves], before[~moves])


def test_the_shift_is_the_smallest_that_reaches_the_probability(world, fitted):
    """Along the difference of means, or any other direction, the same probability asks for a longer shift."""
    for edit, vector in zip(fitted.edits(1.0), fitted.trusted(), strict=True):
        before = world.model.capture(world.examples.inputs, [vector.site], "last")[vector.site]
        step = (edit.apply(before, None) - before).norm(dim=1)
        other = torch.nn.functional.normalize(vector.write, dim=0)
        longer = step / (other @ vector.direction)
        assert (longer >= step).all()
        assert (longer > step).any()


def test_higher_blocks_see_what_lower_ones_did(world, fitted):
    texts, last = world.examples.negative[:8], fitted.trusted()[-1]
    with world.model.edit(*fitted.edits(1.0)):
        probability = last.probability(last.score(world.model.capture(texts, [last.site], "last")[last.site]))
    assert torch.allclose(probability, torch.tensor(0.999), atol=1e-4) or (probability >= 0.999 - 1e-4).all()
    assert world.model.generate(texts[:2], edits=[fitted.edits(1.0), ()], max_new_tokens=3)[0]


def test_a_split_column_says_which_rows_train(world):
    parts = tuple(np.array(["train", "validation", "test"])[np.arange(len(world.examples)) % 3])
    examples = Examples(world.examples.inputs, world.examples.labels, splits=parts, name="c")
    vector = next(iter(Scav(sites="resid.0").fit(world.model, examples).vectors.values()))
    assert vector.figures["accuracy"].n == sum(part != "train" for part in parts)


def test_what_cannot_be_done_is_told_in_one_line(world, fitted):
    assert fitted.edits(0.0) == ()
    with pytest.raises(CovecError, match="not fitted"):
        Scav().edits()
    with pytest.raises(CovecError, match="between 0.5 and 1, not 0.2"):
        Scav(probability=0.2).fit(world.model, world.examples)
    with pytest.raises(CovecError, match="finite number, not nan"):
        fitted.edits(math.nan)
    strict = Scav(reliable=1.0)
    strict.vectors = fitted.vectors
    with pytest.raises(CovecError, match="no probe is right on more than 100%"):
        strict.edits()


def test_any_family_can_be_probed(tiny: TextModel):
    words = ["Bread", "Water", "Stone", "Grass", "Light", "Night", "Paper", "Cloud", "River", "House"]
    examples = Examples.from_lists([f"{word} is good!" for word in words], [f"{word} is bad." for word in words])
    steering = Scav(reliable=0.4).fit(tiny, examples)
    assert len(steering.vectors) == tiny.blocks
    assert len(tiny.generate(["Bread"], edits=[steering.edits()], max_new_tokens=2)) == 1
