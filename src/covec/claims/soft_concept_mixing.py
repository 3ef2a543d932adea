"""Soft concept mixing's claim: mixing what is about to be said into the stream does no harm to training (2511.16885).

What the paper claims of large models on problems of mathematics is out of reach here; the card names weaker properties.
The operator: where one token is certain the soft concept is its embedding, and it never leaves the hull of all of them.
The training: a small transformer learns by GRPO to reach goals in a graph, with soft concepts mixed in and without,
from the same beginning, three seeds. And the change that mixing makes before any training, beside noise of its length.

Where the card leaves a choice: rewards are means over the last fifty of two hundred steps, and `not worse` is taken at
its word. In the embedded model the change is shown, with how long a soft concept is beside the stream.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.concepts.packaged import neutral_prompts
from covec.edits.soft_concept import MixSoftConcept, mix_soft_concept, soft_concept
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds import soft_concept_mixing as world

EXACT = 1e-5  # of the largest entry, what float32 leaves


@dataclass(frozen=True)
class _Setting:
    """Steps of training, of which the last count, seeds, and prompts on which the change is measured."""

    reading: int = 300
    steps: int = 200
    last: int = 50
    seeds: int = 3
    prompts: int = 64


REDUCED = _Setting(20, 3, 2, 2, 4)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    beginners = [world.beginner(seed, setting.reading) for seed in range(setting.seeds)]
    figures = (*_operator(), *_change(beginners, setting), *_trained(beginners, setting), *_embedded(setting))
    return Claim("soft-concept-mixing", figures)


def _operator() -> Iterator[ClaimFigure]:
    """Random tables that are not tied."""
    generator = torch.Generator().manual_seed(0)
    embeddings, head = (torch.randn(50, 32, generator=generator) for _ in range(2))
    wanted = torch.arange(len(head))
    certain = 1e4 * head  # behind which the token itself is the likeliest by far, for most
    likely = (certain @ head.T).softmax(-1)
    sure = likely.gather(1, wanted[:, None])[:, 0] > 1 - 1e-7
    error = (soft_concept(certain, embeddings, head) - embeddings)[sure].abs().max() / embeddings.abs().max()
    figure = Figure(float(error), n=int(sure.sum()), how="largest error, as a share of the largest entry")
    yield ClaimFigure(
        "one certain token gives its embedding", figure, EXACT, "at most the baseline", figure.value <= EXACT
    )
    h, probes = torch.randn(200, 32, generator=generator), torch.randn(500, 32, generator=generator)
    reach = (soft_concept(h, embeddings, head) @ probes.T) <= (embeddings @ probes.T).amax(0) + EXACT
    inside = Figure(float(reach.float().mean()), n=len(h), how="within the embeddings' reach along 500 directions")
    yield ClaimFigure("soft concepts stay in the hull", inside, 1.0, "the baseline", inside.value == 1.0)


def _change(beginners: list[TextModel], setting: _Setting) -> Iterator[ClaimFigure]:
    """What mixing changes of the next word before training by reward, beside noise as long."""
    own, noise, sizes = [], [], []
    for seed, model in enumerate(beginners):
        asked = world.prompts(setting.prompts, torch.Generator().manual_seed(seed))
        with torch.no_grad():
            hidden = model.anatomy.body(input_ids=asked).last_hidden_state[:, -1]
        change = _changed(model, hidden)
        own.append(change[0])
        noise.append(change[1])
        sizes.append(change[2])
    how = "nats, divergence of the next word with mixing from that without, over seeds"
    value, beside = mean_figure(own, how), mean_figure(noise, "noise of the same length")
    yield ClaimFigure("change before training", value, beside, "below the baseline", value.value < beside.value)
    yield shown("length of a soft concept, as a share of the stream's", mean_figure(sizes, "over seeds"))


def _trained(beginners: list[TextModel], setting: _Setting) -> Iterator[ClaimFigure]:
    """Rewards with and without mixing, from the same beginner."""
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for seed, model in enumerate(beginners):
        for mixing, rewards in found.items():
            fresh = TextModel(copy.deepcopy(model.module), model.tokenizer)
            rewards.append(world.learned(fresh, mixing=mixing, steps=setting.steps, seed=seed).rewards)
    how = f"mean of the last {setting.last} of {setting.steps} steps, over seeds"
    ends = {mixing: mean_figure([row[-setting.last :].mean() for row in rows], how) for mixing, rows in found.items()}
    starts = {mixing: mean_figure([row[: setting.last].mean() for row in rows], "") for mixing, rows in found.items()}
    yield at_least("reward with mixing, beside that without", ends[True], ends[False])
    gain = [float((mixed - plain).mean()) for mixed, plain in zip(found[True], found[False], strict=True)]
    yield shown("gain in reward by mixing, over all steps", mean_figure(gain, "paired, over seeds", null=0.0))
    yield above("reward rises without mixing", ends[False], replace(starts[False], how="the first steps"))
    rough = {mixing: mean_figure([np.diff(row).std() for row in rows], "") for mixing, rows in found.items()}
    yield shown("roughness of the rewards, beside those without mixing", rough[True], rough[False])


def _embedded(setting: _Setting) -> Iterator[ClaimFigure]:
    """The same change in a model of language, whose head and embeddings are one table."""
    model = load("smollm2-135m")
    hidden = model.capture(neutral_prompts()[: setting.prompts], "final", "last")["final"].to(model.dtype)
    own, noise, size = _changed(model, hidden)
    yield shown("change in the embedded model, beside noise", Figure(own, n=len(hidden), how="nats"), noise)
    yield shown("length of a soft concept in the embedded model", Figure(size, n=len(hidden), how="of the stream's"))


def _changed(model: TextModel, hidden: Float[Tensor, "n d"]) -> tuple[float, float, float]:
    """The mean divergence of the next word with a soft concept, that with noise as long, and that length's share."""
    edit, split = mix_soft_concept(model), Split(model, "embed")
    with torch.no_grad():
        soft = _mixed_in(edit, hidden)
        drawn = torch.randn(soft.shape, generator=torch.Generator().manual_seed(0)).to(soft)
        noise = drawn / drawn.norm(dim=1, keepdim=True) * soft.norm(dim=1, keepdim=True)
        plain, *others = (split.logits(one).float().log_softmax(1) for one in (hidden, hidden + soft, hidden + noise))
        mixed, noisy = (float((one.exp() * (one - plain)).sum(1).mean()) for one in others)
    return mixed, noisy, float((soft.norm(dim=1) / hidden.norm(dim=1)).mean())


def _mixed_in(edit: MixSoftConcept, hidden: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return soft_concept(hidden, edit.embeddings, edit.head, edit.top)
