"""A small sparse autoencoder, trained in seconds: enough to give codes where a claim needs some."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from covec.measure.biaslens import Encode

RATE, SPARSITY, ROWS = 1e-3, 0.03, 256


def sparse_encoder(rows: Float[Tensor, "n d"], codes: int, *, steps: int, seed: int = 0) -> Encode:
    """The encoder of `codes` rectified features, trained to rebuild `rows` with few of them at work.

    Rows are centred and brought to a mean square of 1 a feature, so that the penalty means the same everywhere.
    """
    generator = torch.Generator().manual_seed(seed)
    centre = rows.mean(0)
    unit = (rows - centre).square().mean().sqrt()
    encoder = torch.randn(codes, rows.shape[1], generator=generator) / rows.shape[1] ** 0.5
    weights = [encoder, torch.zeros(codes), encoder.T.clone()]
    for weight in weights:
        weight.requires_grad_()
    optimiser = torch.optim.Adam(weights, lr=RATE)
    for _ in range(steps):
        batch = (rows[torch.randint(len(rows), (ROWS,), generator=generator)] - centre) / unit
        active = torch.relu(batch @ weights[0].T + weights[1])
        lengths = weights[2].norm(dim=0)  # else codes could shrink while what they write grows
        loss = (active @ weights[2].T - batch).square().sum(1).mean() + SPARSITY * (active * lengths).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    down, bias = weights[0].detach(), weights[1].detach()
    return lambda given: torch.relu((given - centre) / unit @ down.T + bias)
