"""What each attention head has to do with the answers to prompts that show a function by examples.

Causal mediation: what a head gives where the function is shown is put where none is, and the answer becomes likelier or
does not (Todd et al. 2023, section 2.2, arXiv:2310.15213).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.answers import Answered
from covec.activations.capture import read_rows
from covec.activations.gradients import Slopes, slopes
from covec.activations.heads import head_write
from covec.concepts.examples import Examples
from covec.edits.algebra import Add
from covec.edits.branches import branches
from covec.errors import ExamplesError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel

PROMPTS, CONFIRMED = 12, 24
_LAST = Position("last")


@dataclass(frozen=True)
class Mediation:
    """What each head of a model has to do with the answers to prompts that show a function.

    Parameters
    ----------
    heads
        The heads, in the model's order [h].
    writes
        What each adds to the stream at the end of a prompt that shows the function, on average.
    estimates
        How much likelier answers become where a head's activation there is put into prompts that show no function, to
        first order.
    effects
        The same, measured by doing so; NaN where it was not.
    """

    heads: tuple[Site, ...]
    writes: Float[Tensor, "h d"]
    estimates: Float[Tensor, "h"]
    effects: Float[Tensor, "h"]

    def top(self, count: int) -> tuple[int, ...]:
        """The places of the heads of the largest effects, at most a tenth of all; heads that were patched first."""
        if count < 1:
            raise ExamplesError(f"a function vector of {count} heads is none: take 1 or more")
        keys = torch.stack([self.effects.isnan().float(), -self.effects.nan_to_num(0.0), -self.estimates]).tolist()
        order = sorted(range(len(self.heads)), key=lambda place: [key[place] for key in keys])
        return tuple(order[: min(count, max(1, len(order) // 10))])

    def vector(self, count: int) -> Float[Tensor, "d"]:
        """The function vector: the sum of what those heads write."""
        return self.writes[list(self.top(count))].sum(0)


def mediation(model: TextModel, examples: Examples, *, prompts: int = PROMPTS, confirmed: int = CONFIRMED) -> Mediation:
    """The effects of all heads: one backward pass estimates them, and those of the largest estimates are patched.

    The paper ranks heads by their mean effect over many tasks; here one task is known and ranks them. An answer of
    several tokens is as likely as all of them in turn. Where examples are pairs, a prompt counts where the model
    answers the positive as wanted.

    Raises
    ------
    ExamplesError
        An answer is missing, or the model gives none of them where the function is shown.
    ModelError
        The model has no heads that can be read, or does not continue texts.
    """
    clean, corrupted = _sides(model, examples, prompts)
    heads = model.select("head.*")
    means = {site: rows.mean(0) for site, rows in read_rows(model, clean.tokens, heads, [_LAST])[_LAST].rows.items()}
    sloped = slopes(
        model,
        corrupted.tokens,
        heads,
        _LAST,
        lambda batch, last: corrupted.read_batch(batch, last).log_probability.exp(),
    )
    estimates = torch.stack([sloped.linear(site, means[site]).mean() for site in heads])
    effects = torch.full_like(estimates, torch.nan)
    patched = estimates.topk(min(confirmed, len(heads))).indices
    effects[patched] = _patched(corrupted, sloped, {heads[place]: means[heads[place]] for place in patched.tolist()})
    writes = torch.cat([head_write(model, site, mean[None]) for site, mean in means.items()])
    return Mediation(heads, writes, estimates, effects)


def _sides(model: TextModel, examples: Examples, prompts: int) -> tuple[Answered, Answered]:
    """Prompts that show the function, and at most `prompts` of those that show none; in an order of their own."""
    answers = examples.column("task") or ()
    whole = Answered.of(model, examples.inputs, answers)
    order = sorted(range(len(whole)), key=lambda row: (repr(examples.inputs[row]), answers[row]))
    shown, bare = ([row for row in order if examples.labels[row] == label] for label in (True, False))
    if prompts < 1 or not shown or not bare:
        raise ExamplesError(
            f"{examples.name}: effects of heads need prompts that show a function, and 1 or more that show none"
        )
    if examples.pairs is not None:
        right = [row for row, one in zip(shown, whole.subset(shown).outcome().greedy.tolist(), strict=True) if one]
        known = {examples.pairs[row] for row in right}
        shown, bare = right, [row for row in bare if examples.pairs[row] in known]
        if not bare:
            raise ExamplesError(
                f"{model.name} gives the answer to none of the prompts that show {examples.name}: show more examples "
                "in each, or load a model that can do it"
            )
    return whole.subset(shown), whole.subset(bare[:: -(-len(bare) // prompts)])


def _patched(corrupted: Answered, sloped: Slopes, means: dict[Site, Float[Tensor, "h"]]) -> Float[Tensor, "k"]:
    """How much likelier answers become when a head gives its mean, averaged over prompts; all heads in one batch."""
    total = torch.zeros(len(means))
    for row, item in enumerate(corrupted.tokens):
        shifts = {site: mean - sloped.activations[site][row] for site, mean in means.items()}
        edits = [Add(site=site, position=_LAST, shift=shift) for site, shift in shifts.items()]
        with torch.no_grad():
            last = branches(corrupted.model, item, [(), *edits]).flatten(0, 1)
            likely = corrupted.read(last, [row] * (1 + len(edits))).log_probability.exp().cpu()
        total += likely[1:] - likely[0]
    return total / len(corrupted)
