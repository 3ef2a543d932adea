"""What a text is worth: the concept in it, how fluent it is, whether it goes on with its prompt, and what is known."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression

from covec.activations.fluency import surprise
from covec.activations.split import Split
from covec.bench._texts import Encode
from covec.bench.steering._subject import Subject
from covec.concepts.packaged import neutral_texts
from covec.edits.passes import passes
from covec.models.text import TextModel

GRAM = 3  # words in a row of which a repeat counts


class Presence:
    """How likely a text has each concept: logistic regressions on sentence embeddings, of rows no vector has seen.

    Neutral texts are among those that lack every concept. Classes weigh the same.
    """

    def __init__(self, subjects: Mapping[str, Subject], encode: Encode) -> None:
        self.encode = encode
        neutral = encode(neutral_texts()).numpy()
        self._classifiers: dict[str, Any] = {}
        for name, subject in subjects.items():
            trial = subject.trial
            rows = encode([trial.examples.texts[row] for row in trial.judged]).numpy()
            labels = np.concatenate([trial.labels(trial.judged), np.zeros(len(neutral), dtype=bool)])
            classifier = LogisticRegression(C=10.0, max_iter=1000, class_weight="balanced")
            self._classifiers[name] = classifier.fit(np.concatenate([rows, neutral]), labels)

    def rate(self, embedded: Float[np.ndarray, "n d"]) -> dict[str, Float[np.ndarray, "n"]]:
        """The probability of every concept, from the texts' embeddings."""
        return {name: one.predict_proba(embedded)[:, 1] for name, one in self._classifiers.items()}


def embed(encode: Encode, texts: Sequence[str]) -> Float[np.ndarray, "n d"]:
    """A row a text; one that is empty has no direction."""
    full = [row for row, text in enumerate(texts) if text.strip()]
    rows = encode([texts[row] for row in full]).numpy() if full else np.zeros((0, 1))
    found = np.zeros((len(texts), rows.shape[1]))
    found[full] = rows
    return found


def relevance(
    written: Float[np.ndarray, "n d"], prompts: Float[np.ndarray, "m d"], own: Sequence[int]
) -> Float[np.ndarray, "n"]:
    """Share of the other prompts that are less like a text than the prompt it goes on with: by chance a half."""
    alike = written @ prompts.T
    mine = alike[np.arange(len(own)), list(own)][:, None]
    return ((alike < mine).sum(1) + ((alike == mine).sum(1) - 1) / 2) / (prompts.shape[0] - 1)


def repetition(text: str) -> float:
    """Share of the word triples of a text that stood in it before."""
    words = text.lower().split()
    grams = [tuple(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def nats(model: TextModel, prompts: Sequence[str], written: Sequence[str]) -> Float[np.ndarray, "n"]:
    """Mean surprise a token of each continuation, in the unsteered model; that of an empty text is 0."""
    lost, counts = surprise(model, prompts, written)
    return lost / np.maximum(counts, 1)


def questions() -> tuple[tuple[str, ...], ...]:
    """Openings of sentences, each with its right ending and three wrong ones."""
    text = (files("covec.bench") / "data" / "questions.toml").read_text(encoding="utf-8")
    return tuple(map(tuple, tomllib.loads(text)["questions"]))


def known(model: TextModel, asked: Sequence[str], edits: Sequence[Any]) -> Float[np.ndarray, "k"]:
    """Share of the questions that a model under each of `edits` answers: the right ending is the likeliest of four.

    `asked` are the openings, in their order, as the model is given them.
    """
    tokens = [item for item in model.tokenize(list(asked), offsets=False) for _ in edits]
    encode = model.tokenizer
    endings = [
        [encode(f" {ending}", add_special_tokens=False)["input_ids"][0] for ending in each[1:]] for each in questions()
    ]
    right, head = np.zeros(len(edits)), Split(model, "embed")
    for batch, hidden in passes(model, tokens, [*edits] * len(asked)):
        last = torch.stack([states[layout.last] for states, layout in zip(hidden, batch.layouts, strict=True)])
        with torch.no_grad():
            logits = head.logits(last).float()
        for row, scores in zip(batch.rows, logits, strict=True):
            question, place = divmod(row, len(edits))
            right[place] += int(scores[endings[question]].argmax()) == 0
    return right / len(asked)
