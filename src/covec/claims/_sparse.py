"""A small sparse autoencoder of the top-k kind, trained in a minute: a dictionary where a claim needs one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from covec.concepts.dictionary import Dictionary, Gated
from covec.models.sites import Site

_ROWS, _RATE = 256, 1e-3


def sparse_dictionary(
    rows: Float[Tensor, "n d"], codes: int, keep: int, steps: int, *, site: str | Site, seed: int = 0
) -> Dictionary:
    """`codes` directions of unit length, of which `keep` rebuild each row; rows that are read are centred.

    Rows are brought to a mean square of 1 a feature for the training, and the encoder is scaled back, so that codes are
    in units of the activations.
    """
    generator, centre = torch.Generator().manual_seed(seed), rows.mean(0)
    size = (rows - centre).square().mean().sqrt()
    decoder = torch.nn.functional.normalize(torch.randn(codes, rows.shape[1], generator=generator), dim=1)
    encoder, bias = decoder.T.clone(), torch.zeros(codes)
    weights = [weight.requires_grad_() for weight in (encoder, bias, decoder)]
    optimiser = torch.optim.Adam(weights, lr=_RATE)
    for _ in range(steps):
        batch = (rows[torch.randint(len(rows), (_ROWS,), generator=generator)] - centre) / size
        active = Gated(encoder, bias, keep=keep)(batch)
        loss = (active @ decoder - batch).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            decoder /= decoder.norm(dim=1, keepdim=True)
    rule = Gated(encoder.detach(), size * bias.detach(), keep=keep, shift=centre)
    return Dictionary(decoder.detach(), rule, centre, Site.parse(site), "top-k autoencoder")
