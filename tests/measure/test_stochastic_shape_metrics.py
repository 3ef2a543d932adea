"""Distances of noisy representations."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.measure import stochastic_shape_metrics as metrics
from covec.measure.stochastic_shape_metrics import stochastic_shape_metrics


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def samples_of(means, variances, repeats=40, seed=0):
    """Samples that have exactly these means and diagonal covariances."""
    m, n = means.shape
    noise = normal(m, repeats, n, seed=seed)
    noise = noise - noise.mean(1, keepdim=True)
    basis = torch.linalg.qr(noise).Q * (repeats - 1) ** 0.5
    return means[:, None] + basis * variances.sqrt()


def distance(one, other, **given):
    return stochastic_shape_metrics(one, other, nulls=0, **given).figure.value


def test_exact():
    """Equal means, round noise against diag(4.6, 0.1, 0.1, 0.1, 0.1)."""
    means = normal(6, 5)
    one, other = (
        samples_of(means, variances) for variances in (torch.ones(5), torch.tensor([4.6, 0.1, 0.1, 0.1, 0.1]))
    )
    assert distance(one, other, alpha=2) == pytest.approx(0, abs=1e-6)
    assert distance(one, other, alpha=1) == pytest.approx(1.783, abs=1e-3)
    assert distance(one, other, alpha=0) == pytest.approx(2**0.5 * 1.783, abs=1e-3)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_a_turned_copy_is_no_distance_away(seed, alpha):
    one = normal(6, 30, 4, seed=seed) * normal(6, 1, 4, seed=seed + 1).exp() + normal(6, 1, 4, seed=seed + 2)
    turn = torch.linalg.qr(normal(4, 4, seed=seed + 3)).Q
    assert distance(one, one @ turn, alpha=alpha) < 1e-4
    assert distance(one, one @ turn, kind="energy") < 1e-4
    assert distance(one, one[..., [2, 0, 3, 1]], alpha=alpha, group="permutation") < 1e-4


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([0.5, 1.0, 2.0]))
def test_symmetric_and_no_detour_is_shorter(seed, alpha):
    a, b, c = (
        normal(6, 20, 3, seed=seed + place) * (1 + place) + normal(6, 1, 3, seed=seed + 9 + place) for place in range(3)
    )
    ab, bc, ac, ba = (distance(*pair, alpha=alpha, restarts=2) for pair in ((a, b), (b, c), (a, c), (b, a)))
    assert ab == pytest.approx(ba, rel=1e-3)
    assert ac <= ab + bc + 1e-6


def test_with_means_alone_it_is_procrustes():
    one, other = normal(8, 40, 5), normal(8, 40, 5, seed=1)
    x, y = (side.mean(1) - side.mean((0, 1)) for side in (one, other))
    wanted = x.square().sum() + y.square().sum() - 2 * torch.linalg.matrix_norm(x.T @ y, "nuc")
    assert distance(one, other, alpha=2) == pytest.approx(float((2 * wanted / 8).sqrt()), rel=1e-6)


def test_without_a_turn_it_is_the_wasserstein_distance_of_gaussians():
    """Of one stimulus it has a closed form, d^2 = |m - m'|^2 + tr(A + C - 2 (A^1/2 C A^1/2)^1/2)."""
    from scipy.linalg import sqrtm

    one, other = normal(4, 30, 3), normal(4, 30, 3, seed=1) * torch.tensor([3.0, 1.0, 0.2])
    total = 0.0
    centred = [side - side.mean((0, 1)) for side in (one, other)]
    for x, y in zip(*centred, strict=True):
        a, c = (torch.cov(side.T).numpy() for side in (x, y))
        root = sqrtm(a)
        total += float((x.mean(0) - y.mean(0)).square().sum()) + float(
            (a + c - 2 * sqrtm(root @ c @ root).real).trace()
        )
    assert distance(one, other, group="identity") == pytest.approx((total / 4) ** 0.5, rel=1e-5)


def test_noise_of_one_network_lies_at_the_null_and_of_another_above_it():
    means = normal(8, 1, 4)
    one, copy = (means + normal(8, 60, 4, seed=seed) for seed in (1, 2))
    other = means + normal(8, 60, 4, seed=3) * torch.tensor([1.9, 0.3, 0.3, 0.3])
    same, apart = (stochastic_shape_metrics(one, side, nulls=1, restarts=0) for side in (copy, other))
    assert same.figure.value == pytest.approx(same.figure.null, rel=0.2)
    assert apart.figure.value > 2 * apart.figure.null
    assert apart.held_out.value > apart.held_out.null


def test_narrower_sides_are_padded():
    one = normal(6, 30, 3)
    assert distance(one, torch.nn.functional.pad(one, (0, 2))) < 1e-4
    assert distance(torch.nn.functional.pad(one, (0, 2)), one) < 1e-4


def test_the_alternation_never_moves_away():
    one, other = (
        metrics._Shape.of(normal(6, 30, 4, seed=seed) * normal(6, 1, 4, seed=seed + 9).exp()) for seed in (1, 2)
    )
    near = metrics._align(one, other, alpha=1, group="orthogonal", restarts=0, generator=torch.Generator())
    start = metrics._nearest(other.means.T @ one.means, "orthogonal")
    assert metrics._gaussian(one, other, near, 1) <= metrics._gaussian(one, other, start, 1)
