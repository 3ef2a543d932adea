"""Function vectors' claim: the outputs of a few heads make a model do a task that no example shows (2310.15213).

Four tasks that the embedded model does in context. Half of each task's words give the vector and choose where it is
added; the other half is asked for with no example, `Q: word` and `A:`, and an answer counts where all its tokens do.

Where the card leaves a choice: the vector is added after one of the blocks 10 to 16, once or twice its own length,
whichever answers most of 20 training words; the mean stream at the end of the prompts, the rival of the paper, is given
the same choice. Random heads and the vectors of the other tasks are added where the task's own is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor

from covec.activations.answers import Answered
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, mean_figure, shown
from covec.concepts.demonstrations import Pairs, demonstrations, question
from covec.edits.algebra import Add
from covec.edits.branches import branches
from covec.find._mediation import Mediation, mediation
from covec.find.function_vectors import HEADS
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson
from covec.worlds.word_tasks import word_pairs

GAIN, SLACK, ENOUGH, LITTLE = 0.3, 0.05, 0.5, 0.1  # the numbers of the rules
NAMED = ("antonym", "present-past")  # tasks that have to come out each by itself


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    tasks: tuple[str, ...] = (*NAMED, "plural", "capital")
    prompts: int = 24
    asked: int | None = None  # words a task that are tested, all where None
    choosing: int = 20
    blocks: tuple[int, ...] = (10, 11, 12, 13, 14, 15, 16)
    lengths: tuple[float, ...] = (1.0, 2.0)
    randoms: int = 5
    shown: int = 16


REDUCED = _Setting(NAMED, 4, 4, 3, (14,), (2.0,), 2, 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    tasks = [_Task.of(model, name, setting) for name in setting.tasks]
    tested = {task.name: task.tested({other.name: other.vector for other in tasks}) for task in tasks}
    return Claim("function-vectors", (*_accuracy(tested), *_controls(tested), *_few_heads(tasks)))


class _Place(NamedTuple):
    """After which block, and how many times its own length, a vector is added."""

    block: int
    length: float


@dataclass(frozen=True)
class _Tested:
    """What a task's test words were answered, by what was added; a row of accuracy and log-probability each [n]."""

    greedy: Mapping[str, np.ndarray]
    likely: Mapping[str, np.ndarray]
    place: _Place

    def accuracy(self, added: str) -> float:
        """The share of words that are answered as wanted, random heads or other tasks' vectors taken together."""
        return float(np.mean([row.mean() for name, row in self.greedy.items() if name.startswith(added)]))

    def log_probability(self, added: str) -> float:
        """The mean log-probability of the answers."""
        return float(np.mean([row.mean() for name, row in self.likely.items() if name.startswith(added)]))

    def figure(self, added: str, how: str) -> Figure:
        """The accuracy with its interval, of one vector."""
        value, n = self.accuracy(added), len(self.greedy[added])
        return Figure(value, *wilson(value, n), None, n, how)


@dataclass(frozen=True)
class _Task:
    """A task's training and test words, and its function vector."""

    model: TextModel
    name: str
    setting: _Setting
    train: Pairs
    test: Pairs
    found: Mediation
    stream: Mapping[Site, Float[Tensor, "d"]]

    @classmethod
    def of(cls, model: TextModel, name: str, setting: _Setting) -> _Task:
        """The words dealt, and the effects of heads on the answers to prompts of training words."""
        pairs = word_pairs(name)
        order = np.random.default_rng(0).permutation(len(pairs))
        train, test = ([pairs[place] for place in half] for half in np.array_split(order, 2))
        examples = demonstrations(train, prompts=setting.prompts, name=name)
        sites = [f"resid.{block}" for block in setting.blocks]
        stream = {site: rows.mean(0) for site, rows in model.capture(examples.positive, sites, "last").rows.items()}
        return cls(model, name, setting, train, test, mediation(model, examples), stream)

    @property
    def vector(self) -> Float[Tensor, "d"]:
        """The function vector."""
        return self.found.vector(HEADS)

    @property
    def places(self) -> list[_Place]:
        """Where vectors may be added."""
        return [_Place(block, length) for block in self.setting.blocks for length in self.setting.lengths]

    def tested(self, others: Mapping[str, Float[Tensor, "d"]]) -> _Tested:
        """What test words are answered when nothing, the vector, and each of the controls is added."""
        place, rival = self._chosen()
        added = {"nothing": (), "vector": self._add(self.vector, place), "mean stream": self._add_stream(rival)}
        rest = np.setdiff1d(np.arange(len(self.found.heads)), self.found.top(HEADS))
        for seed in range(self.setting.randoms):
            heads = np.random.default_rng(seed).choice(rest, HEADS, replace=False)
            added[f"random {seed}"] = self._add(self.found.writes[heads].sum(0), place)
        for name, vector in others.items():
            if name != self.name:
                added[f"other {name}"] = self._add(vector, place)
        greedy, likely = self._answers(self.test[: self.setting.asked], list(added.values()))
        shown = demonstrations(self.test, prompts=self.setting.shown, name=self.name)
        in_context = Answered.of(self.model, shown.positive, shown.extra["task"][::2]).outcome()
        return _Tested(
            {**dict(zip(added, greedy, strict=True)), "examples": in_context.greedy.numpy()},
            {**dict(zip(added, likely, strict=True)), "examples": in_context.log_probability.numpy()},
            place,
        )

    def _chosen(self) -> tuple[_Place, _Place]:
        """Where the vector, and where the mean stream, answers most training words; of equals the likelier answers."""
        places = self.places
        edits = [self._add(self.vector, place) for place in places] + [self._add_stream(place) for place in places]
        greedy, likely = (rows.mean(1) for rows in self._answers(self.train[: self.setting.choosing], edits))
        ranks = list(zip(greedy.tolist(), likely.tolist(), strict=True))
        (_, own), (_, rival) = (
            max(zip(half, places, strict=True)) for half in (ranks[: len(places)], ranks[len(places) :])
        )
        return own, rival

    def _add(self, vector: Float[Tensor, "d"], place: _Place) -> Add:
        return Add(site=Site("resid", place.block), position=Position("last"), shift=place.length * vector)

    def _add_stream(self, place: _Place) -> Add:
        return self._add(self.stream[Site("resid", place.block)], place)

    def _answers(self, pairs: Pairs, edits: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """Whether each word is answered as wanted, and how likely that is (log), under each edit [edits, words]."""
        asked = Answered.of(self.model, [question(word) for word, _ in pairs], [answer for _, answer in pairs])
        greedy, likely = np.empty((2, len(edits), len(asked)))
        for row, item in enumerate(asked.tokens):
            last = branches(self.model, item, edits).flatten(0, 1)
            with torch.no_grad():
                found = asked.read(last, [row] * len(edits))
            greedy[:, row], likely[:, row] = found.greedy.cpu(), found.log_probability.cpu()
        return greedy, likely


def _accuracy(tested: Mapping[str, _Tested]) -> Iterator[ClaimFigure]:
    """With the vector against without it, over all tasks and in those that are named."""
    own, none = (_over(tested, added, f"{added} added, mean over tasks") for added in ("vector", "nothing"))
    yield above("zero-shot accuracy with the vector", own, none, GAIN)
    for name in NAMED:
        task = tested[name]
        block, length = task.place
        own = task.figure("vector", f"Wilson interval; added after block {block}, {length:g} times its length")
        none = task.figure("nothing", "nothing added")
        rule = f"at least {ENOUGH}, and the baseline below {LITTLE}"
        yield ClaimFigure(f"{name}, zero-shot", own, none, rule, own.value >= ENOUGH and none.value < LITTLE)
        rivals = {"mean stream": task.accuracy("mean stream"), "random heads": task.accuracy("random")}
        best = max(rivals, key=rivals.__getitem__)
        yield above(f"{name}, against the {best}", own, Figure(rivals[best], how=f"the better of {', '.join(rivals)}"))
    for name in [name for name in tested if name not in NAMED]:
        task = tested[name]
        yield shown(f"{name}, zero-shot", task.figure("vector", "Wilson interval"), task.figure("nothing", ""))
    yield shown("accuracy with the mean stream", _over(tested, "mean stream", "mean over tasks"))
    yield shown("accuracy where examples are shown", _over(tested, "examples", "five of them, no vector"))


def _controls(tested: Mapping[str, _Tested]) -> Iterator[ClaimFigure]:
    """Random heads and the vectors of other tasks, added where and as the task's own is."""
    none = _over(tested, "nothing", "nothing added")
    likely = mean_figure([task.log_probability("vector") for task in tested.values()], "the task's own vector")
    for added, name in (("random", "random heads"), ("other", "another task's vector")):
        found = _over(tested, added, "mean over tasks")
        rule = f"at most the baseline + {SLACK}"
        yield ClaimFigure(f"accuracy with {name}", found, none, rule, found.value <= none.value + SLACK)
        less = mean_figure([task.log_probability(added) for task in tested.values()], "nats, mean over tasks")
        yield ClaimFigure(f"log-probability with {name}", less, likely, "below the baseline", less.value < likely.value)


def _over(tested: Mapping[str, _Tested], added: str, how: str) -> Figure:
    return mean_figure([task.accuracy(added) for task in tested.values()], how)


def _few_heads(tasks: Sequence[_Task]) -> Iterator[ClaimFigure]:
    """How much of all heads' effect the few have, and how well one backward pass tells which they are."""
    shares, ranks = [], []
    for task in tasks:
        found, patched = task.found, ~task.found.effects.isnan()
        shares.append(float(found.estimates[list(found.top(HEADS))].sum() / found.estimates.clamp(min=0).sum()))
        ranks.append(float(spearmanr(found.estimates[patched], found.effects[patched]).statistic))
    how = f"share of all that heads add, as one backward pass has it; {HEADS} of {len(tasks[0].found.heads)}"
    yield shown("effect of the heads that are summed", mean_figure(shares, how))
    how = "Spearman, estimated by the gradient and measured by patching, heads that were patched"
    yield shown("estimates against patches", mean_figure(ranks, how))
