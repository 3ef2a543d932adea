"""ACE's claim: what a model says depends on the amount that is set, and no longer on the prompt (arXiv:2411.09003).

Sentiment of film and hotel reviews that have just been begun ("The movie was wonderful and we"), at one block of the
embedded model, on all tokens but the first. Vectors are fitted on some words and things, everything else is measured on
prompts of other words and things: half of them choose the block, the other half is reported.

Where the card leaves a choice: the behaviour is the readout (mean log-probability of six verbs of praise, as the next
word, minus that of six of blame); the best block is the one with the smallest ratio of spreads over both amounts;
"near a reference" is within a quarter of the way between the references.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import mean_figure, shown
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_texts
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.edits.divergence import Divergence
from covec.edits.joint import set_scores
from covec.measure._readout import Continuation, Readout
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.steer.affine_concept_editing import AffineConceptEditing

THINGS = "movie hotel dinner concert garden holiday lesson party museum book cafe tour"
GOOD = "wonderful excellent lovely perfect delightful amazing brilliant superb great charming fantastic beautiful"
BAD = "terrible awful horrible dreadful boring disgusting miserable ugly bad dull disappointing poor"
PRAISE, BLAME = "loved enjoyed liked adored laughed smiled", "hated disliked regretted complained left cried"
SPREAD, NEAR = 0.25, 0.25  # the numbers of the rules
AMOUNTS = (0.0, 1.0)


@dataclass(frozen=True)
class _Setting:
    """Things and words of the prompts, blocks of the sweep, neutral texts."""

    things: int = 12
    words: int = 12
    blocks: tuple[int, ...] = (12, 14, *range(16, 28))
    neutral: int = 50


REDUCED = _Setting(4, 2, (12, 24), 4)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    known, choosing, tested = _prompts(setting)
    sites = [Site("resid", block) for block in setting.blocks]
    vector = next(iter(AffineConceptEditing(sites).fit(model, known).vectors.values()))
    at_block = {site.block: _Spread(model, vector.at(site), choosing) for site in sites}
    best = min(at_block, key=lambda block: at_block[block].ratios().mean())
    place = vector.at(Site("resid", best))
    figures = [*_Spread(model, place, tested).figures(f"at block {best}"), *_neutral(model, place, setting)]
    return Claim("affine-concept-editing", (*figures, *_sweep(at_block)))


def _prompts(setting: _Setting) -> tuple[Examples, Examples, Examples]:
    """Prompts that fit, choose and test: no two share a thing, and the first no word with the others."""
    things, half, words = THINGS.split()[: setting.things], setting.things // 2, setting.words // 2
    seen, unseen = slice(words), slice(words, setting.words)

    def made(things: Sequence[str], words: slice) -> Examples:
        sides = (side.split()[words] for side in (GOOD, BAD))
        good, bad = ([f"The {thing} was {word} and we" for thing, word in product(things, side)] for side in sides)
        return Examples.from_lists(good, bad, name="sentiment")

    return made(things[:half], seen), made(things[half::2], unseen), made(things[half + 1 :: 2], unseen)


class _Spread:
    """How far prompts of both classes are apart in what the model says, under each kind of edit at one block."""

    def __init__(self, model: TextModel, vector: ConceptVector, prompts: Examples) -> None:
        words = [Continuation(" " + word, side is PRAISE) for side in (PRAISE, BLAME) for word in side.split()]
        readout = Readout(model, vector.site, Position("content"), prompts.inputs, words)
        self._positive = prompts.labels

        def means(edit: Edit | None) -> np.ndarray:
            values = readout.values(edit)
            return np.array([values[self._positive].mean(), values[~self._positive].mean()])

        self.plain = means(None)
        self.set = {amount: means(set_scores(vector, amount - 0.5)[0]) for amount in AMOUNTS}
        self.added = {amount: means(vector.add(amount)[0]) if amount else self.plain for amount in AMOUNTS}
        self.origin = means(vector.ablate(to="zero")[0])

    def ratios(self) -> np.ndarray:
        """Spread under ACE, as a share of that under addition, for both amounts."""
        return np.array([abs(np.diff(self.set[one])) / abs(np.diff(self.added[one])) for one in AMOUNTS])[:, 0]

    def figures(self, where: str) -> Iterator[ClaimFigure]:
        count, (high, low) = len(self._positive), self.plain
        reach = NEAR * abs(high - low)
        for amount in AMOUNTS:
            own, other = (float(abs(np.diff(one[amount])[0])) for one in (self.set, self.added))
            figure = Figure(own, n=count, how=f"nats between the prompts' classes {where}")
            rule = f"at most {SPREAD:g} times the baseline: addition"
            yield ClaimFigure(f"spread at amount {amount:g}", figure, other, rule, own <= SPREAD * other)
        for amount, reference, name in ((0.0, low, "negative"), (1.0, high, "positive")):
            figure = Figure(float(self.set[amount].mean()), n=count, how=f"readout of all prompts {where}")
            rule = f"within {NEAR:g} of the way between the references of the baseline: unedited {name} prompts"
            near = abs(figure.value - reference) <= reach
            yield ClaimFigure(f"readout at amount {amount:g}", figure, float(reference), rule, bool(near))
        middle = float(self.origin.mean())
        astray = min(abs(middle - low), abs(middle - high)) > reach
        figure = Figure(middle, n=count, how=f"readout of all prompts {where}, references {low:.2f} and {high:.2f}")
        rule = f"further than {NEAR:g} of the way between the references from both"
        yield ClaimFigure("readout under ablation to the origin", figure, None, rule, bool(astray))


def _neutral(model: TextModel, vector: ConceptVector, setting: _Setting) -> Iterator[ClaimFigure]:
    """What the amount 0, and ablation to the origin, cost on neutral text."""
    damage = Divergence(model, vector.site, neutral_texts()[: setting.neutral])
    part = vector.parts[vector.site]
    assert part.mean_negative is not None
    away = abs(float(part.direction[0] @ part.mean_negative) / vector.scale)
    how = f"nats a token on neutral text; the reference is {away:.2f} times the class difference from the origin"
    own, origin = damage.value(set_scores(vector, -0.5)[0]), damage.value(vector.ablate(to="zero")[0])
    figure, beside = Figure(own, n=damage.count, how=how), Figure(origin, n=damage.count, how="ablation to the origin")
    if away > 1:
        yield ClaimFigure("damage at amount 0", figure, beside, "below the baseline", own < origin)
    else:
        yield shown("damage at amount 0", figure, beside)


def _sweep(at_block: dict[int, _Spread]) -> Iterator[ClaimFigure]:
    for block, spread in at_block.items():
        how = f"spread as a share of addition's at block {block}, mean over both amounts, choosing prompts"
        yield shown(f"ratio at block {block}", mean_figure([spread.ratios().mean()], how))
