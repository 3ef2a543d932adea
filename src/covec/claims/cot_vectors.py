"""CoT vectors' claim: a learned vector closes the gap that worked steps leave, an extracted one less (2510.00579).

Problems of two steps with a line of worked steps, in the embedded model; how likely it finds the right answer is read
off, for a model of this size gives few. The best block is that of 16 validation problems, all figures are of others.
It trains edits, and may take five minutes. The worked steps end with the answer, so that a vector may carry no more
than what answers look like: the share that the shuffled teacher's vector closes tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from covec.activations.answers import Answered
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.concepts.vector import ConceptVector
from covec.edits.algebra import Add, Edit
from covec.edits.objectives import Reading
from covec.models.load import load
from covec.models.text import TextModel
from covec.statistics.bootstrap import cluster_bootstrap
from covec.statistics.figure import Figure
from covec.steer.cot_vectors import SETTINGS, CotVectors, contexts
from covec.worlds.two_steps import Problem, paired, problems

CLOSED = 0.3  # the number of the rule


@dataclass(frozen=True)
class _Setting:
    """Blocks, problems that train, choose and test, and steps of training."""

    blocks: tuple[int, ...] = (2, 8, 14, 20, 26)
    train: int = 48
    validation: int = 16
    test: int = 48
    steps: int = 60


REDUCED = _Setting((14, 27), 6, 2, 4, 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    given = problems(setting.train + setting.validation + setting.test)
    seen, held = given[: setting.train], given[setting.train :]
    found = {
        kind: {block: _vector(model, seen, block, setting, learned=kind == "learned") for block in setting.blocks}
        for kind in ("learned", "extracted")
    }
    reads = {block: _Held(model, held, setting.validation) for block in setting.blocks}
    return Claim("cot-vectors", tuple(_figures(model, found, reads, seen, setting)))


def _vector(
    model: TextModel, seen: Sequence[Problem], block: int, setting: _Setting, *, learned: bool, shuffled: bool = False
) -> ConceptVector:
    settings = replace(SETTINGS, steps=setting.steps)
    steering = CotVectors(f"resid.{block}", learned, settings)
    (vector,) = steering.fit(model, paired(tuple(seen), shuffled=shuffled)).vectors.values()
    return vector


class _Held:
    """Nats of the answers of problems that no vector saw, under edits of one block."""

    def __init__(self, model: TextModel, held: Sequence[Problem], validation: int) -> None:
        having, lacking = contexts(model, paired(tuple(held)))
        self.validation, self._reading = validation, Reading(lacking)
        self._having = having

    def nats(self, edits: Sequence[Edit]) -> Float[np.ndarray, "n"]:
        """Of every answer, a token."""
        return _nats(self._reading, edits)

    def worked(self) -> Float[np.ndarray, "n"]:
        """With the worked steps."""
        return _nats(Reading(self._having), [])

    def plain(self) -> Float[np.ndarray, "n"]:
        """Without them."""
        return _nats(Reading(self._answered), [])

    @property
    def _answered(self) -> Answered:
        return self._reading.answered


def _nats(reading: Reading, edits: Sequence[Edit]) -> Float[np.ndarray, "n"]:
    found = np.zeros(len(reading.answered))
    with torch.no_grad():
        for first in range(0, len(found), 16):
            rows = range(first, min(first + 16, len(found)))
            said = reading.read(edits, rows)
            for place, row in enumerate(rows):
                found[row] = float(said.losses[said.row == place].mean())
    return found


def _figures(
    model: TextModel,
    found: dict[str, dict[int, ConceptVector]],
    reads: dict[int, _Held],
    seen: Sequence[Problem],
    setting: _Setting,
) -> Iterator[ClaimFigure]:
    first = next(iter(reads.values()))
    worked, plain = first.worked(), first.plain()
    chosen, test = slice(0, setting.validation), slice(setting.validation, None)
    nats = {
        (kind, block): reads[block].nats(vector.add()) for kind, each in found.items() for block, vector in each.items()
    }
    closed = {key: float((plain - value)[test].mean() / (plain - worked)[test].mean()) for key, value in nats.items()}
    best = {kind: min(each, key=lambda block: nats[kind, block][chosen].mean()) for kind, each in found.items()}
    steps, none = (mean_figure(one[test], f"nats a token of the answer, {how}") for one, how in
                   ((worked, "with worked steps"), (plain, "without")))  # fmt: skip
    yield ClaimFigure("worked steps", steps, none, "below the baseline", steps.value < none.value)
    learned, extracted = (
        _share(plain[test], worked[test], nats[kind, best[kind]][test], f"at block {best[kind]}")
        for kind in ("learned", "extracted")
    )
    name = "share of the gap that the learned vector closes"
    yield ClaimFigure(name, learned, CLOSED, "at least the baseline", learned.value >= CLOSED)
    yield above(f"{name}, against the extracted one", learned, extracted)
    block = best["learned"]
    other = _vector(model, seen, block, setting, learned=True, shuffled=True)
    under = reads[block].nats(other.add())[test]
    yield above(f"{name}, against a shuffled teacher's", learned, _share(plain[test], worked[test], under, "shuffled"))
    spread = {kind: float(np.std([closed[kind, block] for block in each], ddof=1)) for kind, each in found.items()}
    stable, loose = (
        Figure(spread[kind], n=len(setting.blocks), how="standard deviation over blocks of the share closed")
        for kind in ("learned", "extracted")
    )
    name = "spread over blocks of the learned vector's share"
    yield ClaimFigure(name, stable, loose, "below the baseline", stable.value < loose.value)
    for block in setting.blocks:
        one, rival = (Figure(closed[kind, block], how=f"share closed, {kind}") for kind in ("learned", "extracted"))
        yield shown(f"share closed at block {block}, learned beside extracted", one, rival)
    yield _random(model, found["learned"][best["learned"]], reads, plain, worked, test)


def _random(
    model: TextModel, vector: ConceptVector, reads: dict[int, _Held], plain: np.ndarray, worked: np.ndarray, test: slice
) -> ClaimFigure:
    drawn = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    edit = Add(site=vector.site, shift=drawn * vector.write.norm() / drawn.norm())
    under = reads[vector.site.block].nats([edit])[test]
    share = _share(plain[test], worked[test], under, "a random vector of the learned one's norm")
    return shown("share closed by a random vector", share)


def _share(plain: np.ndarray, worked: np.ndarray, under: np.ndarray, how: str) -> Figure:
    """How much of the gap between no worked steps and worked steps an edit closes, over problems."""
    gained, gap = plain - under, plain - worked
    value = float(gained.mean() / gap.mean())
    low, high = cluster_bootstrap(value, lambda drawn: (drawn @ gained) / (drawn @ gap), np.arange(len(gap)))
    return Figure(value, low, high, 0.0, len(gap), f"share of the gap closed, {how}")
