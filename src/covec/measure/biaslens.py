"""BiasLens: is one concept nearer to another than to that one's counterpart, in the model's own space of concepts?

A concept is represented by what it changes. A logistic probe tells texts about it from others; each text's activation
is moved along the probe until the probe is almost certain; the change of what a sparse autoencoder makes of the
activation, at unit length and averaged, is the concept. Without an autoencoder it is the probe's direction. The bias of
a target between two references is the difference of its cosines with them. Noise alone makes it positive, so it stands
beside its value for references whose texts were shuffled. That tells whether the references differ for the target; how
sure the difference is, the interval of its signed form tells, for which texts are drawn and probes fitted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import t
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.functional import normalize

from covec.errors import ExamplesError
from covec.registry import method
from covec.statistics.figure import Figure
from covec.statistics.permutation import p_value

Encode = Callable[[Float[Tensor, "n d"]], Float[Tensor, "n m"]]
CERTAIN = log(0.9999 / 0.0001)  # log-odds up to which an activation is moved
SHARED = 10  # features told
LEAST = 10  # texts of a concept
FIRST, SECOND, OTHERS = "first reference", "second reference", "other texts"


@dataclass(frozen=True)
class Bias:
    """How much nearer one target is to one reference than to the other.

    `amount` is the size of the difference of the cosines beside its mean under shuffled references, `p` how often those
    reach it; `lean` is the difference itself, positive towards the first reference, with its interval. `cosines` are
    those with the two references, `features` the entries of the representation that target and nearer reference share
    most.
    """

    amount: Figure
    lean: Figure
    p: float
    cosines: tuple[float, float]
    features: tuple[int, ...]


@dataclass(frozen=True)
class BiasLens:
    """The bias of every target, the accuracy of every probe on texts it was not fitted on, and the mean bias."""

    targets: Mapping[str, Bias]
    accuracy: Mapping[str, float]
    figure: Figure


@method("biaslens", verb="measure", card="biaslens")
def biaslens(
    targets: Mapping[str, Float[Tensor, "n d"]],
    first: Float[Tensor, "n d"],
    second: Float[Tensor, "n d"],
    others: Float[Tensor, "n d"],
    *,
    encode: Encode | None = None,
    permutations: int = 99,
    draws: int = 40,
    seed: int = 0,
) -> BiasLens:
    """Is a target concept nearer to one reference than to the other? Difference of cosines, beside shuffled references.

    Parameters
    ----------
    targets
        Activations of texts about each target, at one site, such as those of the last token. The texts mention neither
        reference, share no template with them, and end alike.
    first, second
        Those of texts about each reference.
    others
        Those of texts about nothing in particular, the same for every probe.
    encode
        A sparse autoencoder's encoder at that site; None compares the probes' directions.
    permutations
        How often the texts of the two references are shuffled.
    draws
        How often all texts are drawn again, for the intervals; probes are fitted anew each time.

    Raises
    ------
    ExamplesError
        There is no target, widths differ, a number is not finite, a concept has fewer than ten texts, or there are too
        few permutations or draws.

    Notes
    -----
    The step through the autoencoder is written from the paper's description; its code could not be had.

    References
    ----------
    "Evaluate Bias without Manual Test Sets: A Concept Representation Perspective for LLMs", arXiv:2505.15524.
    """
    probes = {**targets, FIRST: first, SECOND: second}
    _check(targets, {**probes, OTHERS: others})
    if permutations < 1 or draws < 2:
        raise ExamplesError(f"{permutations} permutations, {draws} draws: a null needs one, an interval needs two")
    concepts = _concepts(list(probes.values()), others, encode)
    null = np.abs(list(_shuffled(concepts[:-2], first, second, others, encode, permutations, seed)))
    drawn = np.stack(list(_drawn_again(list(probes.values()), others, encode, draws, seed)))
    leans, cosines = _leans(concepts), (concepts[:-2] @ concepts[-2:].T).tolist()
    shuffles = f"null: {permutations} shuffles of the references' texts"
    found = {
        name: Bias(
            Figure(abs(lean), null=null[:, place].mean(), n=len(rows), how=f"difference of cosines; {shuffles}"),
            _bootstrapped(lean, drawn[:, place], len(rows)),
            float(p_value(abs(lean), null[:, place])),
            (cosines[place][0], cosines[place][1]),
            _shared(concepts[place], concepts[-2 if lean > 0 else -1]),
        )
        for place, ((name, rows), lean) in enumerate(zip(targets.items(), leans, strict=True))
    }
    how = f"mean bias of the targets; {shuffles}"
    figure = Figure(np.abs(leans).mean(), null=null.mean(), n=len(targets), how=how)
    return BiasLens(found, {name: _accuracy(rows, others) for name, rows in probes.items()}, figure)


def concept_changes(
    having: Float[Tensor, "n d"], lacking: Float[Tensor, "k d"], encode: Encode | None = None
) -> Float[Tensor, "changes m"]:
    """What moving each activation until a probe of the concept is certain changes in its codes, at unit length.

    Activations of which the probe is certain already are left out. Without `encode` it is the probe's direction alone.
    """
    X = torch.cat([having, lacking]).double()
    mean, deviation = X.mean(0), X.std(0)
    inverse = torch.where(deviation > 0, 1 / deviation, 0.0)
    labels = np.arange(len(X)) < len(having)
    probe = LogisticRegression(max_iter=1000).fit(((X - mean) * inverse).numpy(), labels)
    weights = torch.from_numpy(probe.coef_[0]) * inverse
    length = weights.norm()
    if encode is None:
        return normalize(weights, dim=0)[None]
    odds = (X - mean) @ weights + float(probe.intercept_[0])
    moved = X + ((CERTAIN - odds) / length)[:, None] * weights / length
    uncertain = odds < CERTAIN
    changes = (encode(moved[uncertain].float()) - encode(X[uncertain].float())).double()
    changes = changes[changes.norm(dim=1) > 0]
    if not len(changes):
        raise ExamplesError("the autoencoder gives the same codes with the concept as without: it is of another site")
    return normalize(changes, dim=1)


def _check(targets: Mapping[str, Tensor], rows: Mapping[str, Tensor]) -> None:
    if not targets:
        raise ExamplesError("there is no target: give the activations of one concept at least")
    if taken := sorted(set(targets) & {FIRST, SECOND, OTHERS}):
        raise ExamplesError(f"a target cannot be called {taken[0]!r}: give it another name")
    width = rows[OTHERS].shape[-1]
    for name, one in rows.items():
        if one.ndim != 2 or one.shape[1] != width or len(one) < LEAST:
            raise ExamplesError(
                f"{name} has rows of shape {list(one.shape)}: give [n, {width}], of {LEAST} texts at least, of each"
            )
        if not torch.isfinite(one).all():
            raise ExamplesError(f"{name} has a row that is not finite: load the model in float32")


def _concepts(rows: Sequence[Tensor], others: Tensor, encode: Encode | None) -> Float[Tensor, "concepts m"]:
    return torch.stack([normalize(concept_changes(one, others, encode).mean(0), dim=0) for one in rows])


def _leans(concepts: Float[Tensor, "concepts m"]) -> Float[np.ndarray, "t"]:
    """Difference of each target's cosines with the two references, which are the last two concepts."""
    return np.asarray(concepts[:-2] @ (concepts[-2] - concepts[-1]))


def _shuffled(
    targets: Tensor, first: Tensor, second: Tensor, others: Tensor, encode: Encode | None, permutations: int, seed: int
) -> Iterator[Float[np.ndarray, "t"]]:
    """What all targets lean where the references' texts are dealt out anew."""
    texts, rng = torch.cat([first, second]), np.random.default_rng(seed)
    for _ in range(permutations):
        order = torch.from_numpy(rng.permutation(len(texts)))
        parts = texts[order[: len(first)]], texts[order[len(first) :]]
        yield _leans(torch.cat([targets, _concepts(parts, others, encode)]))


def _drawn_again(
    rows: Sequence[Tensor], others: Tensor, encode: Encode | None, draws: int, seed: int
) -> Iterator[Float[np.ndarray, "t"]]:
    """What all targets lean where every concept's texts are drawn again, with replacement."""
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        *drawn, rest = (one[torch.from_numpy(rng.integers(len(one), size=len(one)))] for one in (*rows, others))
        yield _leans(_concepts(drawn, rest, encode))


def _bootstrapped(value: float, drawn: Float[np.ndarray, "draws"], count: int) -> Figure:
    """`value` with its interval from the values of texts that were drawn again."""
    reach = float(t.ppf(0.975, len(drawn) - 1) * drawn.std(ddof=1))
    how = f"signed difference of cosines, bootstrap over texts, {len(drawn)} draws"
    return Figure(value, value - reach, value + reach, 0.0, count, how)


def _shared(target: Float[Tensor, "m"], reference: Float[Tensor, "m"]) -> tuple[int, ...]:
    return tuple(torch.topk(target * reference, min(SHARED, len(target))).indices.tolist())


def _accuracy(having: Tensor, lacking: Tensor) -> float:
    """Of the probe, on texts that it was not fitted on."""
    X, labels = torch.cat([having, lacking]).double().numpy(), np.arange(len(having) + len(lacking)) < len(having)
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(cross_val_score(probe, X, labels).mean())
