"""Delta activations' claim: fine-tuned models lie together by what they learned, and mixtures add up (2509.04442).

Nine copies of the embedded model, tuned on three splits each of sums, recipes and code, are compared by their vectors,
by the change of their weights and by what they write after the probes. A tenth one is tuned on two domains at once.

Where the card leaves a choice: the last four blocks are trained themselves, in place of low-rank adapters to the last
six, so that the weights compared are their plain change; outputs are compared by their words and pairs of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least
from covec.claims._tuning import tuned
from covec.measure.delta_activations import PROBES, additivity, changes, silhouette
from covec.models.load import load
from covec.models.pair import ModelPair
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.worlds.domains import DOMAINS, texts_of

CLUSTERED = 0.3  # the number of a rule
MIXED = ("sums", "code")


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    splits: int = 3
    texts: int = 16  # of a split
    steps: int = 16
    blocks: int = 4
    new_tokens: int = 8
    probes: int = 5


REDUCED = _Setting(2, 2, 1, 1, 2, 2)


@dataclass(frozen=True)
class _Seen:
    """What is kept of a tuned model: what it changes after every probe, its weights' change, and what it writes."""

    changes: Float[Tensor, "probes d"]
    weights: Float[Tensor, "parameters"]
    written: str

    @property
    def vector(self) -> Float[Tensor, "d"]:
        """What stands for the model."""
        return self.changes.mean(0)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    base = load("smollm2-135m", dtype="float32")
    splits = {domain: _splits(domain, setting) for domain in DOMAINS}
    labels = [domain for domain in DOMAINS for _ in range(setting.splits)]
    seen = [_tuned(base, texts, setting) for domain in DOMAINS for texts in splits[domain]]
    mixture = [text for pair in zip(*(splits[domain][0] for domain in MIXED), strict=True) for text in pair]
    mixed = _tuned(base, mixture, setting).vector
    parts = [seen[labels.index(domain)].vector for domain in MIXED]
    return Claim("delta-activations", (*_clusters(seen, labels), _sum(mixed, parts)))


def _splits(domain: str, setting: _Setting) -> list[tuple[str, ...]]:
    texts = texts_of(domain, setting.splits * setting.texts)
    return [texts[start : start + setting.texts] for start in range(0, len(texts), setting.texts)]


def _tuned(base: TextModel, texts: Sequence[str], setting: _Setting) -> _Seen:
    """Tune on `texts`, look at what came of it, and let the model go."""
    model = tuned(base, texts, steps=setting.steps, blocks=setting.blocks, rows=2)
    pair, prompts = ModelPair(base, model), PROBES[: setting.probes]
    upper = [one.anatomy.blocks[-setting.blocks :] for one in pair]
    weights = (zip(one.parameters(), other.parameters(), strict=True) for one, other in zip(*upper, strict=True))
    moved = torch.cat([(after - before).detach().ravel() for block in weights for before, after in block])
    written = model.generate(list(prompts), max_new_tokens=setting.new_tokens)
    return _Seen(changes(pair, prompts), moved, " ".join(written))


def _clusters(seen: Sequence[_Seen], labels: Sequence[str]) -> tuple[ClaimFigure, ...]:
    """Silhouettes of the vectors, beside those of weights and outputs, and of a single probe."""
    own, _ = silhouette(torch.stack([one.vector for one in seen]), labels, permutations=99)
    single, _ = silhouette(torch.stack([one.changes[0] for one in seen]), labels, permutations=99)
    weights, _ = silhouette(_coordinates(torch.stack([one.weights for one in seen])), labels, permutations=99)
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\S+").fit_transform([one.written for one in seen])
    outputs, _ = silhouette(torch.from_numpy(words.toarray()), labels, permutations=99)
    return (
        above("silhouette, above that of weights", own, weights),
        above("silhouette, above that of what is written", own, outputs),
        above("silhouette", own, CLUSTERED),
        at_least("silhouette of five probes, beside one", own, single),
    )


def _coordinates(vectors: Float[Tensor, "m parameters"]) -> Float[Tensor, "m m"]:
    """The vectors in the span of themselves: all their inner products in a few numbers."""
    products = vectors @ vectors.T
    values, axes = torch.linalg.eigh(products.double())
    return axes * values.clamp_min(0).sqrt()


def _sum(mixed: Float[Tensor, "d"], parts: Sequence[Float[Tensor, "d"]]) -> ClaimFigure:
    found = additivity(mixed, *parts)
    best = Figure(float(np.nan if found.null is None else found.null), how="the higher cosine with one part")
    return above(f"cosine of {' and '.join(MIXED)} with the sum of both", found, best)
