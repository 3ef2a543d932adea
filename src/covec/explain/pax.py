"""PaX: how much of an answer rests on what is said, and how much on where it stands.

No more than the title and the abstract of "Position-aware eXplanation (PaX): A Model-Agnostic Framework for Positional
Attributions" could be had; the definitions here are those of its Shapley form as they follow from there, and from the
values of positions in a random order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import t

from covec.activations.split import Split
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError, ExamplesError
from covec.explain._explainer import Explainer, Explanation
from covec.explain._target import Target
from covec.models.positions import Position, mask
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized
from covec.registry import method
from covec.statistics.figure import Figure

Values = Callable[[Int[np.ndarray, "n d"], Bool[np.ndarray, "n d"]], Float[np.ndarray, "n"]]
MOST = 32  # tokens: effects are [d, d], each of many passes


@dataclass(frozen=True, repr=False)
class PositionalExplanation(Explanation):
    """An answer split into what is said and where it stands; `tokens` [d] are those that were moved.

    Attributes
    ----------
    features, positions
        The figure of every token, and of every place.
    effects
        What token i adds to the target at the place of token l [d, d].
    exchanged
        By how much the target changes where tokens i and l alone change places [d, d].
    """

    tokens: tuple[str, ...]
    features: tuple[Figure, ...]
    positions: tuple[Figure, ...]
    effects: Float[np.ndarray, "d d"]
    exchanged: Float[np.ndarray, "d d"]

    @property
    def sensitivity(self) -> Float[np.ndarray, "d"]:
        """How much what a token adds depends on its place: the range of its effects [d]."""
        return np.ptp(self.effects, axis=1)


@method("pax", verb="explain", card="pax")
class PaX(Explainer):
    """Feature and position scores of tokens: what a token adds to a target wherever it stands, and any token there.

    Tokens are put in random orders (which every model can be given, with or without a table of positions) and replaced
    by a baseline at random, as many as not on average. What token i adds at place l, over the orders that put it there,
    is its effect; the mean over places is its feature score, a Shapley value; the mean over tokens is the place's
    position score. The null of a token is 0, that of a place what all places have on average.

    Tokens in another order are no text: scores are of the network, and not of a reader.

    Parameters
    ----------
    position
        The tokens that are moved and replaced: the selection of a position, of 2 to 32 tokens.
    rounds
        Times that every token is seen at every place; intervals are those of their mean.
    baseline
        What stands for a token that is left out, one token itself; the tokenizer's mask, or a comma where it has none.
    """

    def __init__(self, position: str = "content", rounds: int = 16, baseline: str | None = None, seed: int = 0) -> None:
        if rounds < 2:
            raise CovecError(f"{rounds} rounds have no interval: give 2 or more")
        self.position, self.rounds, self.baseline, self.seed = Position.parse(position), rounds, baseline, seed

    def explain(
        self, split: Split, vectors: Sequence[ConceptVector], inputs: Sequence[Input], target: Target
    ) -> list[PositionalExplanation]:
        if split.site.kind != "embed":
            raise CovecError(f"pax moves tokens, which stand at embed: split the model there, not at {split.site}")
        tokens = split.model.tokenize(inputs, reply=True)
        blank = self._blank(split.model)
        places = [self._places(item, row) for row, item in enumerate(tokens)]
        return [self._explained(split, item, moved, blank, target) for item, moved in zip(tokens, places, strict=True)]

    def _blank(self, model: TextModel) -> int:
        if self.baseline is None and model.tokenizer.mask_token_id is not None:
            return int(model.tokenizer.mask_token_id)
        word = "," if self.baseline is None else self.baseline
        ids = model.tokenizer(word, add_special_tokens=False).input_ids
        if len(ids) != 1:
            raise CovecError(f"the baseline {word!r} is {len(ids)} tokens of {model.name}: give one that is one token")
        return int(ids[0])

    def _places(self, item: Tokenized, row: int) -> Int[np.ndarray, "d"]:
        """Where the tokens stand that are moved."""
        found = np.flatnonzero(mask(self.position, item.layout))
        if not 2 <= len(found) <= MOST:
            raise ExamplesError(
                f"position {self.position.select} selects {len(found)} tokens of input {row + 1}, and pax moves 2 to "
                f"{MOST}: choose others, or another text"
            )
        return found

    def _explained(
        self, split: Split, item: Tokenized, places: Int[np.ndarray, "d"], blank: int, target: Target
    ) -> PositionalExplanation:
        d, rng = len(places), np.random.default_rng(self.seed)
        own = np.array(item.ids)

        def values(orders: Int[np.ndarray, "n d"], kept: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
            """The target where token i stands at the place `orders[i]`, or the baseline does where it is not kept."""
            ids = np.tile(own, (len(orders), 1))
            ids[np.arange(len(orders))[:, None], places[orders]] = np.where(kept, own[places], blank)
            return target.values(split, [replace(item, ids=tuple(map(int, row))) for row in ids])

        effects = np.stack([_round(values, d, rng) for _ in range(self.rounds)])
        swaps = np.array([_swapped(d, one, other) for one in range(d) for other in range(one, d)])
        moved = values(swaps, np.ones_like(swaps, dtype=bool))
        exchanged = np.zeros((d, d))
        exchanged[np.triu_indices(d)] = moved - moved[0]  # the first exchanges nothing
        exchanged = exchanged + exchanged.T
        names = [item.text[slice(*item.offsets[place])] for place in places]
        how = f"mean of {self.rounds} random rounds, Student's t"
        features = tuple(_figure(effects[:, i].mean(1), 0.0, how) for i in range(d))
        positions = tuple(_figure(effects[:, :, place].mean(1), float(effects.mean()), how) for place in range(d))
        figures = {f"token {i + 1} {name!r}": one for i, (name, one) in enumerate(zip(names, features, strict=True))}
        figures |= {f"place {place + 1}": one for place, one in enumerate(positions)}
        return PositionalExplanation(item.text, figures, tuple(names), features, positions, effects.mean(0), exchanged)


def _round(values: Values, d: int, rng: np.random.Generator) -> Float[np.ndarray, "d d"]:
    """What every token adds at every place, once: a random order and its rotations, with and without each token."""
    orders = (rng.permutation(d) + np.arange(d)[:, None]) % d
    # As many tokens as not are kept on average, and every number is as likely: Shapley's weights.
    kept = rng.random((d, d)) < rng.random((d, 1))
    on = np.repeat(kept[:, None], d, axis=1) | np.eye(d, dtype=bool)
    off = on & ~np.eye(d, dtype=bool)
    each = np.repeat(orders, d, axis=0)
    gain = (values(each, on.reshape(-1, d)) - values(each, off.reshape(-1, d))).reshape(d, d)
    found = np.empty((d, d))
    found[np.arange(d), orders] = gain
    return found


def _swapped(d: int, one: int, other: int) -> Int[np.ndarray, "d"]:
    order = np.arange(d)
    order[[one, other]] = other, one
    return order


def _figure(rounds: Float[np.ndarray, "r"], null: float, how: str) -> Figure:
    middle, half = float(rounds.mean()), float(t.ppf(0.975, len(rounds) - 1) * rounds.std(ddof=1) / len(rounds) ** 0.5)
    return Figure(middle, middle - half, middle + half, null, len(rounds), how)
