"""SCAV's claim: one probe a block gives the smallest edit to a wanted probability, and it acts (arXiv:2404.12038).

Sentiment (60 pairs of sentences train, 40 test) in the embedded model. That an edited row has exactly the wanted
probability is true by algebra and only checks the code; the claim is in what the model says afterwards.

Where the card leaves a choice: everything runs at the block of the best held-out accuracy; concept words are twelve
adjectives a class, read as the next word after the held-out sentences; edits raise the probability to 0.999; perplexity
is that of the held-out sentences themselves under the same edit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import example_concept
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add, Edit
from covec.edits.encoded import encoded
from covec.measure._readout import Continuation, Readout
from covec.models.load import load
from covec.models.positions import Position
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.steer.scav import Scav

POSITIVE = "great good wonderful excellent lovely perfect delightful amazing beautiful superb kind happy"
NEGATIVE = "terrible bad awful horrible poor dreadful disappointing boring ugly rude sad nasty"
LOW, HIGH = 1e-3, 0.999  # probabilities the edits go to: the code's default, and its mirror
CONTENT = Position("content")


@dataclass(frozen=True)
class _Setting:
    """Pairs that train and test, blocks that are probed, random directions, and steps of the search for a strength."""

    train: int = 60
    test: int = 40
    sites: str = "resid.*"
    draws: int = 20
    steps: int = 8


REDUCED = _Setting(16, 8, "resid.4,resid.16", 3, 3)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    examples = _examples(setting)
    probes = Scav(sites=setting.sites, reliable=0.0).fit(model, examples)
    best = max(probes.vectors.values(), key=lambda one: one.figures["accuracy"].value)
    held_out = examples.subset([row for row, part in enumerate(examples.splits or ()) if part != "train"])
    figures = [*_depth(probes), *_algebra(model, best, examples, held_out)]
    return Claim("scav", (*figures, *_downstream(model, best, held_out, setting)))


def _examples(setting: _Setting) -> Examples:
    """The first pairs train, the next ones are held out; half of those are called validation, as a split needs one."""
    rows = 2 * (setting.train + setting.test)
    chosen = example_concept().subset(range(rows))
    half = setting.train * 2 + setting.test // 2 * 2
    parts = ["train" if row < 2 * setting.train else "validation" if row < half else "test" for row in range(rows)]
    return Examples(chosen.inputs, chosen.labels, pairs=chosen.pairs, splits=tuple(parts), name="sentiment")


def _depth(probes: Scav) -> Iterator[ClaimFigure]:
    accuracies = [one.figures["accuracy"] for one in probes.vectors.values()]
    best = max(accuracies, key=lambda one: one.value)
    yield ClaimFigure("held-out accuracy of the best block", best, 0.9, "above the baseline", best.value > 0.9)
    smooth = np.convolve([one.value for one in accuracies], np.ones(3) / 3, "valid" if len(accuracies) > 4 else "same")
    peak = max(1, int(np.argmax(smooth)))
    rises = float(np.mean([later >= sooner for sooner, later in pairwise(smooth[: peak + 1])]))
    first = Figure(accuracies[0].value, how="accuracy at the first block")
    share = Figure(
        rises, n=peak, how="share of blocks up to the peak at which the accuracy (mean of three) rises or stays"
    )
    rule = "at least 0.5, and the best block above the first"
    yield ClaimFigure("accuracy with depth", share, first, rule, rises >= 0.5 and best.value > first.value)


def _algebra(model: TextModel, best: ConceptVector, examples: Examples, held_out: Examples) -> Iterator[ClaimFigure]:
    """The edited logit, what it leaves alone, and its norm beside that of the difference of means."""
    rows = model.capture(held_out.inputs, best.site, "last")[best.site]
    (edit,) = best.to_probability(LOW)
    moved = edit.apply(rows[None], None)[0]
    assert best.calibration is not None
    slope, offset = best.calibration
    before, after = (slope * best.score(one).double() + offset for one in (rows, moved))
    wanted = math.log(LOW / (1 - LOW))
    above = before > wanted
    error = Figure(
        float((after[above] - wanted).abs().max()), n=int(above.sum()), how="largest miss of the wanted log-odds"
    )
    yield ClaimFigure("log-odds after the edit", error, 1e-3, "below the baseline", error.value < 1e-3)
    left = bool((moved[~above] == rows[~above]).all())
    yield ClaimFigure("rows already there", Figure(float(left), n=int((~above).sum())), None, "bit-identical", left)
    part = best.parts[best.site]
    means = torch.nn.functional.normalize(part.write[0], dim=0)
    own = (moved - rows)[above].norm(dim=1)
    rival = own / float(part.direction[0] @ means)  # the same probability along another direction takes this much
    ratio = Figure(float((own / rival).mean()), n=int(above.sum()), how="norm, as a share of the difference of means'")
    yield ClaimFigure("norm of the edit", ratio, 1.0, "below the baseline", ratio.value < 1.0)


def _downstream(model: TextModel, best: ConceptVector, held_out: Examples, setting: _Setting) -> Iterator[ClaimFigure]:
    """What the edit does to the margin of concept words, at equal norm and at equal margin."""
    words = [
        Continuation(" " + word, positive)
        for positive, listed in ((True, POSITIVE), (False, NEGATIVE))
        for word in listed.split()
    ]
    readout = Readout(model, best.site, CONTENT, held_out.inputs, words, after=" It was")
    texts = _Perplexity(model, best, held_out)
    plain = readout.values()
    direction = best.direction
    (adaptive,) = best.to_probability(HIGH, below=False)
    gained = readout.values(adaptive) - plain
    norm = texts.norm(adaptive)

    def margin(shift: Tensor) -> float:
        return float((readout.values(Add(site=best.site, shift=shift)) - plain).mean())

    own = margin(norm * direction)
    drawn = torch.randn(setting.draws, len(direction), generator=torch.Generator().manual_seed(0))
    random = np.array([margin(norm * one) for one in torch.nn.functional.normalize(drawn, dim=1)])
    z = Figure(
        (own - random.mean()) / random.std(ddof=1),
        n=setting.draws,
        how=f"margin {own:.3f} at norm {norm:.1f}, in deviations of random directions",
    )
    yield ClaimFigure("margin of concept words at equal norm", z, 2.0, "above the baseline", z.value > 2)
    strength = _matching(lambda size: margin(size * direction), float(gained.mean()), norm, setting.steps)
    fixed = Add(site=best.site, shift=strength * direction)
    one, other = texts.increase(adaptive), texts.increase(fixed)
    how = f"held-out sentences, mean margin {gained.mean():.3f}"
    rule = "below the baseline: one fixed strength of the same mean margin"
    figure = mean_figure(one, f"increase of log-perplexity, {how}")
    yield ClaimFigure(
        "cost of the adaptive edit",
        figure,
        mean_figure(other, "fixed strength"),
        rule,
        float(one.mean()) < float(other.mean()),
    )
    yield shown(
        "margin of concept words under the adaptive edit", mean_figure(gained, "change of the mean log-probability")
    )


def _matching(margin: Callable[[float], float], wanted: float, norm: float, steps: int) -> float:
    """The size of a fixed shift whose mean margin is `wanted`, by bisection."""
    low, high = 0.0, 2 * norm
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if margin(middle) < wanted else (low, middle)
    return (low + high) / 2


class _Perplexity:
    """Log-perplexity of texts under edits at the site of a vector."""

    def __init__(self, model: TextModel, vector: ConceptVector, texts: Examples) -> None:
        self._split = Split(model, vector.site)
        self._batches = encoded(self._split, model.tokenize(texts.inputs), CONTENT)
        self._plain = self._values(None)

    def increase(self, edit: Edit) -> np.ndarray:
        """Of every text, in nats a token."""
        return self._values(edit) - self._plain

    def norm(self, edit: Edit) -> float:
        """Mean norm of what the edit changes, over the tokens it may touch."""
        changes = []
        for one in self._batches:
            assert one.hidden is not None
            changes.append((one.edited(edit, one.hidden) - one.hidden)[one.chosen].norm(dim=1))
        return float(torch.cat(changes).mean())

    def _values(self, edit: Edit | None) -> np.ndarray:
        found = []
        with torch.no_grad():
            for one in self._batches:
                last = one.decode(edit)
                for row, layout in enumerate(one.batch.layouts):
                    logits = self._split.logits(last[row, : layout.length - 1]).float()
                    ids = one.batch.ids[row, 1 : layout.length]
                    found.append(float(torch.nn.functional.cross_entropy(logits, ids)))
        return np.array(found)
