"""FLAS: one flow for many concepts, told in words which to follow; time is strength.

"Beyond Steering Vector: Flow-based Activation Steering for Inference-Time Intervention", arXiv:2605.05892; the network
is in `covec.edits.flow`. Sinks (the first token) are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from covec.activations.answers import Answered
from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.edits.flow import Flow, encoded_words, flow
from covec.edits.objectives import NextToken
from covec.edits.trainable import TrainableEdit
from covec.edits.training import Settings, train
from covec.errors import CovecError
from covec.models.plan import Pass, Plan
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

SETTINGS = Settings(steps=120, rate=1e-3, decay=0.01, warmup=10, cosine=True)
TIMES = (0.5, 2.0)  # between which the time of a step is drawn


@method(
    "flas",
    verb="steer",
    needs="model",
    card="flas",
    cannot={
        "strength moves what is written": "a toy does not know the word that tells a concept from the lack of it",
        "what no layer reads moves little": "the same: in a toy both flows lead the same way",
    },
)
class Flas(Steering):
    """A velocity network that moves activations towards the concept that it is told in words.

    It is trained on texts of several concepts at once, and can then be told others. Fitted on the examples of one
    concept it knows two: the concept by its name, and the lack of it. A strength is a time; a negative one follows the
    flow of the lack.

    Parameters
    ----------
    site
        Where activations move.
    settings
        How to train.
    rows
        Texts a step.
    seed
        Of the first tensors, of times and of the order of texts.
    """

    def __init__(
        self, site: str | Site = "resid.67%", settings: Settings = SETTINGS, rows: int = 4, seed: int = 0
    ) -> None:
        self.site, self.settings, self.rows, self.seed = site, settings, rows, seed

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        chosen = examples.check()
        texts = {chosen.name: chosen.positive, f"no {chosen.name}": chosen.negative}
        answered = {name: Answered.whole(model, some) for name, some in texts.items()}
        self.fit_concepts(model, answered, progress=progress)
        self.names = tuple(texts)
        (site,) = model.select(self.site)
        shift = self._mean_shift(model.capture(chosen.inputs, site, "content/none")[site])
        if not bool(shift.any()):
            raise CovecError(
                f"{chosen.name!r} and the lack of it are alike to {model.name}: name the concept in words that it knows"
            )
        common = {**provenance(model, examples, self.entry), "seed": self.seed, "scale_from": "native"}
        scale = float(shift.norm())
        self.vectors = Bank(
            [ConceptVector.from_direction(chosen.name, site, shift, write=shift, scale=scale, **common)]
        )
        return self

    def fit_concepts(self, model: TextModel, texts: Mapping[str, Answered], *, progress: Progress = silent) -> Self:
        """Train one flow for concepts, each told by the words that are its name, on texts of it."""
        every = [text for some in texts.values() for text in some.tokens]
        answers = [ids for some in texts.values() for ids in some.answers]
        which = tuple(place for place, some in enumerate(texts.values()) for _ in some.tokens)
        first = flow(model, self.site, tuple(texts), [item.text for item in every], seed=self.seed)
        objective = _Following(Answered(model, tuple(every), tuple(answers)), rows=self.rows, seed=self.seed)
        (self.flow,) = train([replace(first, concepts=which)], objective, self.settings, progress=progress).edits
        self.model, self.names = model, tuple(texts)
        return self

    def told(self, words: str, time: float = 1.0, steps: int = 3) -> Flow:
        """The flow for a concept in words, known from training or not."""
        if not hasattr(self, "flow"):
            raise CovecError("Flas was not fitted: call fit(model, examples) first")
        if not math.isfinite(time):
            raise CovecError(f"a steering strength must be a finite number, not {time}")
        encoded, counts = encoded_words(self.model, [words])
        return replace(self.flow, words=encoded, counts=counts, concepts=(), time=time, steps=steps, seen=[])

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        self._fitted()
        one = self.told(self.names[0] if strength >= 0 else self.names[1], abs(strength))
        return (one,) if strength else ()

    def _mean_shift(self, rows: Tensor) -> Tensor:
        """How far activations move on average between following the lack and following the concept, halved."""
        now = Pass(Plan(()), 1, 0, len(rows), rows.device)
        with torch.no_grad():
            there, back = (self.told(name).apply(rows[None], now)[0].mean(0) for name in self.names)
        return (there - back) / 2


class _Following(NextToken):
    """The next tokens of texts, each under the flow of its concept for a time that is drawn anew every step."""

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> Tensor:
        rng = np.random.default_rng([self.rows.seed, step, 1])
        timed: list[Any] = [replace(edit, time=float(rng.uniform(*TIMES))) for edit in edits]  # type: ignore[call-arg]
        return super().loss(timed, step)
