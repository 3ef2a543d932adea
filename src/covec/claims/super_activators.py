"""The SuperActivators' claim, for language: only the tail of in-concept tokens tells of a concept (arXiv:2512.05038).

Neutral sentences with one span of words of a topic; vectors of four topics at one middle and one later block of the
embedded model; and the idealised mechanism of the paper's theorems on skewed values. The image part waits for vision
models. The card names no margin for text: the rules of its image check are taken over, and the image check's sentence
about the sparsity.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from sklearn.linear_model import LogisticRegression

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.detect.super_activators import SuperActivators
from covec.models.load import load
from covec.statistics.auroc import f1
from covec.statistics.figure import Figure
from covec.worlds.spans import TOPICS, sentences

SITE = "resid.20"
DELTAS = np.array(SuperActivators.DELTAS)


@dataclass(frozen=True)
class _Setting:
    """How many sentences train, calibrate and test."""

    train: int = 400
    calibration: int = 240
    test: int = 240


REDUCED = _Setting(64, 48, 48)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    world = _World.captured(REDUCED if reduced else _Setting())
    return Claim("super-activators", (*_detection(world), *_tail(world), *_localisation(world), *_theorems()))


@dataclass(frozen=True)
class _Part:
    """Standardised tokens of some sentences, which of them show which topic, and each sentence's topic."""

    rows: Float[np.ndarray, "tokens d"]
    offsets: Int[np.ndarray, "n_plus_1"]
    inside: dict[str, Bool[np.ndarray, "tokens"]]
    after: Bool[np.ndarray, "tokens"]  # tokens of the same sentence that follow the span: they inherit the concept
    topics: np.ndarray

    def having(self, topic: str) -> _Part:
        """Its sentences of one topic."""
        own = self.topics == topic
        kept, sizes = np.repeat(own, np.diff(self.offsets)), np.diff(self.offsets)[own]
        inside = {name: marks[kept] for name, marks in self.inside.items()}
        return _Part(self.rows[kept], np.cumsum([0, *sizes]), inside, self.after[kept], self.topics[own])


@dataclass(frozen=True)
class _World:
    train: _Part
    calibration: _Part
    test: _Part

    @classmethod
    def captured(cls, setting: _Setting) -> _World:
        """One capture of all sentences; standardised by the training tokens, with one norm for the whole set."""
        sizes = (setting.train, setting.calibration, setting.test)
        written = sentences(sum(sizes), seed=0)
        model = load("smollm2-135m")
        tokens = model.tokenize(written.texts, spans=written.spans)
        found = model.capture(written.texts, SITE, "content/none")
        assert found.offsets is not None
        assert found.tokens is not None
        offsets, places, rows = found.offsets.numpy(), found.tokens.numpy(), found[SITE].numpy()
        sentence = np.repeat(np.arange(len(tokens)), np.diff(offsets))
        spans = np.array([item.layout.span for item in tokens])
        inside = (places >= spans[sentence, 0]) & (places < spans[sentence, 1])
        topics = np.array(written.topics)
        known = rows[: offsets[setting.train]]
        middle = known.mean(0)
        rows = (rows - middle) / np.linalg.norm(known - middle, axis=1).mean()
        parts = []
        for start, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True):
            cut = slice(offsets[start], offsets[start + size])
            own = topics[sentence[cut]]
            parts.append(
                _Part(
                    rows[cut],
                    offsets[start : start + size + 1] - offsets[start],
                    {topic: inside[cut] & (own == topic) for topic in TOPICS},
                    places[cut] >= spans[sentence[cut], 1],
                    topics[start : start + size],
                )
            )
        return cls(*parts)


Scorer = Callable[[Float[np.ndarray, "tokens d"]], Float[np.ndarray, "tokens"]]


def _prototype(part: _Part, topic: str) -> Scorer:
    """Cosine to the mean of the in-concept tokens."""
    vector = part.rows[part.inside[topic]].mean(0)
    vector = vector / np.linalg.norm(vector)
    return lambda rows: rows @ vector / np.linalg.norm(rows, axis=1)


def _separator(part: _Part, topic: str) -> Scorer:
    """Logistic unit without bias, on as many out-of-concept tokens as in-concept ones."""
    shown, hidden = np.flatnonzero(part.inside[topic]), np.flatnonzero(~part.inside[topic])
    chosen = np.concatenate([shown, np.random.default_rng(0).choice(hidden, len(shown), replace=False)])
    labels = part.inside[topic][chosen]
    vector = LogisticRegression(fit_intercept=False, max_iter=1000).fit(part.rows[chosen], labels).coef_[0]
    return lambda rows: rows @ vector


def _detection(world: _World) -> Iterator[ClaimFigure]:
    """F1 on test sentences of the tail and of other aggregators, each threshold chosen on calibration sentences."""
    for name, make in (("linear separator", _separator), ("mean prototype", _prototype)):
        found: dict[str, list[float]] = {}
        chosen, tokens = [], []
        for topic in TOPICS:
            scorer = make(world.train, topic)
            one, other = scorer(world.calibration.rows), scorer(world.test.rows)
            labels, truth = world.calibration.topics == topic, world.test.topics == topic
            tail = SuperActivators().fit(one, world.calibration.offsets, labels, world.calibration.inside[topic])
            found.setdefault("tail", []).append(f1(tail.aggregate(other, world.test.offsets), truth, tail.threshold))
            chosen.append(float(tail.delta or 0))
            tokens.append(world.calibration.inside[topic].sum() / labels.sum())
            for rival, aggregate in _RIVALS.items():
                known, unseen = aggregate(one, world.calibration.offsets), aggregate(other, world.test.offsets)
                levels = np.nextafter(np.quantile(known[labels], 1 - DELTAS), -np.inf)
                level = levels[int(np.argmax([f1(known, labels, each) for each in levels]))]
                found.setdefault(rival, []).append(f1(unseen, truth, level))
        own = mean_figure(found.pop("tail"), f"test F1, {name}, mean over {len(TOPICS)} topics at {SITE}")
        control = mean_figure(found.pop("highest token"), "threshold from positive sentences instead of tokens")
        best = max(found, key=lambda rival: np.mean(found[rival]))
        if make is _separator:
            yield above(f"F1 of the tail against the {best}", own, mean_figure(found[best], best), 0.05)
            limit = max(0.3, 3 / float(np.mean(tokens)))
            rule = "at most the baseline: max(0.3, 3 / in-concept tokens a sentence)"
            sparsity = mean_figure(chosen, "sparsity of the highest F1 on calibration sentences")
            yield ClaimFigure("chosen sparsity", sparsity, limit, rule, sparsity.value <= limit)
        else:
            yield shown(f"F1 of the tail, {name}, against the {best}", own, mean_figure(found[best], best))
        yield shown(f"F1 of the tail, {name}, against the highest token (control)", own, control)


def _mean(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return np.add.reduceat(scores, offsets[:-1]) / np.diff(offsets)


def _random(scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    draws = np.random.default_rng(0).random(len(offsets) - 1)
    return scores[offsets[:-1] + (draws * np.diff(offsets)).astype(int)]


_RIVALS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "mean token": _mean,
    "last token": lambda scores, offsets: scores[offsets[1:] - 1],
    "random token": _random,
    "highest token": lambda scores, offsets: np.maximum.reduceat(scores, offsets[:-1]),
}


def _tail(world: _World) -> Iterator[ClaimFigure]:
    """How few tokens outside the concept reach its tail, and how many positive sentences do."""
    outside, follow, reached = [], [], []
    for topic in TOPICS:
        scorer = _separator(world.train, topic)
        labels = world.calibration.topics == topic
        delta = min(0.5, 2 / (world.calibration.inside[topic].sum() / labels.sum()))
        level = np.quantile(scorer(world.calibration.rows)[world.calibration.inside[topic]], 1 - delta)
        fires = scorer(world.test.rows) >= level
        own = np.repeat(world.test.topics == topic, np.diff(world.test.offsets))
        later = own & world.test.after & ~world.test.inside[topic]
        outside.append(fires[~world.test.inside[topic] & ~later].mean())
        follow.append(fires[later].mean())
        positive = world.test.topics == topic
        reached.append(
            np.logical_or.reduceat(fires & world.test.inside[topic], world.test.offsets[:-1])[positive].mean()
        )
    share = mean_figure(outside, "share of out-of-concept test tokens in the tail, min(0.5, 2 / m) of it")
    yield ClaimFigure("out-of-concept tokens in the tail", share, 0.01, "below the baseline", share.value < 0.01)
    yield shown("tokens after the span in the tail", mean_figure(follow, "they inherit the concept"))
    some = mean_figure(reached, "share of positive test sentences with a token of the span in the tail")
    yield ClaimFigure("positive sentences that reach the tail", some, 0.7, "at least the baseline", some.value >= 0.7)


def _localisation(world: _World) -> Iterator[ClaimFigure]:
    """Token F1 within positive test sentences, by one vector and by what each sentence's own tokens make of it."""
    found: dict[str, list[float]] = {}
    for topic in TOPICS:
        scorer, labels = _prototype(world.train, topic), world.calibration.topics == topic
        calibration = world.calibration
        tail = SuperActivators().fit(scorer(calibration.rows), calibration.offsets, labels, calibration.inside[topic])
        known, unseen = calibration.having(topic), world.test.having(topic)
        for name, top in (("one vector", None), ("own tail", False), ("own highest token", True)):
            one, other = (_local(part, scorer, tail, top) for part in (known, unseen))
            levels = np.nextafter(np.quantile(one[known.inside[topic]], 1 - DELTAS), -np.inf)
            level = levels[int(np.argmax([f1(one, known.inside[topic], each) for each in levels]))]
            found.setdefault(name, []).append(f1(other, unseen.inside[topic], level))
    whole = mean_figure(found.pop("one vector"), "token F1, the mean prototype for all sentences")
    for name, values in found.items():
        figure = mean_figure(values, f"token F1 in positive test sentences, mean over {len(TOPICS)} topics")
        yield shown(f"where the concept is, by the {name}", figure, whole)


def _local(part: _Part, scorer: Scorer, tail: SuperActivators, top: bool | None) -> Float[np.ndarray, "tokens"]:
    """Scores of tokens by the vector of all texts (`top` None), or cosines to that of their own sentence."""
    scores = scorer(part.rows)
    if top is None:
        return scores
    own = np.repeat(tail.local_vectors(scores, part.offsets, part.rows, top=top), np.diff(part.offsets), axis=0)
    return (part.rows * own).sum(1) / np.linalg.norm(part.rows, axis=1) / np.linalg.norm(own, axis=1)


def _theorems() -> Iterator[ClaimFigure]:
    """The idealised head on 200 slightly right-skewed values: gaps grow, order stays, skewness rises and then falls."""
    weak, strong = _iterated(0.5, 0.1, 13), _iterated(1.0, 0.3, 6)
    ranges = [np.ptp(values) for values in weak]
    skews = [_skewness(values) for values in weak]
    grows = all(later > sooner for sooner, later in itertools.pairwise(ranges))
    last = Figure(float(ranges[-1]), n=200, how="range after 13 steps, coupling 0.5, gain 0.1")
    yield ClaimFigure("range under weak coupling", last, float(ranges[0]), "grows at every step", grows)
    same = all((np.argsort(values, kind="stable") == np.argsort(weak[0], kind="stable")).all() for values in weak)
    yield ClaimFigure("order of the values", Figure(float(same), n=200), None, "kept at every step", same)
    peak = int(np.argmax(skews))
    rises = 0 < peak < len(skews) - 1
    highest = Figure(float(skews[peak]), n=200, how=f"highest skewness, at step {peak}")
    yield ClaimFigure("skewness under weak coupling", highest, float(skews[0]), "first rises, later falls", rises)
    gaps = all((np.diff(np.sort(later)) >= np.diff(np.sort(sooner)) - 1e-9).all()
               for run in (weak, strong) for sooner, later in itertools.pairwise(run))  # fmt: skip
    smallest = min(float((np.diff(np.sort(run[-1])) / np.diff(np.sort(run[0]))).min()) for run in (weak, strong))
    figure = Figure(smallest, how="smallest growth of a gap, weak and strong coupling")
    yield ClaimFigure("gaps between neighbours", figure, 1.0, "no gap shrinks (theorem 1, any coupling)", gaps)


def _iterated(coupling: float, gain: float, steps: int) -> list[np.ndarray]:
    """a_i + gain * sum_j softmax_j(coupling a_i a_j) a_j, again and again."""
    values = np.sort(np.random.default_rng(0).gamma(400.0, size=200))
    values = (values - values.mean()) / values.std()
    run = [values]
    for _ in range(steps):
        attention = torch.softmax(torch.from_numpy(coupling * np.outer(run[-1], run[-1])), 1).numpy()
        run.append(run[-1] + gain * attention @ run[-1])
    return run


def _skewness(values: np.ndarray) -> float:
    return float(((values - values.mean()) ** 3).mean() / values.std() ** 3)
