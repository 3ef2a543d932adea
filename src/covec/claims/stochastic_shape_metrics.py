"""The claim of stochastic shape metrics: noise tells networks apart that means do not (arXiv:2211.11665).

Gaussians of which the distances are known; triples of random networks, of which no detour may be shorter; and small
networks trained with dropout at four rates, three seeds each, whose rate the nearest network is to have too.

The card trains on a world of shapes; here it is scikit-learn's handwritten digits. No two networks begin alike. They
have ten units in the layer that is read, and dropout stays on while it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import torch
from jaxtyping import Float
from sklearn.datasets import load_digits
from torch import Tensor, nn

from covec.claims import Claim, ClaimFigure
from covec.claims._clock import one_thread
from covec.claims._figures import above, shown
from covec.measure.stochastic_shape_metrics import stochastic_shape_metrics
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson

ZERO, TURNED, KNOWN = 1e-6, 1e-4, 1.78  # the numbers of the rules
RATES = (0.1, 0.25, 0.4, 0.6)
UNITS = 10


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    triples: int = 60
    seeds: int = 3
    steps: int = 600
    stimuli: int = 40
    repeats: int = 60


REDUCED = _Setting(2, 2, 5, 6, 14)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    with one_thread():
        figures = (*_known(), _triangles(setting.triples), *_rates(setting))
    return Claim("stochastic-shape-metrics", figures)


def _distance(one: Tensor, other: Tensor, **given: float) -> float:
    return stochastic_shape_metrics(one, other, nulls=0, **given).figure.value


def _known() -> Iterator[ClaimFigure]:
    """Equal means with round and with drawn-out noise, and a turned copy."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(6, 5, generator=generator).double()
    variances = torch.ones(5), torch.tensor([4.6, 0.1, 0.1, 0.1, 0.1])
    one, other = (_samples(means, each.double(), generator) for each in variances)
    alone, both = (_distance(one, other, alpha=alpha) for alpha in (2.0, 1.0))
    figure = Figure(alone, n=6, how="alpha 2, equal means, other noise")
    yield ClaimFigure("distance of the means", figure, ZERO, "at most the baseline", alone <= ZERO)
    figure = Figure(both, n=6, how="alpha 1, the same pair")
    yield ClaimFigure("distance with the noise", figure, KNOWN, "within 0.01 of it", abs(both - KNOWN) <= 0.01)
    turn = torch.linalg.qr(torch.randn(5, 5, generator=generator).double()).Q
    worst = max(_distance(other, other @ turn, alpha=alpha) for alpha in (0.0, 0.5, 1.0, 1.5, 2.0))
    figure = Figure(worst, n=6, how="the largest of alpha 0, 0.5, 1, 1.5 and 2")
    yield ClaimFigure("distance of a turned copy", figure, TURNED, "below the baseline", worst < TURNED)


def _samples(means: Float[Tensor, "m n"], variances: Float[Tensor, "n"], generator: torch.Generator) -> Tensor:
    """Samples that have exactly these means and diagonal covariances."""
    noise = torch.randn(len(means), 40, means.shape[1], generator=generator).double()
    basis = torch.linalg.qr(noise - noise.mean(1, keepdim=True)).Q
    return means[:, None] + basis * (39 * variances).sqrt()


def _triangles(triples: int) -> ClaimFigure:
    """Three random networks at a time, six stimuli and three units each."""
    generator, violated = torch.Generator().manual_seed(1), 0
    for _ in range(triples):
        sides = [
            torch.randn(6, 12, 3, generator=generator).double() * torch.rand(6, 1, 3, generator=generator).double() * 3
            + torch.randn(6, 1, 3, generator=generator).double()
            for _ in range(3)
        ]
        far = {pair: _distance(sides[pair[0]], sides[pair[1]]) for pair in combinations(range(3), 2)}
        lengths = {frozenset(pair): value for pair, value in far.items()}
        violated += any(
            lengths[frozenset((a, c))] > lengths[frozenset((a, b))] + lengths[frozenset((b, c))] + 1e-9
            for a, b, c in permutations(range(3))
        )
    figure = Figure(float(violated), n=triples, how="triples with a detour that is shorter, alpha 1")
    return ClaimFigure("triangle inequality", figure, 0.0, "none", violated == 0)


def _rates(setting: _Setting) -> Iterator[ClaimFigure]:
    """Whether the network nearest to each was trained with the same rate of dropout."""
    digits = load_digits()
    X, y = torch.from_numpy(digits.data / 16).float(), torch.from_numpy(digits.target)
    known, stimuli = torch.arange(len(X)) >= setting.stimuli, X[: setting.stimuli]
    trained = []
    for number, rate in enumerate(np.repeat(RATES, setting.seeds).tolist()):
        network = _network(X[known], y[known], rate, number, setting.steps)
        trained.append((rate, _responses(network, stimuli, setting.repeats, number)))
    names = np.array([rate for rate, _ in trained])
    found = {}
    for alpha in (1.0, 2.0):
        far = np.full((len(trained), len(trained)), np.inf)
        for i, j in combinations(range(len(trained)), 2):
            far[i, j] = far[j, i] = _distance(trained[i][1], trained[j][1], alpha=alpha, restarts=0)
        found[alpha] = float((names[far.argmin(1)] == names).mean())
    chance = (setting.seeds - 1) / (len(trained) - 1)
    figures = {
        alpha: Figure(
            share, *wilson(share, len(trained)), chance, len(trained), f"nearest of the others, alpha {alpha:g}"
        )
        for alpha, share in found.items()
    }
    yield above("networks whose nearest has the same rate of dropout", figures[1.0], figures[2.0])
    yield shown("the same, of chance", figures[1.0], chance)


def _network(X: Float[Tensor, "n d"], y: Tensor, rate: float, seed: int, steps: int) -> nn.Sequential:
    """A classifier of digits, trained with dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Linear(64, 64), nn.ReLU(), nn.Dropout(rate), nn.Linear(64, UNITS), nn.Tanh(), nn.Linear(UNITS, 10)
        )
        optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
        for _ in range(steps):
            rows = torch.randint(len(X), (128,))
            loss = nn.functional.cross_entropy(network(X[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


def _responses(network: nn.Sequential, stimuli: Tensor, repeats: int, seed: int) -> Float[Tensor, "m r units"]:
    """What the layer of few units gives, again and again, with dropout on."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1000 + seed)
        return torch.stack([network[:5](stimuli) for _ in range(repeats)], 1).double()
