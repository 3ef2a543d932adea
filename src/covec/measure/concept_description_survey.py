"""How well a description fits a concept vector, from the input's side and from the output's.

The measures that "Interpreting Language Models Through Concept Descriptions: A Survey" (arXiv:2510.01048) collects:
CoSy (arXiv:2405.20331), FADE (arXiv:2502.16994), detection and simulation. Each stands beside what other descriptions
get of the same vector: a measure that a random description does as well in says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from covec.activations.rows import Activations
from covec.concepts.judges import Judge
from covec.concepts.vector import ConceptVector
from covec.errors import ExamplesError
from covec.measure import _descriptions as measures
from covec.models.text import TextModel
from covec.registry import method
from covec.statistics.figure import Figure

STRENGTHS = (-4.0, -2.0, -1.0, 1.0, 2.0, 4.0)  # in units of the concept
ENOUGH = 0.5  # clarity and responsiveness from which on it makes sense to steer
BY_TEXTS: dict[str, Callable[..., float]] = {
    "cosy": measures.cosy_auc,
    "difference": measures.mean_difference,
    "clarity": measures.clarity,
}
BY_RATINGS: dict[str, Callable[..., float]] = {
    "responsiveness": measures.responsiveness,
    "purity": measures.purity,
    "detection": measures.detection,
    "simulation": measures.simulation,
}
_DRAWS = 200


@dataclass(frozen=True)
class DescriptionScores:
    """What speaks for a description, by measure, each beside the mean over other descriptions.

    `cosy`, `difference` and `clarity` compare texts that show what is described with a control; `responsiveness`,
    `purity`, `detection` and `simulation` what the vector does on all texts with how clearly a judge finds them to show
    it; `faithfulness` what is written under steering, where prompts were given. `rated` counts the texts that the judge
    found to show it clearly, perhaps, and not.
    """

    description: str
    figures: dict[str, Figure]
    rated: tuple[int, int, int] = (0, 0, 0)
    p: float = field(default=float("nan"))  # of cosy

    @property
    def figure(self) -> Figure:
        """The chance that the vector is more active on a text that shows what is described."""
        return self.figures["cosy"]

    def __str__(self) -> str:
        width = max(map(len, self.figures)) + 2
        return "\n".join([self.description, *(f"  {name:<{width}}{one}" for name, one in self.figures.items())])


@method("concept-description-survey", verb="measure", needs="model", card="concept-description-survey")
def concept_description_survey(
    model: TextModel,
    vector: ConceptVector,
    description: str,
    *,
    shown: Sequence[str],
    control: Sequence[str],
    others: Mapping[str, Sequence[str]],
    judge: Judge,
    prompts: Sequence[str] = (),
    strengths: Sequence[float] = STRENGTHS,
    max_new_tokens: int = 30,
    seed: int = 0,
) -> DescriptionScores:
    """How well `description` fits `vector`.

    The activation of a text is the score of its token of largest score, of either sign.

    Parameters
    ----------
    shown
        Texts that show what is described: made from the description, or labelled. They should share the style of
        `control`, or it is the style that is measured.
    control
        Texts of no particular content.
    others
        Other descriptions, those of other vectors, and texts that show each: the null.
    judge
        Rates all these texts, and what is written, by a description.
    prompts
        Openings that are continued under steering; without any there is no `faithfulness`. It is NaN where clarity or
        responsiveness is below one half: there is nothing to be faithful to.

    Raises
    ------
    ExamplesError
        There are no texts of one kind, no other description, or the description is empty.
    """
    if not description.strip():
        raise ExamplesError("there is nothing to measure: the description is empty")
    if not shown or not control or not others or not all(map(len, others.values())):
        raise ExamplesError("a description is measured by texts that show it, a control, and others with their texts")
    texts = [*control, *shown, *(text for group in others.values() for text in group)]
    activation = activations(model, vector, texts)
    ends = np.cumsum([len(control), len(shown), *map(len, others.values())])[:-1]
    control_part, own, *other_parts = np.split(activation, ends)
    ratings, *other_ratings = (judge.rate(one, texts) for one in (description, *others))
    figures = {}
    for name, measure in BY_TEXTS.items():
        null = _mean([measure(part, control_part) for part in other_parts])
        figures[name] = _figure(measure, own, control_part, null, seed, paired=False)
    low, high = measures.cosy_auc_ends(own, control_part)
    figures["cosy"] = Figure(figures["cosy"].value, low, high, figures["cosy"].null, figures["cosy"].n, "AUROC")
    for name, measure in BY_RATINGS.items():
        null = _mean([measure(activation, other) for other in other_ratings])
        figures[name] = _figure(measure, activation, ratings, null, seed, paired=True)
    if prompts:
        enough = min(figures["clarity"].value, figures["responsiveness"].value) >= ENOUGH
        write = partial(written_under, model, vector, prompts, strengths, max_new_tokens, seed)
        figures["faithfulness"] = _faithfulness(write, judge, description, others, len(prompts), enough)
    clear, absent = int((ratings >= measures.CLEAR).sum()), int((ratings < measures.ABSENT).sum())
    rated = (clear, len(texts) - clear - absent, absent)
    return DescriptionScores(description, figures, rated, measures.cosy_p(own, control_part))


def activations(model: TextModel, vector: ConceptVector, texts: Sequence[str]) -> Float[np.ndarray, "n"]:
    """The score of each text's token of largest size."""
    rows = model.capture(list(texts), vector.site, "content/none")
    return largest(vector, rows)


def largest(vector: ConceptVector, rows: Activations) -> Float[np.ndarray, "n"]:
    """The same, of texts whose tokens have been read."""
    scores = vector.score(rows[vector.site]).double().numpy()
    assert rows.offsets is not None
    starts = rows.offsets[:-1].numpy()
    high, low = np.maximum.reduceat(scores, starts), np.minimum.reduceat(scores, starts)
    return np.where(high >= -low, high, low)


def _figure(
    measure: Callable[..., float], one: np.ndarray, other: np.ndarray, null: float, seed: int, *, paired: bool
) -> Figure:
    """A measure with the interval of a bootstrap over texts; NaN where it could not be had."""
    value, rng = measure(one, other), np.random.default_rng(seed)
    draws = []
    for _ in range(_DRAWS):
        rows = rng.integers(len(one), size=len(one))
        draws.append(measure(one[rows], other[rows if paired else rng.integers(len(other), size=len(other))]))
    count = len(one) if paired else len(one) + len(other)
    if np.isnan(value) or np.isnan(draws).all():
        return Figure(value, null=null, n=count, how="no text of one kind was rated")
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return Figure(value, min(low, value), max(high, value), null, count, "bootstrap over texts")


def written_under(
    model: TextModel,
    vector: ConceptVector,
    prompts: Sequence[str],
    strengths: Sequence[float],
    max_new_tokens: int,
    seed: int,
) -> list[list[str]]:
    """What is written after the prompts, not steered first and then at every strength."""
    cells = [(strength, prompt) for strength in (0.0, *strengths) for prompt in prompts]
    edits: list[Any] = [vector.add(strength) if strength else () for strength, _ in cells]
    options: dict[str, Any] = {"do_sample": True, "seed": seed, "max_new_tokens": max_new_tokens}
    texts = model.generate([prompt for _, prompt in cells], edits=edits, **options)
    return [texts[start : start + len(prompts)] for start in range(0, len(texts), len(prompts))]


def _faithfulness(
    write: Callable[[], list[list[str]]],
    judge: Judge,
    description: str,
    others: Mapping[str, Sequence[str]],
    count: int,
    enough: bool,
) -> Figure:
    """Of the texts that did not show it unsteered, the share that the best strength makes show it."""
    if not enough:
        return Figure(float("nan"), n=count, how="clarity or responsiveness is below one half")
    written = write()

    def share(said: str) -> float:
        unsteered, *steered = (float((judge.rate(said, texts) >= measures.CLEAR).mean()) for texts in written)
        return measures.faithfulness(steered, unsteered)

    null = _mean([share(other) for other in others])
    return Figure(share(description), null=null, n=count, how="share of what was left to win, at the best strength")


def _mean(values: Sequence[float]) -> float:
    """Of those that could be had."""
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")
