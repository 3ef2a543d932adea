"""SCAV: the smallest shift that brings a probe's probability to where it is wanted.

"Uncovering Safety Risks of Large Language Models through Concept Activation Vector", arXiv:2404.12038.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Edit
from covec.errors import CovecError
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.statistics.intervals import accuracy_figure
from covec.steer._probes import probed
from covec.steer._steering import Steering


@method("scav", verb="steer", needs="model", card="scav")
class Scav(Steering):
    """One logistic probe a block; edits set its probability, where it is not there yet, and move nothing else.

    Blocks are edited from low to high, so that each sees what the ones below have done, on the prompt's last token and
    every written one; only blocks whose probe is right on more than `reliable` of the held-out rows take part. The
    vectors, one a block, are calibrated to give exactly the probe's probability (`model.detect` monitors with them).

    Parameters
    ----------
    probability
        What strength 1 raises the concept to, where it is lower; strength -1 lowers it to 1 minus that. Other strengths
        multiply the log-odds.
    reliable
        Held-out accuracy that a probe must exceed.
    sites
        Where to probe.
    inverse_ridge
        scikit-learn's C, for standardised activations: on raw ones loud dimensions would decide, and a flat probe
        would ask for huge shifts.
    seed
        Of the split: where `examples.splits` does not say otherwise, 60% of the rows, by group or pair, train the
        probes and the rest is held out.
    """

    def __init__(
        self,
        probability: float = 0.999,
        reliable: float = 0.9,
        sites: str | Site | Sequence[str | Site] = "resid.*",
        inverse_ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.probability, self.reliable, self.sites = probability, reliable, sites
        self.inverse_ridge, self.seed = inverse_ridge, seed

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        if not 0.5 < self.probability < 1:
            raise CovecError(
                f"{self.entry.name} raises the concept to a probability between 0.5 and 1, not {self.probability}"
            )
        self.vectors = probed(
            model,
            examples,
            self.sites,
            lambda logits, labels: {"accuracy": accuracy_figure(logits, labels, null=0.5, seed=self.seed)},
            entry=self.entry,
            inverse_ridge=self.inverse_ridge,
            seed=self.seed,
            progress=progress,
        )
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        vectors = self.trusted()
        if not strength:
            return ()
        where = {"below": strength < 0, "position": "last+generated"}
        return tuple(edit for vector in vectors for edit in vector.to_probability(self.limit(strength), **where))

    def limit(self, strength: float) -> float:
        """The probability that a strength stands for."""
        return 1 / (1 + math.exp(-strength * math.log(self.probability / (1 - self.probability))))

    def trusted(self) -> tuple[ConceptVector, ...]:
        """The vectors whose probe is reliable, from low to high; where there is none, `CovecError`."""
        vectors = self._fitted()
        kept = tuple(one for one in vectors.values() if one.figures["accuracy"].value > self.reliable)
        if not kept:
            best = max(vectors.values(), key=lambda one: one.figures["accuracy"].value)
            raise CovecError(
                f"no probe is right on more than {self.reliable:.0%} of the held-out rows (best: {best.site}, "
                f"{best.figures['accuracy'].value:.0%}): give more examples, or lower `reliable`"
            )
        return kept
