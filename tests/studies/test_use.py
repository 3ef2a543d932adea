"""The test of use: which held-out texts it takes."""

from types import SimpleNamespace

import numpy as np

from covec.concepts.examples import Examples
from covec.studies._sweep import Data
from covec.studies._use import _drawn


def test_the_order_of_the_rows_does_not_decide_which_texts_are_used():
    texts = [f"text {row}" for row in range(60)]
    labels = np.arange(60) % 3 == 0
    found, settings = SimpleNamespace(test_rows=np.arange(60)), SimpleNamespace(split_seed=0)
    drawn = _drawn(Data(Examples(tuple(texts), labels), {}), found, settings)
    order = np.random.default_rng(1).permutation(60)
    shuffled = Examples(tuple(texts[row] for row in order), labels[order])
    assert _drawn(Data(shuffled, {}), found, settings) == drawn
    assert sorted(drawn[True]) == sorted(text for text, label in zip(texts, labels, strict=True) if label)
    assert drawn[False][:10] != [text for text, label in zip(texts, labels, strict=True) if not label][:10]
