"""A target leans to the reference that it shares a direction with."""

import pytest
import torch
from sklearn.linear_model import LogisticRegression

from covec.errors import ExamplesError
from covec.measure.biaslens import biaslens, concept_changes

WIDTH = 12


def texts(direction, count=80, seed=0):
    return 0.7 * torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed)) + 3 * direction


@pytest.fixture(scope="module")
def rows():
    axes = torch.eye(WIDTH)
    return {
        "nearer": texts((axes[0] + axes[2]) / 2**0.5, seed=1),
        "farther": texts((axes[1] + axes[2]) / 2**0.5, seed=2),
        "first": texts(axes[0], seed=3),
        "second": texts(axes[1], seed=4),
        "others": texts(0 * axes[0], seed=5),
    }


def test_targets_lean_where_they_were_put(rows):
    found = biaslens({name: rows[name] for name in ("nearer", "farther")}, rows["first"], rows["second"],
                     rows["others"], permutations=19)  # fmt: skip
    nearer, farther = (found.targets[name] for name in ("nearer", "farther"))
    assert nearer.lean.low > 0 > farther.lean.high
    for one in (nearer, farther):
        assert one.amount.value == pytest.approx(abs(one.lean.value))
        assert one.amount.value > one.amount.null
        assert one.p == pytest.approx(0.05)
        assert one.lean.value == pytest.approx(one.cosines[0] - one.cosines[1])
    assert nearer.features[0] == 0
    assert farther.features[0] == 1
    assert found.figure.value == pytest.approx((nearer.amount.value + farther.amount.value) / 2)
    assert all(accuracy > 0.95 for accuracy in found.accuracy.values())
    assert set(found.accuracy) == {"nearer", "farther", "first reference", "second reference"}


def test_without_an_autoencoder_a_concept_is_the_direction_of_scikit_learns_probe(rows):
    having, lacking = rows["first"], rows["others"]
    X = torch.cat([having, lacking]).double()
    deviation = X.std(0)
    probe = LogisticRegression(max_iter=1000).fit(((X - X.mean(0)) / deviation).numpy(), [1] * 80 + [0] * 80)
    wanted = torch.nn.functional.normalize(torch.from_numpy(probe.coef_[0]) / deviation, dim=0)
    torch.testing.assert_close(concept_changes(having, lacking), wanted[None])


def test_every_uncertain_activation_is_moved_until_the_probe_is_certain(rows):
    seen = []

    def encode(given):
        seen.append(given)
        return given

    found = concept_changes(rows["first"], rows["others"], encode)
    moved, plain = seen
    assert len(found) == len(moved) == len(plain) <= 160
    direction = concept_changes(rows["first"], rows["others"])[0]
    torch.testing.assert_close(found, direction.expand_as(found), atol=1e-4, rtol=1e-3)
    along = moved.double() @ direction
    torch.testing.assert_close(along, along[:1].expand_as(along), atol=1e-4, rtol=1e-4)


def test_the_scale_of_the_model_does_not_matter(rows):
    one, other = (
        biaslens({"t": scale * rows["nearer"]}, *(scale * rows[name] for name in ("first", "second", "others")),
                 permutations=3, draws=2)
        for scale in (1.0, 100.0)
    )  # fmt: skip
    assert other.targets["t"].lean.value == pytest.approx(one.targets["t"].lean.value, abs=1e-4)


def test_what_cannot_be_measured_is_refused(rows):
    references = rows["first"], rows["second"], rows["others"]
    with pytest.raises(ExamplesError, match="there is no target"):
        biaslens({}, *references)
    with pytest.raises(ExamplesError, match=r"t has rows of shape \[80, 3\]: give \[n, 12\], of 10 texts at least"):
        biaslens({"t": rows["nearer"][:, :3]}, *references)
    with pytest.raises(ExamplesError, match="0 permutations, 40 draws: a null needs one"):
        biaslens({"t": rows["nearer"]}, *references, permutations=0)
    with pytest.raises(ExamplesError, match="a target cannot be called 'other texts'"):
        biaslens({"other texts": rows["nearer"]}, *references)
