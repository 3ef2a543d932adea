"""CoT vectors: what a chain of thought leaves in the stream while the answer is given, added where there is none.

"CoT Vectors: Transferring and Probing the Reasoning Mechanisms of LLMs", arXiv:2510.00579. The weight of the answers'
own loss, the rate and the steps are not given there.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from covec.activations.answers import Answered
from covec.activations.capture import capture_tokens
from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.edits.objectives import Teaching
from covec.edits.trainable import as_vector, zero_shifts
from covec.edits.training import Settings, train
from covec.errors import ExamplesError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

SETTINGS = Settings(steps=60, rate=2e-2, cosine=True)


@method("cot-vectors", verb="steer", needs="model", card="cot-vectors", requires=("pairs", "answer"))
class CotVectors(Steering):
    """One vector that stands for a context, such as worked steps, which it was learned from.

    Examples are pairs, a prompt with the context (positive) and the same without it (negative), with the right answer
    in the column `answer` of either. The learned vector makes the model without the context say what it says with it:
    the divergence of the two, and half of the answers' own loss. The extracted one is the mean difference of what the
    two leave at the tokens of the answer. Either is added at every token but the first.

    Parameters
    ----------
    site
        Where to add it.
    learned
        Whether to learn it, or to extract it.
    settings
        How to train.
    rows
        Examples a step.
    seed
        Of the order of the examples.
    """

    def __init__(
        self,
        site: str | Site = "resid.50%",
        learned: bool = True,
        settings: Settings = SETTINGS,
        rows: int = 4,
        seed: int = 0,
    ) -> None:
        self.site, self.learned, self.settings, self.rows, self.seed = site, learned, settings, rows, seed

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        (site,) = model.select(self.site)
        with_context, without = contexts(model, examples)
        common = {**provenance(model, examples, self.entry), "seed": self.seed}
        if self.learned:
            objective = Teaching(without, with_context, rows=self.rows, seed=self.seed)
            start = zero_shifts(model, site, examples.negative)
            trained = train(start, objective, self.settings, progress=progress)
            vector = as_vector(examples.name, trained.edits, **common)
        else:
            vector = _extracted(examples.name, site, with_context, without, common)
        self.vectors = Bank([vector])
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        (vector,) = self._fitted().values()
        added: tuple[Edit, ...] = vector.add(strength)
        return added if strength else ()


def contexts(model: TextModel, examples: Examples) -> tuple[Answered, Answered]:
    """The prompts with the context and those without it, in one order, each with its answer.

    Raises
    ------
    ExamplesError
        The examples are no pairs, or have no answers.
    """
    pairs, answers = examples.check().pairs, examples.column("answer")
    if pairs is None or answers is None:
        what = "pairs (a prompt with the context and one without)" if pairs is None else "column `answer`"
        raise ExamplesError(f"{examples.name} has no {what}, which cot-vectors learns from: give it")
    order = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}

    def answered(having: bool) -> Answered:
        rows = sorted(np.flatnonzero(examples.labels == having), key=lambda row: order[pairs[row]])
        return Answered.of(model, [examples.inputs[row] for row in rows], [str(answers[row]) for row in rows])

    return answered(True), answered(False)


def _extracted(
    name: str, site: Site, with_context: Answered, without: Answered, common: dict[str, Any]
) -> ConceptVector:
    """The mean difference over the tokens of the answers, of which each example counts the same."""
    where = Position("answer", "mean")
    having, lacking = (
        capture_tokens(one.model, one.complete, [site], [where])[where][site].mean(0) for one in (with_context, without)
    )
    shift = having - lacking
    scale = float(shift.norm())
    return ConceptVector.from_direction(name, site, shift, write=shift, scale=scale, scale_from="native", **common)
