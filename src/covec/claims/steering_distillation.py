"""Subliminal learning's claim: a student of a steered teacher learns the teacher's vector (arXiv:2606.00995).

A small transformer on walks on a graph of words, a random vector at its second block, and students that are trained in
full on what the teacher writes; the words that the vector speaks for are never written. All numbers are means over
three vectors. The emergence score is the cosine of the vector, added at every token, and of what training did to the
stream on clean texts, mean over all tokens. Students stop at one training loss; the rate of plain gradient descent is
the one of three that reaches it first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.edits.algebra import SetCoordinate
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds.steering_distillation import (
    ALL,
    SITE,
    Student,
    Teacher,
    base,
    logits,
    stream,
    taught,
    walks,
)  # fmt: skip

EMERGED, CLEAN, STRANGER, REMOVED = 0.4, 0.1, 0.15, 0.5  # the numbers of the rules
RATES = {"adam": (1e-3,), "sign": (3e-4,), "sgd": (0.1, 0.3, 1.0)}
LESS = 0.9  # of what Adam's whole run gains, at which all stop


@dataclass(frozen=True)
class _Setting:
    """Vectors, texts, steps of learning the language and from the teacher, and of gradient descent at most."""

    seeds: int = 3
    texts: int = 4000
    language: int = 500
    steps: int = 250
    most: int = 1500


REDUCED = _Setting(2, 64, 20, 6, 8)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    own, stranger = (base(seed, setting.language) for seed in (0, 1))
    trials = [_Trial.run(own, stranger, setting, seed) for seed in range(setting.seeds)]
    return Claim("steering-distillation", tuple(_figures(trials)))


@dataclass(frozen=True)
class _Trial:
    """Scores of one vector's students, and the share of the shift that is left without the student's vector."""

    scores: dict[str, float]
    left: float
    losses: dict[str, float]

    @classmethod
    def run(cls, own: TextModel, stranger: TextModel, setting: _Setting, seed: int) -> _Trial:
        teacher, clean = Teacher.steered(own, seed), walks(64, np.random.default_rng(100 + seed))
        texts, plain = (teacher.written(setting.texts, seed, steered=steered) for steered in (True, False))
        whole = taught(own, texts, optimiser="adam", rate=RATES["adam"][0], steps=setting.steps)
        first = taught(own, texts, optimiser="sgd", rate=1e-9, steps=20).loss
        until = first - LESS * (first - whole.loss)
        students = {name: _reached(own, texts, name, until, setting) for name in RATES}
        like_adam: dict[str, Any] = {"optimiser": "adam", "rate": RATES["adam"][0], "steps": setting.steps}
        pairs = {name: (own, student) for name, student in students.items()}
        pairs["clean"] = own, taught(own, plain, **like_adam)
        pairs["stranger"] = stranger, taught(stranger, texts, **like_adam)
        moved = {name: student.vector(before, clean) for name, (before, student) in pairs.items()}
        scores = {name: float(cosine_similarity(one, teacher.vector, dim=0)) for name, one in moved.items()}
        losses = {name: student.loss for name, student in students.items()}
        return cls(scores, _left(own, students["adam"], teacher, clean), losses)


def _reached(model: TextModel, texts: Int[Tensor, "n length"], name: str, until: float, setting: _Setting) -> Student:
    """The student that reaches the loss in the fewest steps, or comes nearest to it."""
    most = setting.most if name == "sgd" else setting.steps
    found = [taught(model, texts, optimiser=name, rate=rate, steps=most, until=until) for rate in RATES[name]]
    return min(found, key=lambda student: (max(0.0, student.loss - until), student.steps))


def _left(own: TextModel, student: Student, teacher: Teacher, ids: Int[Tensor, "n length"]) -> float:
    """The share of the student's shift of logits towards the teacher that is left without the student's vector.

    Its coordinate along that is set to the mean that it has in the base model.
    """
    direction = normalize(student.vector(own, ids), dim=0)
    usual = (stream(own, ids) @ direction).mean()
    edit = SetCoordinate(site=SITE, directions=direction[None], targets=usual[None], position=ALL)
    before, target = logits(own, ids), teacher.logits(ids)
    shifts = [(logits(student.model, ids, edits) - before, target - before) for edits in ([], [edit])]
    towards = [float((_centred(moved) * _centred(wanted)).sum()) for moved, wanted in shifts]
    return towards[1] / towards[0]


def _centred(rows: Float[Tensor, "m v"]) -> Float[Tensor, "m v"]:
    return rows - rows.mean(1, keepdim=True)


def _figures(trials: list[_Trial]) -> Iterator[ClaimFigure]:
    def score(name: str, what: str) -> Figure:
        return mean_figure([trial.scores[name] for trial in trials], f"cosine with the teacher's vector, {what}")

    adam = score("adam", "Adam")
    yield ClaimFigure("emergence under Adam", adam, EMERGED, "at least the baseline", adam.value >= EMERGED)
    sign, name = score("sign", "signs of gradients"), "emergence under signs of gradients"
    yield ClaimFigure(name, sign, EMERGED, "at least the baseline", sign.value >= EMERGED)
    yield above("emergence under Adam, against gradient descent", adam, score("sgd", "gradient descent"))
    controls = ("clean", CLEAN, "on the base model's own texts"), ("stranger", STRANGER, "from other weights")
    for name, limit, what in controls:
        other = score(name, what)
        rule = "at most the baseline, either way"
        yield ClaimFigure(f"emergence, {what}", other, limit, rule, abs(other.value) <= limit)
    left = mean_figure([trial.left for trial in trials], "share of the shift of logits that is left")
    rule = "at most the baseline"
    yield ClaimFigure("shift without the student's vector", left, REMOVED, rule, left.value <= REMOVED)
    drawn = torch.randn(1000, 64, generator=torch.Generator().manual_seed(0))
    chance = float(cosine_similarity(drawn[:500], drawn[500:]).abs().quantile(0.95))
    yield shown("cosines of random vectors", Figure(chance, n=500, how="95% point of their size in 64 dimensions"))
    losses = {key: mean_figure([trial.losses[key] for trial in trials], "nats a token") for key in RATES}
    for name in ("sign", "sgd"):
        yield shown(f"training loss at the end, {name} beside Adam", losses[name], losses["adam"])
