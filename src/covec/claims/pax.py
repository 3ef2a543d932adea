"""PaX's claim: an answer can be split into what is said and where it stands, which other attributions mix.

A small transformer, trained to give the sum of the weights of words times the gains of their places. The scores of
tokens are held against the weights, and those of places against the gains, by rank; plain Shapley values and RISE,
which leave all words where they are, against the weights, too. The card's second world, images, waits for vision
models.

Where the card leaves a choice: texts of eight different words; gains that fall by three tenths from place to place; as
many masks a token for all attributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.explain import Target
from covec.explain.pax import PaX
from covec.models.tokens import Tokenized
from covec.statistics.figure import Figure
from covec.worlds.weighted_places import BLANK, GAINS, NO, PLACES, WEIGHTS, YES, World, world

ENOUGH = 0.8  # the number of the rules


@dataclass(frozen=True)
class _Setting:
    """Steps of training, texts, and rounds of the explanations."""

    steps: int = 800
    texts: int = 12
    rounds: int = 8


REDUCED = _Setting(steps=60, texts=3, rounds=2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    made = world(setting.steps, setting.texts)
    return Claim("pax", tuple(_figures(made, setting)))


def _figures(made: World, setting: _Setting) -> Iterator[ClaimFigure]:
    split, target = Split(made.model, "embed"), Target.of(made.model, {YES: 1.0, NO: -1.0})
    found = PaX(rounds=setting.rounds, baseline=BLANK).explain(split, (), made.texts, target)
    words = [text.split() for text in made.texts]
    weights = [[WEIGHTS[word] for word in row] for row in words]
    features = [_ranks([one.value for one in row.features], truth) for row, truth in zip(found, weights, strict=True)]
    positions = [_ranks([one.value for one in row.positions], GAINS) for row in found]
    plain: dict[str, list[float]] = {"shapley": [], "rise": []}
    for item, truth in zip(made.model.tokenize(made.texts), weights, strict=True):
        for name, scores in _in_place(split, item, target, setting.rounds * PLACES).items():
            plain[name].append(_ranks(scores, truth))
    yield shown("what training left", Figure(made.error, null=1.0, n=512, how="share of the variance of the sum"))
    how = f"Spearman's rank correlation, mean over {len(words)} texts"
    own, places = mean_figure(features, how, null=0.0), mean_figure(positions, how, null=0.0)
    rule = "at least the baseline"
    yield ClaimFigure("feature scores and weights", own, ENOUGH, rule, own.value >= ENOUGH)
    yield ClaimFigure("position scores and gains", places, ENOUGH, rule, places.value >= ENOUGH)
    yield above("feature scores against Shapley values", own, mean_figure(plain["shapley"], how))
    yield above("feature scores against RISE", own, mean_figure(plain["rise"], how))


def _ranks(scores: ArrayLike, truth: ArrayLike) -> float:
    return float(spearmanr(scores, truth).statistic)


def _in_place(split: Split, item: Tokenized, target: Target, masks: int) -> dict[str, Float[np.ndarray, "d"]]:
    """Attributions of a text whose words all stay where they are: Shapley values, and RISE's mean over masks."""
    rng, d = np.random.default_rng(0), PLACES
    blank = split.model.tokenizer.convert_tokens_to_ids(BLANK)
    kept = rng.random((masks, d)) < rng.random((masks, 1))
    on = np.repeat(kept[:, None], d, axis=1) | np.eye(d, dtype=bool)
    off = on & ~np.eye(d, dtype=bool)
    halves = rng.random((2 * masks * d, d)) < 0.5
    rows = np.concatenate([on.reshape(-1, d), off.reshape(-1, d), halves])
    ids = np.where(rows, item.ids[1:-1], blank)
    texts = [replace(item, ids=(item.ids[0], *map(int, row), item.ids[-1])) for row in ids]
    with_it, without, random = np.split(target.values(split, texts), [masks * d, 2 * masks * d])
    return {
        "shapley": (with_it - without).reshape(masks, d).mean(0),
        "rise": halves.T @ random / halves.sum(0),
    }
