"""ObsProp's claim: weights alone tell which direction and which heads a task uses, with hardly any data (2312.16291).

The observable ` she` - ` he` after openings about a person, in the embedded model; people who are trained on are not
tested on.

Where the card leaves a choice: directions are read, and added, after blocks 12, 16, 20 and 24; the rival is the better
of a difference of means and a logistic probe at each number of pairs; the advantage counts as vanished where it is at
most 0.02; a shift has half the length of the difference of means. The wrong observables are of random pairs of words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from covec.activations.heads import head_write
from covec.activations.rows import Activations
from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.edits.algebra import Add, Edit
from covec.edits.branches import branches
from covec.edits.encoded import Encoded, encoded
from covec.find.logistic import Logistic
from covec.find.mean_difference import MeanDifference
from covec.find.obsprop import feature_vectors
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.worlds.pronouns import WORDS, openings

ANGLE, RANKS, NOTHING, GONE = 3.0, 0.25, 0.1, 0.02  # the numbers of the rules
POINTS = 8  # texts a class about which the network is taken to be linear


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    people: tuple[int, int] = (8, 13)  # up to the first they train, from there to the second they test
    blocks: tuple[int, ...] = (12, 16, 20, 24)
    few: tuple[int, ...] = (1, 2, 4)
    many: int = 50
    draws: int = 5
    prompts: int = 16
    heads_from: int = 15
    wrong: int = 20
    randoms: int = 5


REDUCED = _Setting((1, 2), (28,), (1,), 2, 1, 4, 29, 3, 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    task = _Task(load("smollm2-135m", dtype="float32"), setting)
    return Claim("obsprop", (_angle(task), *_heads(task), *_few_pairs(task), _added(task)))


class _Task:
    """The model, the observable, and openings to train and to test on with their activations at the blocks."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model, self.setting, self.vocabulary = model, setting, Vocabulary(model)
        self.ids = [self.vocabulary.token(word) for word in WORDS]
        self.sites = [Site("resid", block) for block in setting.blocks]
        self.train, self.test = openings(0, setting.people[0]), openings(*setting.people)
        self.known, self.unseen = (model.capture(part.inputs, self.sites, "last") for part in (self.train, self.test))
        self.prompts = self.test.inputs[: setting.prompts]

    def directions(self, rows: np.ndarray) -> Float[Tensor, "s d"]:
        """Feature vectors at the sites, about some of the training openings."""
        texts = [self.train.inputs[row] for row in rows[: 2 * POINTS]]
        return feature_vectors(
            self.model, texts, dict(zip(self.ids, (1.0, -1.0), strict=True)), self.sites, self.model.width
        )

    def read(self, ids: list[int]) -> Float[Tensor, "d"]:
        """What the final norm and the head read of the stream for the first token against the second."""
        return self.vocabulary.direction(ids[:1]) - self.vocabulary.direction(ids[1:])

    def encoded(self, site: Site, position: str) -> list[Encoded]:
        """The prompts, run up to `site`."""
        return encoded(Split(self.model, site), self.model.tokenize(self.prompts), Position.parse(position))

    def values(self, batches: list[Encoded], edit: Edit | None = None) -> Float[np.ndarray, "prompts"]:
        """The observable after every prompt, with an edit at the site."""
        found = np.zeros(len(self.prompts))
        with torch.no_grad():
            for one in batches:
                ends = [layout.length - 1 for layout in one.batch.layouts]
                found[list(one.batch.rows)] = self.observed(one.decode(edit)[range(len(ends)), ends])
        return found

    def observed(self, last: Float[Tensor, "m d"]) -> Float[np.ndarray, "m"]:
        """The observable of last hidden states."""
        logits = Split(self.model, "embed").logits(last).detach().double()
        return (logits[:, self.ids[0]] - logits[:, self.ids[1]]).cpu().numpy()

    def lost(self, heads: Sequence[Site], rows: Activations) -> Float[np.ndarray, "heads prompts"]:
        """What the observable loses after every prompt where a head, which gives `rows` there, gives nothing."""
        found = np.empty((len(heads), len(self.prompts)))
        for place, item in enumerate(self.model.tokenize(self.prompts)):
            without = [Add(site=head, position=Position("last"), shift=-rows[head][place]) for head in heads]
            values = self.observed(branches(self.model, item, [(), *without])[:, -1])
            found[:, place] = values[0] - values[1:]
        return found


def _angle(task: _Task) -> ClaimFigure:
    """Between what the head reads with the norm's weight folded in, and the gradient through the norm itself."""
    last = task.model.capture(task.prompts, f"resid.{task.model.blocks - 1}", "last").stack()[0].requires_grad_()
    rows = task.model.module.get_output_embeddings().weight[task.ids]  # type: ignore[operator]
    value = (task.model.anatomy.tap(Site("final")).module(last) @ (rows[0] - rows[1])).sum()
    (gradients,) = torch.autograd.grad(value, last)
    cosines = torch.nn.functional.cosine_similarity(gradients, task.read(task.ids)[None], dim=1)
    angles = torch.rad2deg(torch.arccos(cosines.clamp(max=1))).numpy()
    widest = Figure(float(angles.max()), n=len(angles), how=f"degrees, the widest; mean {angles.mean():.2f}")
    return ClaimFigure(
        "angle between folded and true gradient", widest, ANGLE, "at most the baseline", widest.value <= ANGLE
    )


def _heads(task: _Task) -> Iterator[ClaimFigure]:
    """Direct scores of heads against what the observable loses without them, in signed ranks, prompt by prompt."""
    model, setting = task.model, task.setting
    heads = [site for site in model.select("head.*") if site.block >= setting.heads_from]
    rows = model.capture(task.prompts, heads, "last")
    writes = torch.stack([head_write(model, site, rows[site]) for site in heads])  # [heads, prompts, d]
    lost = task.lost(heads, rows)
    own = _agreement((writes @ task.read(task.ids)).numpy(), lost)
    how = f"mean Spearman over prompts, {len(heads)} heads from block {setting.heads_from}"
    figure = mean_figure(own, how)
    yield ClaimFigure(
        "heads: direct score against ablation", figure, RANKS, "at least the baseline", figure.value >= RANKS
    )
    rng, words = np.random.default_rng(0), [ids[0] for ids in task.vocabulary.words.values()]
    wrong = []
    for _ in range(setting.wrong):
        pair = [int(index) for index in rng.choice(words, 2, replace=False)]
        wrong.append(float(np.mean(_agreement((writes @ task.read(pair)).numpy(), lost))))
    control = mean_figure(wrong, f"{how}, over wrong observables")
    rule = f"within {NOTHING} of zero"
    yield ClaimFigure("heads: scores of wrong observables", control, None, rule, abs(control.value) < NOTHING)


def _agreement(scores: np.ndarray, lost: np.ndarray) -> list[float]:
    return [float(spearmanr(scores[:, prompt], lost[:, prompt]).statistic) for prompt in range(scores.shape[1])]


def _few_pairs(task: _Task) -> Iterator[ClaimFigure]:
    """AUROC on people that were not trained on, beside probes that were given the same pairs."""
    gains = {}
    for count in (*task.setting.few, task.setting.many):
        found: dict[str, list[float]] = {}
        for seed in range(task.setting.draws):
            pairs = np.random.default_rng(seed).permutation(len(task.train) // 2)[:count]
            rows = np.stack([2 * pairs, 2 * pairs + 1], 1).ravel()
            areas: dict[str, list[float]] = {}
            for site, direction in zip(task.sites, task.directions(rows), strict=True):
                X, labels, unseen = task.known[site][torch.from_numpy(rows)], task.train.labels[rows], task.unseen[site]
                scores = {
                    "ObsProp": (unseen @ direction).numpy(),
                    "difference of means": MeanDifference().fit(X, labels).decision_function(unseen),
                    "logistic": Logistic().fit(X, labels, pairs=[row // 2 for row in rows]).decision_function(unseen),
                }
                for name, each in scores.items():
                    areas.setdefault(name, []).append(float(auroc(each, task.test.labels)))
            for name, each in areas.items():
                found.setdefault(name, []).append(float(np.mean(each)))
        own = mean_figure(found.pop("ObsProp"), f"mean over {len(task.sites)} blocks, interval over draws", null=0.5)
        best = max(found, key=lambda name: np.mean(found[name]))
        rival = mean_figure(found[best], best)
        gains[count] = own.value - rival.value
        if count in task.setting.few:
            yield above(f"test AUROC, {count} pair{'s' if count > 1 else ''}, against {best}", own, rival)
        else:
            yield shown(f"test AUROC, {count} pairs, against {best}", own, rival)
    gain = Figure(gains[task.setting.many], how=f"gain in AUROC over the better probe at {task.setting.many} pairs")
    yield ClaimFigure("advantage with many pairs", gain, GONE, "at most the baseline", gain.value <= GONE)


def _added(task: _Task) -> ClaimFigure:
    """Rise of the observable when shifts of one length are added: feature vectors, probes and random directions."""
    rises: dict[str, list[float]] = {}
    rows = np.arange(len(task.train))
    for site, direction in zip(task.sites, task.directions(rows), strict=True):
        X, labels = task.known[site], task.train.labels
        means = MeanDifference().fit(X, labels)
        shifts = {"ObsProp": direction, "difference of means": means.direction_}
        shifts["logistic"] = Logistic().fit(X, labels, pairs=task.train.pairs).direction_
        drawn = torch.randn(task.setting.randoms, len(direction), generator=torch.Generator().manual_seed(0))
        shifts |= {f"random {place}": one for place, one in enumerate(drawn)}
        batches, length = task.encoded(site, "content"), means.scale_ / 2
        plain = task.values(batches)
        for name, shift in shifts.items():
            edit = Add(site=site, shift=length * torch.nn.functional.normalize(shift, dim=0))
            rises.setdefault(name, []).append(float((task.values(batches, edit) - plain).mean()))
    own = mean_figure(
        rises.pop("ObsProp"),
        f"logits, half the length of the difference of means, mean over blocks {task.setting.blocks}",
    )
    best = max(rises, key=lambda name: np.mean(rises[name]))
    rival = mean_figure(rises[best], f"{best}, the best of two probes and {task.setting.randoms} random directions")
    return above("rise of the observable when added", own, rival)
