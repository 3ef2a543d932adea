"""The claim of conceptualization: concepts with names keep what a model holds of texts (2209.00445).

200 sentences on six topics in the embedded model after block 20, and the graph of 168 concepts in two levels that comes
with covec. Nothing is fitted.

Where the card leaves a choice: agreement is over random triplets of texts, concept vectors being compared by their
cosine; a random set of concepts is of words of the vocabulary. The image part of the rule waits for vision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.claims import Claim
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.concepts.packaged import concept_graph
from covec.models.load import load
from covec.models.vocabulary import Vocabulary
from covec.name.conceptualization import all_concepts, grow, layer_encoder, named
from covec.statistics.figure import Figure
from covec.statistics.proportions import wilson
from covec.worlds.topics import TOPICS, about

BLOCK, SIZE = 20, 60
AGREE, GAIN, POINTS = 0.8, 0.1, 0.05  # the numbers of the rules


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    texts: int = 200
    triplets: int = 5000
    random: int = 10  # sets of random concepts


REDUCED = _Setting(24, 200, 2)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    encode, graph = layer_encoder(model, f"resid.{BLOCK}"), concept_graph()
    texts, labels = _texts(setting.texts)
    rows = encode(texts)
    triplets = _triplets(len(texts), setting.triplets)
    grown = grow(texts, graph, encode, SIZE)
    whole = all_concepts(graph)
    sets = {"grown": grown, "top level": tuple(graph), "all": whole}
    vectors = {name: rows @ encode(named(concepts)).T for name, concepts in sets.items()}
    agreement = {name: _agreement(rows, found, triplets) for name, found in vectors.items()}
    words, rng = list(Vocabulary(model).words), np.random.default_rng(0)
    random = []
    for _ in range(setting.random):
        concepts = [str(word) for word in rng.choice(words, SIZE, replace=False)]
        random.append(_agreement(rows, rows @ encode(named(concepts)).T, triplets).value)
    null = mean_figure(random, f"mean over sets of {SIZE} random words")
    own, surrogate = _nearest_topic(rows, labels), _nearest_topic(vectors["grown"], labels)
    return Claim(
        "conceptualization",
        (
            at_least(f"triplets: {SIZE} grown concepts agree with the model", agreement["grown"], AGREE),
            above(f"triplets: {SIZE} grown concepts against random words", agreement["grown"], null, GAIN),
            at_least("topic of the nearest text: concepts against activations", surrogate, own, POINTS),
            above(f"triplets: {SIZE} grown concepts against the top level", agreement["grown"], agreement["top level"]),
            shown(f"triplets: all {len(whole)} concepts", agreement["all"], null),
        ),
    )


def _texts(count: int) -> tuple[list[str], np.ndarray]:
    """`count` sentences, about as many of each topic, and the topic of each."""
    labels = np.arange(count) % len(TOPICS)
    by_topic = [iter(about(topic, int((labels == place).sum()))) for place, topic in enumerate(TOPICS)]
    return [next(by_topic[label]) for label in labels], labels


def _triplets(n: int, count: int) -> np.ndarray:
    """Random triplets of different texts [count, 3]."""
    rng = np.random.default_rng(1)
    return np.stack([rng.choice(n, 3, replace=False) for _ in range(count)])


def _agreement(rows: Float[Tensor, "n d"], found: Float[Tensor, "n c"], triplets: np.ndarray) -> Figure:
    """How often concepts and model say of the same text of two that it is nearer to a third.

    The interval is Student's over as many groups of triplets as the texts make independent ones.
    """
    said = []
    for vectors in (rows, torch.nn.functional.normalize(found, dim=1)):
        cosines = (vectors @ vectors.T).numpy()
        anchor, one, other = triplets.T
        said.append(cosines[anchor, one] > cosines[anchor, other])
    groups = np.array_split(said[0] == said[1], max(2, len(rows) // 3))
    return mean_figure([group.mean() for group in groups], f"share of {len(triplets)} triplets", null=0.5)


def _nearest_topic(vectors: Float[Tensor, "n d"], labels: np.ndarray) -> Figure:
    """How often the nearest other text is of the same topic."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    cosines = (unit @ unit.T).fill_diagonal_(-2)
    share = float((labels[cosines.argmax(1).numpy()] == labels).mean())
    return Figure(share, *wilson(share, len(labels)), 1 / len(TOPICS), len(labels), "Wilson")
