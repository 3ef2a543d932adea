"""Function vectors: the sum of what a few attention heads give where a prompt shows a function by examples.

"Function Vectors in Large Language Models", arXiv:2310.15213.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.answers import Answered
from covec.activations.capture import read_rows
from covec.activations.gradients import Slopes, slopes
from covec.activations.heads import head_write
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add
from covec.edits.branches import branches
from covec.errors import ExamplesError
from covec.find._finder import Finder, Fits
from covec.find._rows import Labels, Units, as_cells
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.registry import method

HEADS, PROMPTS, CONFIRMED = 12, 12, 24
_LAST = Position("last")


@method(
    "function-vectors",
    verb="find",
    needs="model",
    card="function-vectors",
    requires=("inputs", "task"),
    cannot={
        "what later layers read is found": "it is what heads write, those of later blocks too, and not what they read",
        "what no layer reads is not found": "heads are summed whole, with what they write and no later layer reads",
    },
)
class FunctionVectors(Finder):
    """The sum of the mean outputs, at a prompt's end, of the heads that carry the function which it shows.

    Positives are prompts that show a function by examples, negatives prompts whose examples show none; `task` is the
    answer that each asks for. `covec.concepts.demonstrations` makes such examples, and `function_vector` gives the
    vector as the paper adds it: at its own length.

    Parameters
    ----------
    heads
        Heads that are summed, at most a tenth of the model's. The paper takes 10 of 448.
    prompts
        Negatives on which the effects of heads are measured.
    confirmed
        Heads whose effect is measured by patching, those of the largest estimates.
    """

    def __init__(self, heads: int = HEADS, prompts: int = PROMPTS, confirmed: int = CONFIRMED) -> None:
        self.heads, self.prompts, self.confirmed = heads, prompts, confirmed

    @classmethod
    def check(cls, model: TextModel, examples: Examples) -> None:
        model.select("head.*")
        Answered.of(model, examples.inputs, examples.column("task") or ())

    def fit_many(
        self,
        X: Float[Tensor, "s n d"],
        y: Any,
        *,
        groups: Units | None = None,
        pairs: Units | None = None,
        **columns: Sequence[Any],
    ) -> Fits:
        model, sites = self._place()
        X = as_cells(X, 3)
        labels = Labels.of(y, X.shape[1], groups, pairs, columns)
        if missing := [name for name in ("inputs", "task") if name not in columns]:
            raise ExamplesError(
                f"function-vectors needs {' and '.join(missing)} of each row: call fit_model(model, examples, site)"
            )
        named = None if labels.pairs is None else tuple(None if one is None else str(one) for one in labels.pairs)
        inputs, answers = tuple(columns["inputs"]), tuple(columns["task"])
        examples = Examples(inputs, labels.positive, pairs=named, extra={"task": answers})
        found = mediation(model, examples, prompts=self.prompts, confirmed=self.confirmed)
        return self._completed(X, labels, found.vector(self.heads).expand(len(sites), -1))


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

    def vector(self, count: int = HEADS) -> Float[Tensor, "d"]:
        """The function vector: the sum of what those heads write."""
        return self.writes[list(self.top(count))].sum(0)


def function_vector(
    model: TextModel,
    examples: Examples,
    site: str | Site,
    *,
    heads: int = HEADS,
    prompts: int = PROMPTS,
    confirmed: int = CONFIRMED,
) -> ConceptVector:
    """The function vector of `examples`, to be added after a block at the last token of a prompt.

    Strength 1 is its own length. The paper adds it after a third of the blocks; try several. Parameters and errors as
    in `FunctionVectors` and `mediation`.
    """
    (address,) = model.select(site)
    vector = mediation(model, examples, prompts=prompts, confirmed=confirmed).vector(heads)
    return ConceptVector.from_direction(
        examples.name,
        address,
        vector,
        write=vector,
        write_position=_LAST,
        method="function-vectors",
        scale_from="native",
        model=model.describe(),
        data=examples.describe(),
    )


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
