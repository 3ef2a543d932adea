"""The claim of cross-modal task vectors: what captions show of a task is what pictures are asked by (2410.22330).

A small transformer that tells one of four attributes of things, shown as pictures or told by captions, from examples of
the same kind before them. The vector is the mean over 100 prompts of captions; it stands in the place of the last token
of a picture with nothing before it. Things that are asked for were never seen, and other ones choose the block. In the
embedded model, which the card finds too small, the same is asked of words in one frame: the rule is not whether the
answer comes, but that it moves up.

The small transformer is trained here, for which the claim may take the five minutes of trained edits. Where the card
leaves a choice: accuracy counts as far above that without examples where it is 0.3 above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from covec.activations.answers import Answered
from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.concepts.demonstrations import demonstrations, question
from covec.edits.algebra import Edit
from covec.edits.encoded import encoded
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson
from covec.steer.cross_modal_task_vectors import CrossModalTaskVectors
from covec.worlds import pictures
from covec.worlds.pictures import KINDS, SHOTS, TASKS
from covec.worlds.word_tasks import word_pairs

IN_CONTEXT, SHARE, FAR = 0.9, 0.8, 0.3  # the numbers of the rules
WORD_TASKS, WORD_SITE = ("plural", "capital", "antonym"), Site("resid", 22)


@dataclass(frozen=True)
class _Setting:
    """Steps of training, prompts a vector, queries a task, and words a task of the embedded model."""

    steps: int = pictures.STEPS
    prompts: int = 100
    asked: int = 100
    words: int = 24


REDUCED = _Setting(20, 4, 4, 3)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    world = _World(pictures.trained(setting.steps), setting)
    return Claim("cross-modal-task-vectors", (*_crossed(world), *_compared(world), *_words(setting)))


@dataclass(frozen=True)
class _World:
    """The small transformer and what it is asked."""

    model: TextModel
    setting: _Setting

    @property
    def sites(self) -> tuple[Site, ...]:
        """Streams after every block but the last, whose patch would be an answer."""
        return tuple(Site("resid", block) for block in range(self.model.blocks - 1))

    @cached_property
    def fitted(self) -> Mapping[tuple[str, str, Site], CrossModalTaskVectors]:
        """The vectors by task, kind of what shows it, and site."""
        return {
            (task, kind, site): CrossModalTaskVectors(site).fit(
                self.model, pictures.examples(task, kind, self.setting.prompts, seed=place)
            )
            for place, task in enumerate(TASKS)
            for kind in KINDS
            for site in self.sites
        }

    def named(self, task: str, site: Site, kind: str = "caption") -> CrossModalTaskVectors:
        """The vector of which half comes from prompts that name the task, of things of the same kind."""
        prompts = _asked(task, kind, self.setting.prompts, seed=7, named=True).inputs
        given = pictures.examples(task, kind, self.setting.prompts, seed=TASKS.index(task))
        return CrossModalTaskVectors(site, prompts).fit(self.model, given)

    def right(self, task: str, queries: _Queries, edits: Sequence[Edit] = ()) -> np.ndarray:
        """Which queries are answered as `task` wants [n]."""
        with self.model.edit(*edits):
            return Answered.of(self.model, queries.inputs, queries.answers(task)).outcome().greedy.numpy()

    def patched(self, shown_as: str, kind: str, site: Site, *, seed: int = 1, validation: bool = False) -> np.ndarray:
        """Which queries of `kind` are answered where each task's vector of the kind `shown_as` is put [tasks, n]."""
        rows = [_asked(task, kind, self.setting.asked, seed=seed, validation=validation) for task in TASKS]
        edits = [self.fitted[task, shown_as, site].edits() for task in TASKS]
        return np.stack([self.right(*each) for each in zip(TASKS, rows, edits, strict=True)])

    def chosen(self, shown_as: str, kind: str) -> Site:
        """The site at which the vectors answer most queries of other things."""
        scores = {site: self.patched(shown_as, kind, site, seed=2, validation=True).mean() for site in self.sites}
        return max(scores, key=scores.__getitem__)


@dataclass(frozen=True)
class _Queries:
    """Texts that end with a query, and the things that they ask about."""

    inputs: tuple[str, ...]
    things: tuple[pictures.Thing, ...]

    def answers(self, task: str) -> list[str]:
        """What `task` wants of each."""
        return [pictures.answer(thing, task) for thing in self.things]


def _asked(
    task: str,
    kind: str,
    count: int,
    *,
    seed: int = 1,
    shots: int = 0,
    shown_as: str | None = None,
    named: bool = False,
    validation: bool = False,
) -> _Queries:
    """Queries of things never trained on, half of which serve validation; examples before them are of known things."""
    rng, (known, unseen) = np.random.default_rng(seed), pictures.things()
    pool, texts, asked = unseen[validation::2], [], []
    for _ in range(count):
        thing = pool[rng.integers(len(pool))]
        before = [known[one] for one in rng.choice(len(known), shots, replace=False)]
        start = pictures.prompt(task, before, thing, shown_as or kind, rng, named=named).split()
        own = pictures.query(thing, kind, rng).split()
        texts.append(" ".join((*start[: -len(own)], *own)))
        asked.append(thing)
    return _Queries(tuple(texts), tuple(asked))


def _crossed(world: _World) -> Iterator[ClaimFigure]:
    """Vectors from captions in pictures, and the other ways about."""
    count = world.setting.asked

    def context(kind: str, shots: int, shown_as: str | None = None) -> Figure:
        rows = [world.right(task, _asked(task, kind, count, shots=shots, shown_as=shown_as)) for task in TASKS]
        return _share(np.stack(rows), f"{shots} examples{f' as {shown_as}s' if shown_as else ''} before a {kind}")

    few, none = ({kind: context(kind, shots) for kind in KINDS} for shots in (SHOTS, 0))
    for kind in KINDS:
        yield at_least(f"accuracy in context, {kind}s", few[kind], IN_CONTEXT)
    for shown_as, kind in (("caption", "picture"), ("picture", "caption"), ("caption", "caption"), ("picture",) * 2):
        site = world.chosen(shown_as, kind)
        own = _share(world.patched(shown_as, kind, site), f"vectors of {shown_as}s put at {site}, {kind}s asked")
        if (shown_as, kind) != ("caption", "picture"):
            yield shown(f"accuracy, {shown_as}s to {kind}s, beside examples", own, few[kind])
            continue
        rule = f"at least {SHARE} of the baseline"
        name = "accuracy, captions to pictures, beside examples as pictures"
        yield ClaimFigure(name, own, few[kind], rule, own.value >= SHARE * few[kind].value)
        yield above("the same, beside nothing", own, none[kind], FAR)
        yield shown("the same, beside examples as captions", own, context(kind, SHOTS, shown_as))


def _compared(world: _World) -> Iterator[ClaimFigure]:
    """What else could stand there, and how alike the vectors are."""
    site, count = world.chosen("caption", "picture"), world.setting.asked
    queries = {task: _asked(task, "picture", count) for task in TASKS}
    vectors = {task: world.fitted[task, "caption", site] for task in TASKS}
    own = _share(np.stack([world.right(task, queries[task], vectors[task].edits()) for task in TASKS]), str(site))
    pairs = [(task, other) for task in TASKS for other in TASKS if task != other]
    wrong = np.stack([world.right(task, queries[task], vectors[other].edits()) for task, other in pairs])
    yield shown("accuracy with another task's vector", _share(wrong, "over pairs of tasks"), own)
    over = {task: _asked(task, "picture", count, shots=SHOTS) for task in TASKS}
    turned = np.stack([world.right(task, over[other], vectors[task].edits()) for task, other in pairs])
    plain = np.stack([world.right(task, over[other]) for task, other in pairs])
    yield shown(
        "accuracy over examples of another task", _share(turned, "the vector put"), _share(plain, "nothing put")
    )
    mixed = np.stack([world.right(task, queries[task], world.named(task, site).edits()) for task in TASKS])
    yield shown("accuracy where half of the vector names the task", _share(mixed, "mean of both vectors"), own)
    moved = {(task, kind): _value(world.fitted[task, kind, site]) for task in TASKS for kind in KINDS}
    middle = {kind: np.mean([moved[task, kind] for task in TASKS], axis=0) for kind in KINDS}
    unit = {key: (value - middle[key[1]]) / np.linalg.norm(value - middle[key[1]]) for key, value in moved.items()}
    same = [float(unit[task, KINDS[0]] @ unit[task, KINDS[1]]) for task in TASKS]
    other = [float(unit[task, KINDS[0]] @ unit[another, KINDS[1]]) for task, another in pairs]
    how = "cosine of a picture's vector and a caption's, each less the mean of its kind"
    yield shown("cosine within a task, beside other tasks", mean_figure(same, how), mean_figure(other, how))


def _words(setting: _Setting) -> Iterator[ClaimFigure]:
    """How far up the answer moves in the embedded model, and how often it comes."""
    model = load("smollm2-135m")
    ranks: list[list[float]] = []
    right: dict[str, list[np.ndarray]] = {"nothing": [], "vector": [], "examples": []}
    for task in WORD_TASKS:
        pairs = word_pairs(task)
        order = np.random.default_rng(0).permutation(len(pairs))
        train, test = ([pairs[place] for place in half] for half in np.array_split(order, 2))
        fitted = CrossModalTaskVectors(WORD_SITE).fit(model, demonstrations(train, prompts=8, name=task))
        words, answers = zip(*test[: setting.words], strict=True)
        prompts = [question(word) for word in words]
        put = {"nothing": (), "vector": fitted.edits()}
        ranks.append([float(np.median(_ranks(model, prompts, answers, edits))) for edits in put.values()])
        for name, edits in put.items():
            with model.edit(*edits):
                right[name].append(Answered.of(model, prompts, answers).outcome().greedy.numpy())
        context = demonstrations(test, prompts=setting.words, name=task)
        asked = Answered.of(model, context.positive, context.extra["task"][::2])
        right["examples"].append(asked.outcome().greedy.numpy())
    how = "median rank of the answer's first token, over tasks"
    before, after = (mean_figure(column, how) for column in zip(*ranks, strict=True))
    name = "rank of the answer in the embedded model, beside nothing"
    yield ClaimFigure(name, after, before, "below the baseline", after.value < before.value)
    share = {name: _share(np.concatenate(rows), f"{name}, of words at {WORD_SITE}") for name, rows in right.items()}
    yield shown("accuracy in the embedded model, beside nothing", share["vector"], share["nothing"])
    yield shown("the same, beside examples", share["vector"], share["examples"])


def _ranks(model: TextModel, prompts: Sequence[str], answers: Sequence[str], edits: Sequence[Edit]) -> np.ndarray:
    """How many tokens are likelier to follow each prompt than the first one of its answer [n]."""
    first = [model.tokenizer(f" {answer}", add_special_tokens=False)["input_ids"][0] for answer in answers]
    split, found = Split(model, "embed"), np.empty(len(prompts))
    batches = encoded(split, model.tokenize(prompts), Position("content"))
    with torch.no_grad(), model.edit(*edits):
        for one in batches:
            rows, ends = list(one.batch.rows), [layout.length - 1 for layout in one.batch.layouts]
            logits = split.logits(one.decode()[range(len(ends)), ends]).float()
            wanted = logits[range(len(rows)), [first[row] for row in rows]]
            found[rows] = (logits > wanted[:, None]).sum(1).cpu().numpy()
    return found


def _value(fitted: CrossModalTaskVectors) -> np.ndarray:
    """What is put in the place of the last token."""
    (vector,) = fitted.vectors.values()
    mean = vector.parts[vector.site].mean_positive
    return np.asarray(mean)


def _share(right: np.ndarray, how: str) -> Figure:
    value = float(right.mean())
    return Figure(value, *wilson(value, right.size), None, right.size, how)
