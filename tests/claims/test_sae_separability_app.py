"""How the claim of separability and APP measures."""

import pytest
import torch

from covec.claims import sae_separability_app as claim
from covec.claims._sparse import sparse_dictionary


def test_the_autoencoder_rebuilds_rows_of_few_directions_and_follows_their_scale():
    generator = torch.Generator().manual_seed(0)
    directions = torch.nn.functional.normalize(torch.randn(6, 12, generator=generator), dim=1)
    rows = torch.relu(torch.randn(400, 6, generator=generator)) @ directions
    for factor in (1.0, 100.0):
        made = sparse_dictionary(factor * rows, 24, 4, 400, site="resid.0")
        codes = made.encode(factor * rows)
        left = (factor * rows - made.decode(codes)).square().sum() / (factor * (rows - rows.mean(0))).square().sum()
        assert left < 0.1
        assert (codes > 0).sum(1).max() <= 4
        assert made.directions.norm(dim=1) == pytest.approx(1, abs=1e-5)


def test_harm_is_read_at_one_loss():
    curve = [(1.0, 1.2, 0.1), (3.0, 1.6, 0.5)]
    assert claim._at(2.0, curve) == pytest.approx((1.4, 0.3))
    assert claim._at(0.5, curve) == pytest.approx((1.1, 0.05))
    assert claim._at(3.0, curve) == pytest.approx((1.6, 0.5))
