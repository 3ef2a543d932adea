"""What a transformer without positions knows of them: a direction, mixed from the first token's share (no paper found).

Two blocks of attention learn to name the place of every token among 32. Where the card leaves a choice: three seeds,
fresh sequences to test on, places counted behind the first token; shares of attention are means over sequences, and `k`
in 1 / (1 + k (t - 1)) is the one of least squares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from torch import Tensor

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.worlds.nope_position import Change, Network, Seen, Setting, drawn, trained, with_mean_share, without_first

ACCURATE, PLANE, SHARE, GONE = 0.9, 0.95, 0.95, 0.1  # the numbers of the rules
LAST = 1  # the upper of two blocks, where the share is judged


@dataclass(frozen=True)
class _Scale:
    """Steps of training, sequences to test on, and seeds; the network, and the larger one for one block against two."""

    steps: int
    rows: int
    seeds: int
    network: Setting
    large: Setting


FULL = _Scale(1200, 256, 3, Setting(width=32, places=32), Setting(width=48, places=48))
REDUCED = _Scale(30, 16, 2, Setting(16, 2, 8, 4), Setting(16, 2, 8, 4))


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    scale = REDUCED if reduced else FULL
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        ids = drawn(scale.network, scale.rows)
        networks = [trained(scale.network, steps=scale.steps, seed=seed) for seed in range(scale.seeds)]
        return Claim("nope-position", (*_mechanism(networks, ids, scale), _depth(scale)))


def _mechanism(networks: list[Network], ids: Tensor, scale: _Scale) -> Iterator[ClaimFigure]:
    chance = 1 / scale.network.places
    seen = [network(ids) for network in networks]
    right = mean_figure([_accuracy(one) for one in seen], f"accuracy of the place, {scale.seeds} seeds", null=chance)
    yield ClaimFigure("accuracy of the place", right, ACCURATE, "at least the baseline", right.value >= ACCURATE)
    plane = mean_figure([_plane(one) for one in seen], "variance of the mean stream of each place in two directions")
    yield ClaimFigure("trajectory in a plane", plane, PLANE, "at least the baseline", plane.value >= PLANE)
    fits = mean_figure([_share(one, LAST) for one in seen], "correlation of the share of the first token and its law")
    yield ClaimFigure("share of the first token", fits, SHARE, "at least the baseline", fits.value >= SHARE)
    yield shown("the same in the lower block", mean_figure([_share(one, 0) for one in seen], fits.how))
    content = ids.clone()
    content[:, 0] = torch.randint(1, scale.network.words + 1, (len(ids),))
    gone = mean_figure(
        [_accuracy(network(content)) for network in networks], "accuracy where the first token is a word", null=chance
    )
    yield ClaimFigure("without the first token", gone, GONE, "below the baseline", gone.value < GONE)
    for block, one in enumerate(seen[0].streams):
        values = [_decoded(found, block) for found in seen]
        norms = mean_figure([_decoded(found, block, norms=True) for found in seen], "from the length before the norm")
        yield shown(
            f"R2 of the place after block {block}, by ridge", mean_figure(values, f"width {one.shape[-1]}"), norms
        )
    changes: dict[str, Change] = {
        "attention to the first token cut in the lower block": without_first(0),
        "attention to the first token cut in the upper block": without_first(LAST),
        "the same share for all tokens in the upper block": with_mean_share(LAST),
    }
    for name, change in changes.items():
        values = [_accuracy(network(ids, change)) for network in networks]
        yield shown(f"accuracy, {name}", mean_figure(values, "accuracy of the place", null=chance), right)


def _depth(scale: _Scale) -> ClaimFigure:
    """Two blocks against one, in the larger network."""
    large = scale.large
    ids, found = drawn(large, scale.rows), []
    for blocks in (2, 1):
        setting = Setting(large.width, blocks, large.places, large.words)
        found.append(_accuracy(trained(setting, steps=scale.steps)(ids)))
    how = f"accuracy of the place among {large.places}, one seed"
    return above("two blocks against one", mean_figure(found[:1], how), mean_figure(found[1:], how))


def _accuracy(seen: Seen) -> float:
    """Share of tokens whose place is named, the first one left out."""
    named = seen.logits.argmax(-1)[:, 1:]
    return float((named == torch.arange(1, seen.logits.shape[1])).float().mean())


def _plane(seen: Seen) -> float:
    """Share of the variance of the mean normed stream of each place, that of the first token left out, in two axes."""
    means = seen.normed[-1][:, 1:].mean(0)
    values = torch.linalg.svdvals(means - means.mean(0)).square()
    return float(values[:2].sum() / values.sum())


def _share(seen: Seen, block: int) -> float:
    """Correlation of the mean attention to the first token with 1 / (1 + k (t - 1)), for the best k."""
    share = seen.patterns[block][:, 1:, 0].mean(0).double().numpy()
    steps = np.arange(1, len(share) + 1)
    best = minimize_scalar(lambda log: float(((share - 1 / (1 + np.exp(log) * steps)) ** 2).sum()), bounds=(-8, 8))
    return float(np.corrcoef(share, 1 / (1 + np.exp(best.x) * steps))[0, 1])


def _decoded(seen: Seen, block: int, *, norms: bool = False) -> float:
    """R2 of the place, by ridge fitted on half of the sequences and tested on the others."""
    rows = (seen.streams if norms else seen.normed)[block][:, 1:].double().numpy()
    rows = np.linalg.norm(rows, axis=-1, keepdims=True) if norms else rows
    places, half = np.tile(np.arange(1, rows.shape[1] + 1), (len(rows), 1)), len(rows) // 2
    known, unseen = rows[:half].reshape(-1, rows.shape[-1]), rows[half:].reshape(-1, rows.shape[-1])
    fitted = Ridge().fit(known, places[:half].ravel())
    return float(r2_score(places[half:].ravel(), fitted.predict(unseen)))
