"""GCAV: what is missing of a wanted probability is added, block by block, and of several concepts together.

"Controlling Large Language Models Through Concept Activation Vectors", arXiv:2501.05764.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from covec.edits.algebra import Edit
from covec.edits.programs import within_limits
from covec.errors import CovecError
from covec.models.sites import Site
from covec.registry import method
from covec.steer.scav import Scav


@method("gcav-generation", verb="steer", needs="model", card="gcav-generation")
class GcavGeneration(Scav):
    """A strength for every token and block: the least that brings a probe's probability to its limit.

    With sigmoid(w . e + b) the probe of a block, e moves by (logit(p) - b - w . e) / |w| along w where the probability
    falls short of p. One concept alone is SCAV's algebra, with another limit. `together` steers by several: shifts for
    one concept change the probability of the others, so that all strengths come from one linear program a token.

    The paper fits its probes to raw activations; here, as in SCAV, they see standardised ones.

    Parameters
    ----------
    probability
        What strength 1 raises the concept to, where it is lower; strength -1 lowers it to 1 minus that. Other strengths
        multiply the log-odds.
    reliable, sites, inverse_ridge, seed
        As those of SCAV.
    """

    def __init__(
        self,
        probability: float = 0.9999,
        reliable: float = 0.9,
        sites: str | Site | Sequence[str | Site] = "resid.*",
        inverse_ridge: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(probability, reliable, sites, inverse_ridge, seed)


def together(steerings: Sequence[GcavGeneration], strengths: Sequence[float]) -> tuple[Edit, ...]:
    """Edits that bring several fitted concepts to their limits at once; a strength of 0 leaves its concept out.

    Raises
    ------
    CovecError
        A strength is not finite, or two limits contradict one another.
    """
    if len(steerings) != len(strengths):
        raise CovecError(f"{len(steerings)} concepts and {len(strengths)} strengths: give one strength a concept")
    if wrong := [strength for strength in strengths if not math.isfinite(strength)]:
        raise CovecError(f"a steering strength must be a finite number, not {wrong[0]}")
    asked = [(one, strength) for one, strength in zip(steerings, strengths, strict=True) if strength]
    trusted = [(vector, one.limit(strength), strength > 0) for one, strength in asked for vector in one.trusted()]
    edits: list[Edit] = []
    for site in sorted({vector.site for vector, _, _ in trusted}, key=lambda site: site.block):
        here = [row for row in trusted if row[0].site == site]
        vectors, limits, raised = (list(column) for column in zip(*here, strict=True))
        edits += within_limits(vectors, limits, raised, position="last+generated")
    return tuple(edits)
