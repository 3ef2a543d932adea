"""Conceptualization (CES): a text or a direction as its nearness to concepts that have names.

Simhi and Markovitch, "Interpreting Embedding Spaces by Conceptualization", arXiv:2209.00445. Each concept is the
embedding of its own name by the same encoder, so nothing is fitted; the set of concepts grows where the texts at hand
need it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.sentences import SentenceEncoder
from covec.concepts.packaged import concept_graph, neutral_texts
from covec.errors import CovecError
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.name._namer import Namer
from covec.registry import method

Encode = Callable[[Sequence[str]], Float[Tensor, "n d"]]
OPENED, MEANS = 0.5, 0.8  # the share of its children that an opened concept brings; the weight of scores beside labels


@method(
    "conceptualization",
    verb="name",
    needs="model",
    card="conceptualization",
    cannot={
        "what the head reads is named": "it tells what activations are like, not what the head makes of them",
        "what no layer reads has no names": "it tells what activations are like, read or not",
    },
)
@dataclass(frozen=True)
class Conceptualization(Namer):
    """The concepts whose names show most along a direction: cosines with the mean activation of each name.

    Activations of a language model lie in one narrow cone; the mean over neutral texts is taken away from all.

    Parameters
    ----------
    concepts
        Names to choose from; those of the graph that comes with covec unless given.
    """

    concepts: tuple[str, ...] = ()

    def weigh(
        self, model: TextModel, directions: Float[Tensor, "k d"], site: Site
    ) -> tuple[Sequence[str], Float[Tensor, "k concepts"]]:
        concepts = self.concepts or all_concepts(concept_graph())
        return concepts, directions @ layer_encoder(model, site, self.texts)(named(concepts)).T


def layer_encoder(model: TextModel, site: str | Site, background: Sequence[str] = ()) -> SentenceEncoder:
    """Texts as mean activations of their content at `site`, neutral texts at the origin, of unit length."""
    return SentenceEncoder(model, site, "mean", background=background or neutral_texts())


def named(concepts: Sequence[str]) -> list[str]:
    """Names as texts to encode; the word before them stands where an activation says nothing of its token."""
    return [f"About {concept.replace('_', ' ')}" for concept in concepts]


def conceptualize(texts: Sequence[str], concepts: Sequence[str], encode: Encode) -> Float[Tensor, "n concepts"]:
    """Each text as its cosines with the names of `concepts`: g(x) = M f(x)."""
    return encode(texts) @ encode(named(concepts)).T


def all_concepts(graph: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """All concepts of a graph from parents to children, once each, those that have children first."""
    return tuple(dict.fromkeys([*graph, *(child for children in graph.values() for child in children)]))


def grow(
    texts: Sequence[str],
    graph: Mapping[str, Sequence[str]],
    encode: Encode,
    size: int,
    *,
    top: Sequence[str] | None = None,
    labels: Sequence[Hashable] | None = None,
) -> tuple[str, ...]:
    """Concepts for the texts at hand: from the top of `graph`, open the one that shows most, until there are `size`.

    Algorithm 1 of the paper. An opened concept stays, and brings the first half of its children, which stand in the
    order of their weight. A graph may have cycles: nothing is opened twice.

    Parameters
    ----------
    graph
        Children of every concept that has some, the most important first.
    top
        Where to begin; the concepts that are nobody's children unless given.
    labels
        Where texts have labels, a concept that is the nearest to texts of many classes shows more: the score is
        0.8 of the mean cosine and 0.2 of the share of classes whose texts are nearest to it.

    Raises
    ------
    CovecError
        There is no text, or nothing to begin with.
    """
    below = {child for children in graph.values() for child in children}
    chosen = list(dict.fromkeys(top if top is not None else (concept for concept in graph if concept not in below)))
    if not texts or not chosen:
        raise CovecError("concepts grow from texts and from a top of the graph: give some of both")
    everything = all_concepts(graph) + tuple(concept for concept in chosen if concept not in graph)
    place = {concept: index for index, concept in enumerate(dict.fromkeys(everything))}
    scores = conceptualize(texts, list(place), encode)
    opened: set[str] = set()
    while len(chosen) < size and (closed := [concept for concept in chosen if concept not in opened]):
        shown = _shown(scores[:, [place[concept] for concept in chosen]], labels)
        best = max(closed, key=lambda concept: shown[chosen.index(concept)])
        opened.add(best)
        children = graph.get(best, ())
        fresh = [child for child in children[: int(np.ceil(OPENED * len(children)))] if child not in chosen]
        chosen += fresh[: size - len(chosen)]
    return tuple(chosen)


def _shown(scores: Float[Tensor, "n chosen"], labels: Sequence[Hashable] | None) -> list[float]:
    """How much each chosen concept shows in the texts."""
    mean = scores.mean(0)
    if labels is None:
        return list(mean.tolist())
    nearest = scores.argmax(1).tolist()
    classes: dict[int, set[Hashable]] = {}
    for concept, label in zip(nearest, labels, strict=True):
        classes.setdefault(concept, set()).add(label)
    share = torch.tensor([len(classes.get(concept, ())) / len(set(labels)) for concept in range(scores.shape[1])])
    return list((MEANS * mean + (1 - MEANS) * share).tolist())
