"""The claim of the survey of concept descriptions: measures tell a right description from a near miss and from any
other, and only what steers tells a cause from a reader (2510.01048).

Vectors of fourteen kinds of things after block 20 of the embedded model, in seven pairs of siblings (birds and fish);
and toys in which later layers read a planted direction, or do not, while it is as easily read in both.

Where the card leaves a choice: units are concept vectors, as there is no world of shapes yet; a description is the name
of a kind, a near miss that of its sibling, random ones are all others; the judge is the default one. The control has
sentences of all other kinds in the same frames. Faithfulness is of the first of each pair of siblings, at strengths 2
and 4. "Nearly nothing" is a faithfulness of at most 0.1, "keeps" is up to 0.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from jaxtyping import Float

from covec.activations.sentences import SentenceEncoder
from covec.checks.trials.concept_description_survey import trial
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure
from covec.concepts.judges import Judge, SentenceJudge
from covec.concepts.packaged import neutral_prompts
from covec.concepts.vector import ConceptVector
from covec.find.mean_difference import MeanDifference
from covec.measure import _descriptions as measures
from covec.measure.concept_description_survey import (
    BY_RATINGS,
    BY_TEXTS,
    concept_description_survey,
    largest,
    written_under,
)
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.worlds.things import about
from covec.worlds.toys import toy

SITE = "resid.20"
PAIRS = (
    ("birds", "fish"),
    ("trees", "flowers"),
    ("fruit", "vegetables"),
    ("clothes", "furniture"),
    ("vehicles", "buildings"),
    ("instruments", "sports"),
    ("illnesses", "professions"),
)
APART, NOTHING, KEPT = 0.95, 0.1, 0.05  # the numbers of the rules
Values = Float[np.ndarray, "units"]


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    pairs: int = 7
    known: int = 20  # sentences a kind that its vector is found in
    shown: int = 12  # others, with other things, that show it
    prompts: int = 8
    tokens: int = 15
    toys: int = 5


REDUCED = _Setting(2, 3, 3, 2, 3, 1)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    encode = lru_cache(None)(SentenceEncoder())  # all names judge the same texts
    judge = SentenceJudge(lambda texts: encode(tuple(texts)))
    units = _Units(load("smollm2-135m", dtype="float32"), judge, setting)
    figures: list[ClaimFigure] = []
    for name, values in units.by_text():
        figures += _ordered(name, *values)
    figures += _ordered("faithfulness", *units.faithful())
    return Claim("concept-description-survey", (*figures, *_causal(setting)))


def _ordered(
    name: str, gold: Values, sibling: Values, random: Float[np.ndarray, "units others"]
) -> Iterator[ClaimFigure]:
    """Gold above near miss above random, and gold told from random."""
    how = f"{name}, mean over vectors"
    best, near, far = (mean_figure(one, how) for one in (gold, sibling, random.mean(1)))
    yield above(f"{name}: right description against near miss", best, near)
    yield above(f"{name}: near miss against random description", near, far)
    scores = np.concatenate([gold, random.ravel()])
    area = float(auroc(scores, np.arange(len(scores)) < len(gold)))
    figure = Figure(area, null=0.5, n=len(gold), how=f"AUROC of {name}, right against random descriptions")
    yield at_least(f"{name}: right told from random", figure, APART)


class _Units:
    """Vectors of all kinds, what they do on texts of all kinds, and how the judge rates these by every name."""

    def __init__(self, model: TextModel, judge: Judge, setting: _Setting) -> None:
        self.model, self.judge, self.setting = model, judge, setting
        self.kinds = [kind for pair in PAIRS[: setting.pairs] for kind in pair]
        known = [about(kind, setting.known) for kind in self.kinds]
        rows = model.capture([text for texts in known for text in texts], SITE, "mean")[SITE]
        owner = np.repeat(np.arange(len(self.kinds)), setting.known)
        self.vectors = []
        for place, kind in enumerate(self.kinds):
            found = MeanDifference().fit(rows, owner == place)
            means = found.mean_positive_, found.mean_negative_
            self.vectors.append(ConceptVector.from_direction(kind, SITE, found.direction_, *means))
        self.texts = [text for kind in self.kinds for text in about(kind, setting.shown, unseen=True)]
        self.owner = np.repeat(np.arange(len(self.kinds)), setting.shown)
        read = model.capture(self.texts, SITE, "content/none")
        self.active = np.stack([largest(vector, read) for vector in self.vectors])
        self.ratings = np.stack([judge.rate(kind, self.texts) for kind in self.kinds])

    def by_text(self) -> Iterator[tuple[str, tuple[Values, Values, np.ndarray]]]:
        """Every measure that needs no steering, of every vector by every name."""

        def texts(measure: Callable[..., float], unit: int, said: int) -> float:
            control = (self.owner != unit) & (self.owner != said)
            return measure(self.active[unit][self.owner == said], self.active[unit][control])

        def ratings(measure: Callable[..., float], unit: int, said: int) -> float:
            value = measure(self.active[unit], self.ratings[said])
            return 0.0 if np.isnan(value) else value  # no text was rated so: the description tells nothing

        for family, value in ((BY_TEXTS, texts), (BY_RATINGS, ratings)):
            for name, measure in family.items():
                count = range(len(self.kinds))
                table = np.array([[value(measure, unit, said) for said in count] for unit in count])
                yield name, self._parted(table, list(count))

    def faithful(self) -> tuple[Values, Values, np.ndarray]:
        """What steering along the first of each pair of siblings makes more frequent, by every name."""
        setting, prompts, units = self.setting, neutral_prompts(), list(range(0, len(self.kinds), 2))
        rows = []
        for unit in units:
            written = written_under(
                self.model, self.vectors[unit], prompts[: setting.prompts], (2.0, 4.0), setting.tokens, unit
            )
            shares = [
                [float((self.judge.rate(kind, texts) >= measures.CLEAR).mean()) for texts in written]
                for kind in self.kinds
            ]
            rows.append([measures.faithfulness(steered, unsteered) for unsteered, *steered in shares])
        return self._parted(np.array(rows), units)

    def _parted(self, table: Float[np.ndarray, "units said"], units: list[int]) -> tuple[Values, Values, np.ndarray]:
        """The values by the right name, by the sibling's, and by all others [units, others]."""
        gold = np.array([row[unit] for row, unit in zip(table, units, strict=True)])
        sibling = np.array([row[unit ^ 1] for row, unit in zip(table, units, strict=True)])
        random = np.stack([np.delete(row, [unit, unit ^ 1]) for row, unit in zip(table, units, strict=True)])
        return gold, sibling, random


def _causal(setting: _Setting) -> Iterator[ClaimFigure]:
    """A direction that later layers read, and its copy in a network in which none does."""
    found: dict[tuple[str, bool], list[float]] = {}
    for seed in range(setting.toys):
        for read in (True, False):
            given = dict(trial(True, seed).given)
            made = toy(seed, read=read)
            given["vector"] = replace(given["vector"], model={})  # it reads the same in both
            given |= {"model": made.model, "prompts": made.neutral[:16], "strengths": (2.0, 4.0, 8.0)}
            scores = concept_description_survey(**given, max_new_tokens=8)
            for name in ("cosy", "clarity", "faithfulness"):
                value = scores.figures[name].value
                found.setdefault((name, read), []).append(
                    0.0 if np.isnan(value) else value
                )  # nothing to be faithful to
    how = "mean over toys"
    for name in ("cosy", "clarity"):
        cause, copy = (mean_figure(found[name, read], how) for read in (True, False))
        yield at_least(f"{name} of a copy that nothing reads", copy, cause, KEPT)
    cause, copy = (mean_figure(found["faithfulness", read], how) for read in (True, False))
    yield above("faithfulness of what is read against its copy", cause, copy)
    rule = "at most the baseline"
    yield ClaimFigure("faithfulness of a copy that nothing reads", copy, NOTHING, rule, copy.value <= NOTHING)
