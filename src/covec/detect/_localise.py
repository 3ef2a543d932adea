"""Where in a text a concept is, by what the concept looks like in that text.

A text's own SuperActivators show the concept as it is there. That this tells its other tokens better than one vector
for all texts does is said in "The SuperActivator Mechanism", arXiv:2512.05038; the claim here measures both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from covec.concepts.vector import ConceptVector
from covec.detect._detect import TokenScore
from covec.detect.super_activators import SuperActivators
from covec.errors import CovecError
from covec.models.batching import TOKEN_BUDGET
from covec.models.text import TextModel
from covec.models.tokens import Input, one_or_several


@dataclass(frozen=True)
class Localised:
    """A concept in one text.

    `direction` [d] is what the concept looks like there, of unit length; `tokens` has each token's cosine to it, None
    for what is no content; `super_activators` are the indices of the tokens that it was made of. Where `fires` is false
    no token reaches the tail, and the highest one stands in.
    """

    text: str
    concept: str
    fires: bool
    direction: Float[np.ndarray, "d"]
    tokens: tuple[TokenScore, ...]
    super_activators: tuple[int, ...]


def localise(
    model: TextModel,
    vector: ConceptVector,
    inputs: Input | Sequence[Input],
    *,
    top: bool = False,
    batch_tokens: int = TOKEN_BUDGET,
) -> Localised | list[Localised]:
    """Where texts have a concept, token by token, by each text's own vector of it.

    Parameters
    ----------
    vector
        One direction at one site, with the threshold of `super-activators` (`covec.detect.calibrate` gives it one).
    top
        Take the highest token alone.

    Returns
    -------
    Localised
        For one input; a list for several.

    Raises
    ------
    CovecError
        The vector has another aggregator, no class means, or belongs to another model.
    """
    vector.check_model(model.describe())
    part = vector.parts[vector.site]
    if vector.aggregator != "super-activators":
        raise CovecError(f"{vector.name!r} is detected by {vector.aggregator}: calibrate it for super-activators first")
    if part.mean_positive is None or part.mean_negative is None:
        raise CovecError(f"{vector.name!r} has no class means, from which activations are centred: find it anew")
    given, alone = one_or_several(inputs)
    found = model.capture(given, vector.site, "content/none", batch_tokens=batch_tokens)
    assert found.offsets is not None
    assert found.tokens is not None
    rows, offsets = found[vector.site], found.offsets.numpy()
    middle = (part.mean_positive + part.mean_negative) / 2
    scores, centred = vector.score(rows).double().numpy(), (rows - middle).double().numpy()
    tail = SuperActivators(vector.threshold)
    local = tail.local_vectors(scores, offsets, centred, top=top)
    local /= np.maximum(np.linalg.norm(local, axis=1, keepdims=True), 1e-12)
    lengths = np.linalg.norm(centred, axis=1)
    cosines = (centred * np.repeat(local, np.diff(offsets), axis=0)).sum(1) / np.maximum(lengths, 1e-12)
    several = []
    for row, item in enumerate(model.tokenize(given)):
        own = slice(offsets[row], offsets[row + 1])
        places = found.tokens[own].tolist()
        read = dict(zip(places, cosines[own].tolist(), strict=True))
        fires = tail.tail(scores[own])
        chosen = fires if fires.any() and not top else scores[own] == scores[own].max()
        tokens = tuple(
            TokenScore(item.text[start:end], start, end, read.get(index))
            for index, (start, end) in enumerate(item.offsets)
        )
        marked = tuple(place for place, one in zip(places, chosen, strict=True) if one)
        several.append(Localised(item.text, vector.name, bool(fires.any()), local[row], tokens, marked))
    return several[0] if alone else several
