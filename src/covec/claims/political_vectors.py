"""The claim of several axes: a vector of each reads its own axis alone, where one for all mixes them (2506.04774).

Four axes of style and time in place of the political ones, on twelve topics; eight topics train, four test. And rows of
which the axes are known, which lie at a cosine of 0.6, while other axes follow the pole in the topics.

Where the card leaves a choice: every statement stands in one reading prompt, so that each vector reads the rows of all
axes; the site is the one with the highest mean AUROC on two of the training topics, and of equals the one with the
highest accuracy; the vectors are mean differences within pairs, and the two other techniques are shown, as are AUROCs
off the diagonal from whichever end tells more. Words are those that come next after neutral openings, with the vectors
of the middle third of the blocks added, of whose strengths the sum is 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_prompts
from covec.edits.encoded import encoded
from covec.find.mean_difference import MeanDifference
from covec.find.political_vectors import TECHNIQUES, Axes, Confounds, PoliticalVectors, fit_axes
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.statistics.figure import Figure
from covec.worlds.poles import AXES, TOPICS, WORDS, statements

DIAGONAL, GAP, SEVERAL, STEERED, RECOVERED = 0.8, 0.2, 0.6, 3, 0.9  # the numbers of the rules
OVERLAP = 0.6  # of the axes whose truth is known, and of the poles with the topics' leanings
_PROMPT = (
    "Consider how the following statement is put.\nStatement: {}\nWhat strikes one in this statement is that it is"
)


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    topics: int = 12
    tested: int = 4
    validated: int = 2
    blocks: tuple[int, ...] = tuple(range(6, 30, 2))
    prompts: int = 24


REDUCED = _Setting(5, 2, 1, (27, 28), 3)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m")
    task = _Task(model, setting)
    site = task.site()
    figures = (*_read(task, site), *_steered(task), *_known())
    return Claim("political-vectors", figures)


class _Task:
    """Statements with their activations, and which of them train, validate and test."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model, self.setting = model, setting
        self.examples: Examples = statements(TOPICS[: setting.topics])
        self.axis = list(self.examples.column("axis") or ())
        self.sites = [Site("resid", block) for block in setting.blocks]
        self.rows = model.capture([_PROMPT.format(text) for text in self.examples.inputs], self.sites, "last")
        place = {topic: number for number, topic in enumerate(TOPICS)}
        topics = np.array([place[str(topic)] for topic in self.examples.groups or ()])
        self.test = topics >= setting.topics - setting.tested
        self.validation = ~self.test & (topics >= setting.topics - setting.tested - setting.validated)

    def fitted(self, site: Site, rows: np.ndarray, technique: str = "difference") -> Axes:
        """The axes from some of the rows."""
        X, y, axis, pairs = self._of(site, rows)
        return fit_axes(PoliticalVectors(technique), X, y, axis, pairs=pairs)

    def confounds(self, axes: Axes, site: Site, rows: np.ndarray) -> Confounds:
        """What the axes read of some of the rows."""
        X, y, axis, _ = self._of(site, rows)
        return axes.confounds(X, y, axis)

    def site(self) -> Site:
        """The site at which vectors of the other training topics read those of validation best."""
        known = ~self.test & ~self.validation
        scores = {}
        for site in self.sites:
            axes, (X, y, axis, _) = self.fitted(site, known), self._of(site, self.validation)
            right = [
                axes.finders[name].predict(X[torch.tensor([one == name for one in axis])])
                == y[[one == name for one in axis]]
                for name in AXES
            ]
            scores[site] = (self.confounds(axes, site, self.validation).own, float(np.concatenate(right).mean()))
        return max(scores, key=lambda site: scores[site])

    def _of(self, site: Site, rows: np.ndarray) -> tuple[Tensor, np.ndarray, list[str], list[str | None]]:
        chosen, pairs = np.flatnonzero(rows), self.examples.pairs or ()
        axis, own = [self.axis[row] for row in chosen], [pairs[row] for row in chosen]
        return self.rows[site][torch.from_numpy(chosen)], self.examples.labels[chosen], axis, own


def _read(task: _Task, site: Site) -> Iterator[ClaimFigure]:
    """AUROC of each vector on each axis, on topics that were not trained on."""
    for technique in TECHNIQUES:
        found = task.confounds(task.fitted(site, ~task.test, technique), site, task.test)
        own = mean_figure(
            [found.areas[name][name].value for name in AXES], f"{technique}, at {site}, over axes", null=0.5
        )
        pairs = [found.areas[one][other].value for one in AXES for other in AXES if one != other]
        others = mean_figure(pairs, "over pairs of a vector and another axis", null=0.5)
        told = Figure(found.others, null=0.5, n=len(pairs), how="the same, from whichever end tells more")
        if technique != "difference":
            yield shown(f"AUROC of each axis along its own vector ({technique}), beside the others", own, told)
            continue
        yield at_least("AUROC of each axis along its own vector", own, DIAGONAL)
        yield above("the same, against the vectors of other axes", own, others, GAP)
        yield shown("the same, against the better end of the others", own, told)
        pooled = [found.areas["pooled"][name].value for name in AXES]
        several = sum(area > SEVERAL for area in pooled)
        figure = Figure(
            float(several), n=len(AXES), how="AUROC of the pooled vector " + ", ".join(f"{one:.2f}" for one in pooled)
        )
        yield ClaimFigure(
            "axes that the pooled vector reads", figure, SEVERAL, "two at least above the baseline", several >= 2
        )
        least, own_gap = min(_selectivity(found, name) for name in AXES), _selectivity(found, "pooled")
        figure = Figure(own_gap, n=len(AXES), how="largest less mean AUROC over the axes")
        rule = "below that of each axis' own vector, the least of which is the baseline"
        yield ClaimFigure("selectivity of the pooled vector", figure, least, rule, own_gap < least)
        ends = min(found.selectivity(name) for name in AXES)
        figure = Figure(found.selectivity("pooled"), n=len(AXES), how="the same, from whichever end tells more")
        yield shown("selectivity of the pooled vector, of either end", figure, ends)
        size = np.abs(found.cosines[np.triu_indices(len(AXES), 1)])
        yield shown("size of the cosines between the vectors", mean_figure(size, "over pairs of axes"))


def _selectivity(found: Confounds, vector: str) -> float:
    """Largest less mean AUROC along a vector, over the axes."""
    areas = [found.areas[vector][axis].value for axis in AXES]
    return float(np.max(areas) - np.mean(areas))


def _steered(task: _Task) -> Iterator[ClaimFigure]:
    """Which axis' words each vector moves most, of either pole against the other."""
    third = task.model.blocks / 3
    middle = [site for site in task.sites if third <= site.block < 2 * third] or task.sites
    banks = {site: task.fitted(site, ~task.test).bank(site) for site in middle}
    words = [[_ids(task.model, listed) for listed in WORDS[name]] for name in AXES]
    split = Split(task.model, "embed")
    batches = encoded(split, task.model.tokenize(neutral_prompts()[: task.setting.prompts]), Position("content"))

    def margins(name: str | None) -> Float[np.ndarray, "axes"]:
        """Log-odds of the first pole's words against the second's, after every prompt, their mean."""
        edits = [] if name is None else [bank[name].add(1 / len(middle)) for bank in banks.values()]
        found = []
        with torch.no_grad(), task.model.edit(*edits):
            for one in batches:
                ends = [layout.length - 1 for layout in one.batch.layouts]
                likely = split.logits(one.decode()[range(len(ends)), ends]).float().log_softmax(1)
                found.append(torch.stack([likely[:, a].logsumexp(1) - likely[:, b].logsumexp(1) for a, b in words], 1))
        return torch.cat(found).mean(0).double().cpu().numpy()

    plain = margins(None)
    moved = np.stack([margins(name) - plain for name in AXES])
    matched = int((moved.argmax(1) == np.arange(len(AXES))).sum())
    told = "; ".join(f"{name} {AXES[row.argmax()]}" for name, row in zip(AXES, moved, strict=True))
    figure = Figure(float(matched), null=1.0, n=len(AXES), how=f"axis whose words each vector moves most: {told}")
    yield ClaimFigure(
        "vectors that move their own words most", figure, STEERED, "at least the baseline", matched >= STEERED
    )
    own = mean_figure(np.diag(moved), "rise of the log-odds, nats, over axes")
    other = mean_figure(moved[~np.eye(len(AXES), dtype=bool)], "of the words of other axes")
    yield shown("rise of an axis' own words", own, other)


def _ids(model: TextModel, words: str) -> list[int]:
    vocabulary = Vocabulary(model)
    return [vocabulary.token(word) for word in words.split()]


def _known() -> Iterator[ClaimFigure]:
    """Axes at a cosine of 0.6, in topics that lean on the other axes as the pole would have it, six times in ten."""
    rng, d, pairs = np.random.default_rng(0), 64, 60
    own = np.linalg.qr(rng.standard_normal((d, len(AXES) + 1)))[0].T
    truth = np.sqrt(OVERLAP) * own[:1] + np.sqrt(1 - OVERLAP) * own[1:]
    found: dict[str, list[float]] = {"pairs": [], "no pairs": []}
    for axis in range(len(AXES)):
        paired = _rows(truth, axis, pairs, rng, within=True)
        alone = _rows(truth, axis, pairs, rng, within=False)
        labels, names = np.arange(2 * pairs) % 2 == 0, [row // 2 for row in range(2 * pairs)]
        vectors = {
            "pairs": PoliticalVectors().fit(paired, labels, pairs=names).direction_,
            "no pairs": MeanDifference().fit(alone, labels).direction_,
        }
        for name, vector in vectors.items():
            found[name].append(float(vector.double().numpy() @ truth[axis]))
    least = Figure(min(found["pairs"]), n=len(AXES), how="least cosine with the true axis, over axes")
    yield at_least("axes of which the truth is known, from pairs", least, RECOVERED)
    yield shown(
        "the same, beside topics that lean", least, mean_figure(found["no pairs"], "difference of means, no pairs")
    )


def _rows(truth: np.ndarray, axis: int, pairs: int, rng: np.random.Generator, *, within: bool) -> Float[Tensor, "n d"]:
    """Rows in pairs of either pole; what they lean on of the other axes is their pair's, or follows their own pole."""
    poles = np.tile([1.0, -1.0], pairs)
    follows = np.where(rng.random((2 * pairs, len(truth))) < (1 + OVERLAP) / 2, poles[:, None], -poles[:, None])
    leaning = follows[::2].repeat(2, 0) if within else follows
    leaning[:, axis] = poles
    noise = rng.standard_normal((2 * pairs, truth.shape[1])) / np.sqrt(truth.shape[1])
    return torch.from_numpy(leaning @ truth + noise).float()
