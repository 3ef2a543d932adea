"""Detection of concepts in texts: a score, a probability, and which tokens it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from covec import registry
from covec.concepts.vector import ConceptVector
from covec.detect._aggregator import Aggregator
from covec.detect._html import fragment
from covec.detect._scores import Readers, Vectors, listed, token_scores
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position, is_bare, mask, warn_of_bare
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized, one_or_several
from covec.progress import Progress, silent


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token, its characters `start:end` in the text, and its score; None for the first, which says nothing."""

    token: str
    start: int
    end: int
    score: float | None


@dataclass(frozen=True, repr=False)
class Detection:
    """What one vector says of one text.

    `score` has the class means at -0.5 and 0.5; the concept counts as present where it exceeds the vector's threshold
    (`fires`). `probability` is None where the vector is not calibrated, `tokens` empty where they were not asked for.
    """

    text: str
    concept: str
    score: float
    probability: float | None
    fires: bool
    tokens: tuple[TokenScore, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values under the names of the fields."""
        return {**asdict(self), "tokens": [asdict(token) for token in self.tokens]}

    def __str__(self) -> str:
        chance = "" if self.probability is None else f", probability {self.probability:.2f}"
        return f"{self.concept} {self.score:+.2f}{chance}, {'fires' if self.fires else 'silent'}: {self.text}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        spans = [(token.start, token.end, token.score) for token in self.tokens]
        return fragment(str(self).partition(": ")[0], self.text, spans)


class Detections(list[Detection]):
    """Detections in a list, texts outer and vectors inner; a notebook draws them."""

    def to_json(self) -> dict[str, Any]:
        """The document that `covec detect --json` prints where there are no rules."""
        return {"results": [detection.to_json() for detection in self], "reasoned": []}

    def _repr_html_(self) -> str:
        return "".join(detection._repr_html_() for detection in self)


def detect(
    model: TextModel,
    vectors: Vectors,
    inputs: Input | Sequence[Input],
    *,
    tokens: bool = True,
    places: Sequence[str] | None = None,
    batch_tokens: int = TOKEN_BUDGET,
    force: bool = False,
    progress: Progress = silent,
) -> Detection | Detections:
    """Look for concepts in texts or chats; one forward pass serves all vectors and sites.

    A vector with several directions, at one site or at several, scores the mean of theirs.

    Parameters
    ----------
    vectors
        A concept vector, a bank or several vectors.
    inputs
        One text or chat, or several.
    tokens
        Whether to list every token's score.
    places
        What errors call each input, such as a line of a file.
    batch_tokens
        Padded tokens a forward pass.
    force
        Let vectors through that were found in another model.

    Returns
    -------
    Detection or Detections
        One for one vector and one input; otherwise a list of one an input and vector, inputs outer.

    Raises
    ------
    CovecError
        A vector belongs to another model or only writes, its aggregator is unknown, or an input is empty or too long.
    """
    chosen = listed(vectors)
    given, alone = one_or_several(inputs)
    readers = Readers.of(model, chosen, force=force)
    read = model.tokenize(given, places=places)
    found = detect_tokens(
        model, chosen, readers, read, list_tokens=tokens, batch_tokens=batch_tokens, progress=progress
    )
    return found[0] if alone and isinstance(vectors, ConceptVector) else found


def detect_tokens(
    model: TextModel,
    vectors: Sequence[ConceptVector],
    readers: Readers,
    tokens: Sequence[Tokenized],
    *,
    list_tokens: bool = True,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> Detections:
    """As `detect`, of inputs that are already tokenised and vectors that are already checked."""
    aggregators: list[Aggregator] = [registry.get("detect", vector.aggregator)(vector.threshold) for vector in vectors]
    scores = token_scores(model, readers, tokens, batch_tokens=batch_tokens, progress=progress)
    columns = [
        aggregated(aggregator, [rows[:, place] for rows in scores], tokens)
        for place, aggregator in enumerate(aggregators)
    ]
    found = Detections()
    for row, item in enumerate(tokens):
        for place, vector in enumerate(vectors):
            score = float(columns[place][row])
            chance = None if vector.calibration is None else float(vector.probability(score))
            shown = _tokens(model, item, scores[row][:, place]) if list_tokens else ()
            found.append(Detection(item.text, vector.name, score, chance, score > vector.threshold, shown))
    return found


def aggregated(
    aggregator: Aggregator, scores: Sequence[Float[np.ndarray, "tokens"]], tokens: Sequence[Tokenized]
) -> Float[np.ndarray, "n"]:
    """One score an input, of the tokens that the aggregator is for."""
    if not tokens:
        return np.zeros(0)
    return aggregator.aggregate(*flat(scores, tokens, aggregator.selection()))


def flat(
    values: Sequence[Any], tokens: Sequence[Tokenized], position: Position
) -> tuple[Float[np.ndarray, "tokens"], Float[np.ndarray, "n_plus_1"]]:
    """What belongs to the tokens of a position, of all inputs in a row, with the offsets of the inputs.

    Warns where inputs have no content and their last token stands in, or is what is asked for.
    """
    masks = [mask(position, item.layout) for item in tokens]
    if position.select in ("content", "last"):
        warn_of_bare(sum(is_bare(item.layout) for item in tokens))
    kept = [np.asarray(row)[chosen] for row, chosen in zip(values, masks, strict=True)]
    return np.concatenate(kept), np.concatenate([[0], np.cumsum([len(row) for row in kept])])


def _tokens(model: TextModel, item: Tokenized, scores: Float[np.ndarray, "tokens"]) -> tuple[TokenScore, ...]:
    return tuple(
        TokenScore(
            item.text[start:end] or str(model.tokenizer.convert_ids_to_tokens(item.ids[index])),
            start,
            end,
            float(scores[index]) if index else None,  # token 0 is a sink of attention: its activation is an outlier
        )
        for index, (start, end) in enumerate(item.offsets)
    )
