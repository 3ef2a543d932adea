"""Concept shift vectors' claim: a concept plus the mean shift of its samples is the fine-tuned concept (2501.03012).

The embedded model is tuned to tell the colour in every caption. Its rows at the noun, after the last block, are
clustered before and after. Shifts are made of one half of the captions, tuned concepts of the other.

Where the card leaves a choice: the last four blocks are trained; five halvings are averaged. The paper's steering of
answers, and its images, are not tried here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.claims._tuning import tuned
from covec.measure.concept_shift_vectors import ConceptShifts, concept_shift_vectors
from covec.models.load import load
from covec.models.pair import ModelPair
from covec.models.sites import Site
from covec.models.vocabulary import Vocabulary
from covec.worlds.captions import beginnings, coloured

CLOSER, RECOVERED = 0.8, 0.3  # the numbers of the rules
WORDS = 15  # tokens that the head gives a concept


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    beginnings: int = 200
    captions: int = 40
    steps: int = 24
    blocks: int = 4
    concepts: int = 8
    halvings: int = 5


REDUCED = _Setting(32, 4, 2, 1, 4, 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    base = load("smollm2-135m", dtype="float32")
    pair = ModelPair(base, tuned(base, coloured(setting.captions), steps=setting.steps, blocks=setting.blocks))
    site = Site("resid", base.blocks - 1)
    before, after = (rows[site] for rows in pair.capture(beginnings()[: setting.beginnings], site, "last"))
    found = [
        concept_shift_vectors(before, after, concepts=setting.concepts, seed=seed) for seed in range(setting.halvings)
    ]
    said = _said(found[0], Vocabulary(base))
    return Claim("concept-shift-vectors", (*_recovered(found), *said))


def _recovered(found: Sequence[ConceptShifts]) -> Iterator[ClaimFigure]:
    """How much nearer concepts come by their own shift, by another's and by the mean of all."""
    over = f"mean over {len(found)} halvings"
    closer = mean_figure([one.closer.value for one in found], f"share of concepts, {over}")
    yield at_least("concepts whose cosine with the tuned one rises", closer, CLOSER)
    own = mean_figure([one.recovered.value for one in found], f"share of the distance to the tuned concept, {over}")
    other = mean_figure([one.recovered.null or 0.0 for one in found], f"the shift of another concept, {over}")
    everywhere = mean_figure([one.recovered_globally.value for one in found], f"the mean shift of all, {over}")
    yield shown("distance that a shift covers, expected above 0.3", own, RECOVERED)
    yield above("distance that a shift covers, beside another concept's shift", own, other)
    between = other.value <= everywhere.value <= own.value
    name = "the mean shift of all covers more than another's, less than the own"
    yield ClaimFigure(name, everywhere, own, "between another concept's shift and the own", between)
    agreement = mean_figure([one.agreement for one in found], f"Spearman over concepts, {over}")
    yield shown("consistency of shifts and what they cover", agreement, 0.0)


def _said(found: ConceptShifts, vocabulary: Vocabulary) -> Iterator[ClaimFigure]:
    """Share of the tuned concepts' words that the shifted ones have, beside those that the original ones have."""
    shifted, plain, tuned_words = (
        [set(row) for row in vocabulary.logits(concepts).topk(WORDS).indices.tolist()]
        for concepts in (found.concepts + found.shifts, found.concepts, found.tuned)
    )
    shares = [
        [len(one & words) / WORDS for one, words in zip(concepts, tuned_words, strict=True)]
        for concepts in (shifted, plain)
    ]
    own, other = (mean_figure(one, f"share of {WORDS} tokens, over concepts") for one in shares)
    yield shown("tokens of the tuned concepts that shifted concepts have, beside original ones", own, other)
