"""Baselines that need no vector: counts of words, sentence embeddings, and asking the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from covec.activations.sentences import SentenceEncoder
from covec.activations.split import Split
from covec.bench._meter import metered
from covec.bench._subject import Subject, Trial
from covec.bench.result import Row, judged_row
from covec.errors import ModelError
from covec.measure._baselines import INVERSE_RIDGES, words_model
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import ids_behind_space
from covec.statistics.auroc import auroc, best_f1_threshold

Encode = Callable[[Sequence[str]], Float[Tensor, "n d"]]
Scorer = Callable[[Subject], Float[np.ndarray, "rows"]]  # of the judged rows

ANSWERS = ("yes", "no")
QUESTION = 'Text: "{text}"\nDoes the text show {concept}? Answer:{answer}'
_ROWS = 64  # whose logits are held at once


def row_of(subject: Subject, name: str, score: Scorer) -> Row:
    """The row of a baseline; its threshold is that of the highest F1 on validation."""
    scores, cost = metered(lambda: score(subject))
    size = len(subject.trial.validation)
    threshold = best_f1_threshold(scores[:size], subject.trial.labels(subject.trial.validation))
    return judged_row(
        subject.trial, scores, threshold, method=name, kind="text", seconds=cost.seconds, memory=cost.megabytes,
        seed=subject.seed,
    )  # fmt: skip


def bag_of_words(subject: Subject) -> Float[np.ndarray, "rows"]:
    """Logistic regression on counts of words and pairs of words."""
    return _probe(subject, words_model, np.array(subject.trial.examples.texts, dtype=object))


def sentence_embeddings(encode: Encode) -> Scorer:
    """Logistic regression on what `encode` makes of every text."""

    def make(inverse_ridge: float) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression(C=inverse_ridge, max_iter=1000))

    return lambda subject: _probe(subject, make, encode(subject.trial.examples.texts).numpy())


def prompting(subject: Subject) -> Float[np.ndarray, "rows"]:
    """How much likelier the model holds `yes` than `no`, asked for the concept by its name.

    An example of each answer comes first, where the model reads texts of that length.
    """
    model, trial = subject.model, subject.trial
    prompts = questions(trial, examples=True)
    if not _fit(model, prompts):
        prompts = questions(trial, examples=False)
    last = model.capture(prompts, "final", "last", batch_tokens=subject.batch_tokens)[Site("final")]
    split, answers = Split(model, "embed"), _answers(model)
    with torch.no_grad():
        place: Any = {"device": model.device, "dtype": model.dtype}
        logits = torch.cat([split.logits(rows.to(**place)).float()[:, answers].cpu() for rows in last.split(_ROWS)])
    return (logits[:, 0] - logits[:, 1]).double().numpy()


def questions(trial: Trial, *, examples: bool) -> list[str]:
    """A prompt for each judged row."""
    concept = trial.examples.name.replace("-", " ").replace("_", " ")
    known, texts = trial.labels(trial.train), trial.examples.texts
    shown = [trial.train[np.flatnonzero(known == label)[0]] for label in (True, False)] if examples else []
    shots = [
        QUESTION.format(text=texts[row], concept=concept, answer=f" {answer}\n\n")
        for row, answer in zip(shown, ANSWERS, strict=False)
    ]
    asked = (QUESTION.format(text=texts[row], concept=concept, answer="") for row in trial.judged)
    return ["".join([*shots, one]) for one in asked]


def unanswerable(model: TextModel, trials: Iterable[Trial]) -> str:
    """Why a model cannot be asked; empty where it can."""
    if not model.generates:
        return f"{model.name} does not continue texts"
    if len(set(_answers(model))) < len(ANSWERS):
        return f"{' and '.join(ANSWERS)} begin with the same token in {model.name}"
    fits = all(_fit(model, questions(trial, examples=False)) for trial in trials)
    return "" if fits else f"texts with a question are longer than {model.name} reads"


def _answers(model: TextModel) -> list[int]:
    return [ids_behind_space(model.tokenizer, word)[0] for word in ANSWERS]


def _fit(model: TextModel, prompts: list[str]) -> bool:
    lengths = map(len, model.tokenizer(prompts, verbose=False)["input_ids"])
    return model.context is None or max(lengths) <= model.context


def encoder(model: TextModel) -> tuple[Encode, str]:
    """The embedded model of sentences, or, where it cannot be had, the model's own last states; with a note of that."""
    try:
        return SentenceEncoder(), ""
    except ModelError as error:
        own = SentenceEncoder(model, "final", "mean")
        return own, f"sentence-embeddings are means of {model.name}'s last states: {error}"


def _probe(subject: Subject, make: Callable[[float], Any], inputs: Any) -> Float[np.ndarray, "rows"]:
    """Log-odds of the judged rows by the ridge whose AUROC on validation is the highest, fitted on training rows."""
    trial = subject.trial
    known, size = trial.labels(trial.validation), len(trial.validation)
    best: tuple[float, Any] = (-1.0, None)
    for inverse_ridge in INVERSE_RIDGES:
        scores = (
            make(inverse_ridge)
            .fit(inputs[trial.train], trial.labels(trial.train))
            .decision_function(inputs[trial.judged])
        )
        area = float(auroc(scores[:size], known))
        best = max(best, (area, scores), key=lambda one: one[0])
    return np.asarray(best[1], dtype=np.float64)
