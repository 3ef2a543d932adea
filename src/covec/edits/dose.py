"""Doses: how strong edits of a family must be to move what a model says on neutral text by so many nats a token.

Strengths of different methods are in units of their own. The divergence they cause is not: at equal divergence a text
is disturbed as much by one as by the other, and what they do to a concept can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from covec.edits.divergence import Drift
from covec.errors import CovecError

Family = Callable[[float], Any]  # a strength's edits

MOST = 64.0  # times the natural amount, beyond which nobody steers
NEAR = 0.1  # a dose is met to this share of it
_ROUNDS = 8


@dataclass(frozen=True)
class Dose:
    """A strength, the divergence that was wanted of it, and the one that it has, in nats a token.

    Where a family never reaches what was wanted, it is the strength at which it came nearest.
    """

    strength: float
    wanted: float
    nats: float

    @property
    def reached(self) -> bool:
        """Whether the divergence is the one that was wanted, to a tenth of it."""
        return abs(self.nats - self.wanted) <= NEAR * self.wanted


def doses(drift: Drift, family: Family, wanted: Sequence[float], *, most: float = MOST) -> tuple[Dose, ...]:
    """The smallest strengths, from 0 on, at which `family` reaches each of several divergences.

    The divergence is taken to grow with the strength up to there. All doses are looked for together, one batch a round:
    first by the rule that it grows with the square of a small strength, then, between a strength that gives too little
    and one that gives too much, by interpolation or halves.

    Parameters
    ----------
    family
        Edits of a strength; where it refuses one with `CovecError`, larger ones are not tried.
    wanted
        Nats a token, above 0.
    most
        Strengths are not tried beyond it.

    Raises
    ------
    CovecError
        A divergence is not a number above 0, or the family refuses every strength that was tried.
    """
    if bad := [one for one in wanted if not (math.isfinite(one) and one > 0)]:
        raise CovecError(f"a dose is a number of nats a token above 0, not {bad[0]}")
    search = _Search(drift, family, most)
    search.try_all([min(1.0, most)])
    for _ in range(_ROUNDS):
        open_ones = [search.next(one) for one in wanted if not search.settled(one)]
        if not open_ones:
            break
        search.try_all(open_ones)
    return tuple(search.best(one) for one in wanted)


class _Search:
    """What is known of a family: the divergence of every strength that was tried."""

    def __init__(self, drift: Drift, family: Family, most: float) -> None:
        self.drift, self.family, self.most = drift, family, most
        self.known: dict[float, float] = {0.0: 0.0}
        self.refusal: CovecError | None = None

    def try_all(self, strengths: Sequence[float]) -> None:
        made: dict[float, Any] = {}
        for strength in dict.fromkeys(strengths):
            try:
                made[strength] = self.family(strength)
            except CovecError as error:
                last = max(one for one in self.known if one < strength)
                self.refusal, self.most = error, min(self.most, (last + strength) / 2)
        if made:
            self.known |= dict(zip(made, map(float, self.drift.values(list(made.values()))), strict=True))

    def bracket(self, wanted: float) -> tuple[float, float | None]:
        """The last strength that gives too little before the first that gives enough; None where none does."""
        order = sorted(self.known)
        above = next((strength for strength in order if self.known[strength] >= wanted), None)
        return max(one for one in order if above is None or one < above), above

    def next(self, wanted: float) -> float:
        low, high = self.bracket(wanted)
        if high is None:
            grown = low * min(4.0, max(1.1, math.sqrt(wanted / max(self.known[low], 1e-12)))) if low else self.most
            return min(self.most, grown)
        less, more = self.known[low], self.known[high]
        if not low:
            return high * min(0.9, max(1 / 16, math.sqrt(wanted / more))) if math.isfinite(more) else high / 4
        if high / low > 4 or not less or not math.isfinite(more):
            return math.sqrt(low * high)
        share = math.log(wanted / less) / math.log(more / less)
        return low * (high / low) ** min(0.9, max(0.1, share))

    def settled(self, wanted: float) -> bool:
        """Whether nothing is left to try: the dose is met, or the strongest edits do not reach it."""
        low, high = self.bracket(wanted)
        met = self.best(wanted).reached if len(self.known) > 1 else False
        return (
            met or (high is None and low >= self.most * (1 - NEAR)) or (high is not None and high - low < 1e-6 * high)
        )

    def best(self, wanted: float) -> Dose:
        tried = {strength: nats for strength, nats in self.known.items() if strength}
        if not tried:
            raise self.refusal or CovecError("no strength was tried")
        low, high = self.bracket(wanted)
        near = [one for one in (low, high) if one] or list(tried)
        strength = min(near, key=lambda one: abs(self.known[one] - wanted))
        return Dose(strength, wanted, self.known[strength])
