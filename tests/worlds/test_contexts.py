"""What is turned by an angle is turned by it, and noise is as loud as it is said to be."""

import pytest
import torch

from covec.worlds.contexts import turned


@pytest.mark.parametrize(("degrees", "stretch"), [(0, 1), (30, 0.5), (90, 2), (180, 1)])
def test_without_noise_every_pair_has_the_planted_angle_and_length(degrees, stretch):
    plain, context = turned(5, 8, degrees=degrees, stretch=stretch, noise=0)
    cosines = torch.cosine_similarity(plain, context, dim=1)
    torch.testing.assert_close(torch.rad2deg(torch.arccos(cosines.clamp(-1, 1))), torch.full((5,), float(degrees)),
                               atol=0.1, rtol=0)  # fmt: skip
    torch.testing.assert_close(context.norm(dim=1), torch.full((5,), float(stretch)))


def test_noise_is_of_both_activations_of_a_pair():
    plain, _ = turned(4000, 32, degrees=0, stretch=1, noise=0.5, seed=1)
    deviations = plain - plain.mean(0)
    assert float(deviations.square().sum(1).mean().sqrt()) == pytest.approx(0.5 * 2**0.5, rel=0.02)
