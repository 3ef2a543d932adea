"""Bias probes and gated steering: texts are moved towards neutral wording only where a probe finds them biased.

"Activation Steering for Bias Mitigation: An Interpretable Approach to Safer LLMs", arXiv:2508.09019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

import numpy as np
from jaxtyping import Bool, Float

from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add, Edit, Gate
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.registry import method
from covec.statistics.auroc import auroc
from covec.statistics.figure import Figure
from covec.steer._probes import probed
from covec.steer._steering import Steering


@method("bias-probe-steer", verb="steer", needs="model", card="bias-probe-steer")
class BiasProbeSteer(Steering):
    """A logistic probe a block, and the difference of means at one late block, added where the probe there asks for it.

    With neutral statements as positives and biased ones as negatives, strength 1 adds mean(neutral) - mean(biased) to
    every token whose probability of being biased exceeds `threshold`; a negative strength subtracts it where the text
    is not. With `threshold=0` it acts everywhere.

    Every vector has the `auroc` of its probe on held-out rows. Split by template (`groups`): else the words of one
    sentence are on both sides, and any probe is perfect.

    Parameters
    ----------
    threshold
        Probability of the class that is steered away from, above which a token is changed.
    block
        Where to steer; of the blocks in the last third, the one with the best held-out AUROC unless given.
    sites
        Where to probe.
    inverse_ridge
        scikit-learn's C, for standardised activations.
    seed
        Of the split: 60% of the rows, by group or pair, train the probes and the rest is held out.
    """

    def __init__(
        self,
        threshold: float = 0.5,
        block: int | None = None,
        sites: str | Site | Sequence[str | Site] = "resid.*",
        inverse_ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.threshold, self.block, self.sites = threshold, block, sites
        self.inverse_ridge, self.seed = inverse_ridge, seed

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        if not 0 <= self.threshold < 1:
            raise CovecError(f"a threshold is a probability from 0 to below 1, not {self.threshold}")
        self.vectors = probed(
            model,
            examples,
            self.sites,
            _area,
            entry=self.entry,
            inverse_ridge=self.inverse_ridge,
            seed=self.seed,
            progress=progress,
        )
        return self

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        if not math.isfinite(strength):
            raise CovecError(f"a steering strength must be a finite number, not {strength}")
        vectors = list(self._fitted().values())
        if not strength:
            return ()
        late = vectors[-max(1, len(vectors) // 3) :]
        if self.block is not None:
            late = [one for one in vectors if one.site.block == self.block]
        if not late:
            raise CovecError(f"block {self.block} was not probed: leave `block` out, or name its site in `sites`")
        best = max(late, key=lambda one: one.figures["auroc"].value)
        added: tuple[Add, ...] = best.add(strength, position=Position("content"), gate=self.gate(best, strength > 0))
        return added

    def gate(self, vector: ConceptVector, raised: bool) -> Gate | None:
        """Open where the probability of what is steered away from exceeds the threshold; none where that is 0."""
        if not self.threshold:
            return None
        assert vector.calibration is not None
        slope, offset = vector.calibration
        level = math.log(self.threshold / (1 - self.threshold))
        # What is steered away from is the lack of the concept, whose log-odds are minus those of the concept.
        score = ((-level if raised else level) - offset) / slope
        return Gate.of(vector, threshold=score, above=not raised)


def _area(logits: Float[np.ndarray, "m"], labels: Bool[np.ndarray, "m"]) -> dict[str, Figure]:
    return {"auroc": Figure(float(auroc(logits, labels)), null=0.5, n=len(labels), how="AUROC on held-out rows")}
