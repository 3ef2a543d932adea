"""What is explained: how likely words are to come next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from covec.activations.capture import forward
from covec.activations.split import Split
from covec.errors import ExamplesError, ModelError
from covec.models.batching import TOKEN_BUDGET, pack, pad
from covec.models.text import TextModel
from covec.models.tokens import Tokenized
from covec.models.vocabulary import Vocabulary


@dataclass(frozen=True)
class Target:
    """A weighted sum of the log-probabilities of `tokens`, as the token after an input."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(cls, model: TextModel, words: str | Mapping[str, float]) -> Target:
        """The log-probability of a word, or of several with their weights, such as `{"she": 1, "he": -1}`.

        Raises
        ------
        ExamplesError
            No word was given, or a weight is not a finite number.
        ModelError
            A word is not one token of the model, or the model continues no text.
        """
        given = {words: 1.0} if isinstance(words, str) else dict(words)
        if not given or not all(isinstance(one, int | float) and np.isfinite(one) for one in given.values()):
            raise ExamplesError("a target is a word, or words with their weights, such as {'she': 1, 'he': -1}")
        if not model.causal:
            raise ModelError(f"{model.name} continues no text, so that no word comes next: explain a causal model")
        vocabulary = Vocabulary(model)
        return cls(tuple(map(vocabulary.token, given)), tuple(map(float, given.values())))

    def values(self, split: Split, tokens: Sequence[Tokenized]) -> Float[np.ndarray, "n"]:
        """What it is after each of several inputs, whatever edits are in force."""
        model, found = split.model, np.zeros(len(tokens))
        model.check_settled()
        weights = torch.tensor(self.weights, dtype=torch.float64, device="cpu")
        with torch.no_grad():
            for rows in pack([len(one.ids) for one in tokens], TOKEN_BUDGET, model.together):
                batch = pad(tokens, rows, pad_id=model.pad_id, masked=False, device=model.device)
                ends = [layout.length - 1 for layout in batch.layouts]
                logits = split.logits(forward(model, batch)[0][range(len(ends)), ends])
                chances = logits.float().log_softmax(-1)[:, list(self.tokens)].double().cpu()
                found[rows] = (chances @ weights).numpy()
        return found
