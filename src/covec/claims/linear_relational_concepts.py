"""LRC's claim: directions that invert the model's own map tell an object, and swap it, as probes do not (2311.08968).

Three relations in the embedded model. Swaps of a subject's object are scored by whether the other object becomes the
likelier one, by the least likely of its tokens.

Where the card leaves a choice: subjects are read after block 15 and objects told after block 21; texts begin with four
solved examples, for testing too, without which so small a model answers few; subjects that it answers are split by
object, half to train, a quarter to validate and a quarter to test; the map is taken about 8 texts a seed. Rank is the
one with the best accuracy in validation. The strength of swaps, one for all methods, is the one at which their mean
causality in validation is highest. Random directions are shown beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.svm import LinearSVC
from torch import Tensor
from torch.nn.functional import normalize

from covec.activations.jacobian import Linearised
from covec.activations.split import Split
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.detect.bag_of_dims import PushSigns
from covec.edits.branches import branches
from covec.find._facts import Facts
from covec.find.linear_relational_concepts import RelationalEmbedding
from covec.models.load import load
from covec.models.positions import Layout, Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds.relations import relation

SUBJECT, OBJECT = Site("resid", 15), Site("resid", 21)
RANKS = (16, 32, 64, 128)
BEHIND = 0.05  # accuracy that it may stay behind the support vector machine's
METHODS = ("LRC", "SVM", "difference of means", "random directions")
Vectors = Mapping[str, Float[Tensor, "objects d"]]  # by method


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    relations: tuple[str, ...] = ("official language", "kind of animal", "kind of food")
    seeds: int = 3
    texts: int = 8
    strengths: tuple[float, ...] = (0.05, 0.1, 0.2)
    validated: int = 6
    swaps: int = 2  # of each that is tested
    subjects: int = 99  # of each object, or all that there are


REDUCED = _Setting(("kind of food",), 1, 1, (0.1,), 1, 1, 5)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    found: list[_Scores] = []
    for name in setting.relations:
        facts = _Answered.of(model, name, setting.subjects)
        found += [_scores(facts, setting, seed) for seed in range(setting.seeds)]
    return Claim("linear-relational-concepts", tuple(_figures(found)))


@dataclass(frozen=True)
class _Scores:
    """Of one relation and seed: accuracy and causality by method, and what was chosen in validation."""

    accuracy: Mapping[str, float]
    causality: Mapping[str, float]
    rank: int
    strength: float


class _Answered:
    """The facts of a relation that the model answers, and what it shows at subjects and where objects are told."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.objects = sorted({*facts.objects})
        self.labels = np.array([self.objects.index(called) for called in facts.objects])
        self.told = facts.told(OBJECT)
        self.subjects = facts.at_subjects(SUBJECT)
        self._linearised: dict[int, Linearised] = {}

    @classmethod
    def of(cls, model: TextModel, name: str, subjects: int) -> _Answered:
        """Those of the packaged relation `name`, of some subjects an object."""
        made = relation(name)
        examples = made.examples(made.objects[0])
        facts = Facts.of(model, examples.inputs, examples.spans, examples.column("object"))
        facts = facts.subset(facts.balanced(range(len(facts)), subjects * len(made.objects)))
        return cls(facts.subset(facts.answered()))

    def split(self, seed: int) -> list[list[int]]:
        """Rows to train, to validate and to test on: of each object half, a quarter and a quarter."""
        rng = np.random.default_rng(seed)
        parts: list[list[int]] = [[], [], []]
        for label in range(len(self.objects)):
            rows = rng.permutation(np.flatnonzero(self.labels == label)).tolist()
            half = -(-len(rows) // 2)
            end = half + (len(rows) - half) // 2
            for part, some in zip(parts, (rows[:half], rows[half:end], rows[end:]), strict=True):
                part += some
        return parts

    def embedding(self, rows: Sequence[int], texts: int) -> RelationalEmbedding:
        """The relation's map about some of `rows`; a text that several seeds train on is linearised once."""
        chosen = self.facts.balanced(rows, texts)
        for row in chosen:
            if row not in self._linearised:
                self._linearised[row] = self.facts.linearised(row, [SUBJECT], OBJECT)
        return RelationalEmbedding.of(self._linearised[row] for row in chosen)

    def accuracy(self, vectors: Float[Tensor, "objects d"], rows: Sequence[int]) -> float:
        """The share of `rows` whose subject lies furthest along the vector of its object."""
        return float(((self.subjects[rows] @ vectors.T).argmax(1).numpy() == self.labels[rows]).mean())

    def swapped(
        self, row: int, methods: Vectors, strengths: Sequence[float], others: Sequence[int]
    ) -> Float[np.ndarray, "methods strengths others"]:
        """Whether each other object becomes likelier than the row's own, by method and strength."""
        model, own = self.facts.asked.model, int(self.labels[row])
        position, size = Position("last"), model.width**0.5  # pushes are in units of the root mean square
        edits = [
            [
                PushSigns(site=site, position=position, signs=vectors[other] - vectors[own], gain=strength * size)
                for site in model.select("resid.*")
            ]
            for vectors in methods.values()
            for strength in strengths
            for other in others
        ]
        likely = _likely(self.facts, row, [self.objects[one] for one in (own, *others)], edits)
        likely = likely.reshape(len(methods), len(strengths), len(others), 1 + len(others))
        gains = [likely[:, :, place, 1 + place] > likely[:, :, place, 0] for place in range(len(others))]
        return torch.stack(gains, 2).double().numpy()


@torch.no_grad()
def _likely(
    facts: Facts, row: int, objects: Sequence[str], edits: Sequence[Sequence[PushSigns]]
) -> Float[Tensor, "edits objects"]:
    """Log-probability of the least likely token of each object after the text of `row`, under each of `edits`.

    They act on the last token of the subject, which is what the layout here calls `last`.
    """
    asked, source, found = facts.asked, facts.sources[row], torch.zeros(len(edits), len(objects))
    item, answers = asked.tokens[row], [asked.answers[facts.objects.index(called)] for called in objects]
    prompt = item.ids[: item.layout.last + 1]
    for before in {answer[:-1] for answer in answers}:
        ids = (*prompt, *before)
        whole = replace(item, ids=ids, layout=Layout(np.zeros(len(ids), dtype=bool), len(ids), source))
        hidden = branches(asked.model, whole, edits)[:, item.layout.last - source :]
        said = Split(asked.model, "embed").logits(hidden.flatten(0, 1)).float().log_softmax(1)
        said = said.reshape(len(edits), hidden.shape[1], -1)
        for place, answer in enumerate(answers):
            if answer[:-1] == before:
                found[:, place] = said[:, range(len(answer)), list(answer)].amin(1)
    return found


def _scores(facts: _Answered, setting: _Setting, seed: int) -> _Scores:
    """One split: vectors of every method, the choices made in validation, and the test."""
    train, validation, test = facts.split(seed)
    embedding, rng = facts.embedding(train, setting.texts), np.random.default_rng(seed)
    by_rank = {rank: _inverted(facts, embedding, train, rank) for rank in RANKS}
    rank = max(RANKS, key=lambda rank: facts.accuracy(by_rank[rank], validation))
    methods = {"LRC": by_rank[rank], **_rivals(facts, train, seed)}

    def causality(tried: Vectors, rows: Sequence[int], strengths: Sequence[float], swaps: int) -> np.ndarray:
        found = []
        for row in rows:
            others = rng.permutation([label for label in range(len(facts.objects)) if label != facts.labels[row]])
            found.append(facts.swapped(row, tried, strengths, others[:swaps].tolist()))
        return np.stack(found).mean((0, 3))

    some = rng.permutation(validation)[: setting.validated].tolist()
    learned = {name: methods[name] for name in METHODS[:3]}
    strength = setting.strengths[int(causality(learned, some, setting.strengths, 1).mean(0).argmax())]
    tested = causality(methods, test, [strength], setting.swaps)[:, 0]
    accuracy = {name: facts.accuracy(vectors, test) for name, vectors in methods.items()}
    return _Scores(accuracy, dict(zip(methods, tested, strict=True)), rank, strength)


def _inverted(facts: _Answered, embedding: RelationalEmbedding, train: list[int], rank: int) -> Tensor:
    own = [[row for row in train if facts.labels[row] == label] for label in range(len(facts.objects))]
    return torch.stack([embedding.subjects(facts.told[rows], rank)[0] for rows in own])


def _rivals(facts: _Answered, train: list[int], seed: int) -> dict[str, Tensor]:
    """The paper's: a support vector machine without intercept, and means less the mean of the relation; and chance."""
    X, labels = facts.subjects[train], facts.labels[train]
    probes = [
        LinearSVC(class_weight="balanced", fit_intercept=False, random_state=0).fit(X.numpy(), labels == label).coef_[0]
        for label in range(len(facts.objects))
    ]
    means = torch.stack([X[labels == label].mean(0) for label in range(len(facts.objects))]) - X.mean(0)
    drawn = torch.randn(means.shape, generator=torch.Generator().manual_seed(seed))
    vectors = torch.from_numpy(np.stack(probes)).float(), means, drawn
    return {name: normalize(one, dim=1) for name, one in zip(METHODS[1:], vectors, strict=True)}


def _figures(found: Sequence[_Scores]) -> Iterator[ClaimFigure]:
    """Means over relations and seeds."""

    def mean(of: str, method: str) -> Figure:
        return mean_figure([getattr(one, of)[method] for one in found], f"{method}, over relations and seeds")

    for rival in METHODS[1:3]:
        yield above(f"causality, against {rival}", mean("causality", "LRC"), mean("causality", rival))
    yield at_least("accuracy, against SVM", mean("accuracy", "LRC"), mean("accuracy", "SVM"), BEHIND)
    yield shown("accuracy, beside difference of means", mean("accuracy", "LRC"), mean("accuracy", METHODS[2]))
    yield shown("causality, beside random directions", mean("causality", "LRC"), mean("causality", METHODS[3]))
    yield shown("rank", mean_figure([one.rank for one in found], "chosen in validation"))
    yield shown("strength of swaps", mean_figure([one.strength for one in found], "of the norm, chosen in validation"))
