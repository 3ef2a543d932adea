"""Judges: how well a text shows what a description says.

A judge stands in for a person who reads texts and rates them: whoever names a vector, or steers with one, is judged by
texts that it has not seen. The two here need no language model, and no network once the embedded model of sentences is
in the cache; anything with `rate` is a third.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from torch import Tensor

from covec.activations.sentences import SentenceEncoder
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_texts
from covec.errors import ExamplesError, listed

Encode = Callable[[Sequence[str]], Float[Tensor, "n d"]]
APART = 2.0  # standard deviations above neutral texts at which a text half shows what is described


@runtime_checkable
class Judge(Protocol):
    """Whatever rates texts as a reader would."""

    def rate(self, description: str, texts: Sequence[str]) -> Float[np.ndarray, "n"]:
        """From 0, the text shows nothing of what is described, over 1, it may, to 2, it clearly does."""
        ...


class SentenceJudge:
    """Rates by meaning: how much nearer a text is to the description than neutral texts are.

    With z the cosine of the two sentence vectors, in standard deviations above the cosines of `background` and the same
    description, the rating is 2 Phi(z - 2): 1 for a text that two deviations set apart, and for neutral ones 0.16 on
    average.

    Parameters
    ----------
    encode
        Texts as rows of unit length; the embedded model of sentences unless given.
    background
        Texts that show nothing in particular; those that come with covec unless given.
    """

    def __init__(self, encode: Encode | None = None, background: Sequence[str] | None = None) -> None:
        self.encode = SentenceEncoder() if encode is None else encode
        self._neutral = self.encode(neutral_texts() if background is None else background)
        if len(self._neutral) < 2:
            raise ExamplesError("a judge by meaning needs two neutral texts at least: give more as background")

    def rate(self, description: str, texts: Sequence[str]) -> Float[np.ndarray, "n"]:
        if not description.strip():
            raise ExamplesError("there is nothing to judge texts by: the description is empty")
        said = self.encode([description])[0]
        usual = (self._neutral @ said).double()
        rows = [place for place, text in enumerate(texts) if text.strip()]
        ratings = np.zeros(len(texts))  # what says nothing shows nothing
        if rows:
            cosines = (self.encode([texts[place] for place in rows]) @ said).double()
            spread = usual.std().clamp_min(torch.finfo(torch.float32).eps)
            ratings[rows] = 2 * norm.cdf(((cosines - usual.mean()) / spread).numpy() - APART)
        return ratings


class ClassifierJudge:
    """Rates by classifiers trained on separate text: twice the probability that a text has the concept.

    A logistic regression on the words and pairs of words of each concept's examples, weighted by their rarity. It knows
    these concepts, by name, and no others.

    Parameters
    ----------
    concepts
        Examples of every concept, by the names that descriptions are to be.

    Raises
    ------
    ExamplesError
        There is no concept, or one has examples of one class alone.
    """

    def __init__(self, concepts: Mapping[str, Examples]) -> None:
        if not concepts:
            raise ExamplesError("a judge of known concepts needs the examples of one at least")
        self._classifiers = {name: _classifier(examples) for name, examples in concepts.items()}

    def rate(self, description: str, texts: Sequence[str]) -> Float[np.ndarray, "n"]:
        if description not in self._classifiers:
            known = listed(list(self._classifiers))
            raise ExamplesError(f"this judge was not trained on {description!r}; it knows {known}")
        if not len(texts):
            return np.zeros(0)
        return 2 * self._classifiers[description].predict_proba(list(texts))[:, 1]


def default_judge(concepts: Mapping[str, Examples] | None = None) -> Judge:
    """The judge of whoever names none: classifiers where there is text to train them on, else sentences by meaning."""
    return ClassifierJudge(concepts) if concepts else SentenceJudge()


def _classifier(examples: Examples) -> Pipeline:
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    judged = examples.check()
    return make_pipeline(words, LogisticRegression(C=10.0, max_iter=1000)).fit(judged.texts, judged.labels)
