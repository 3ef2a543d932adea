"""What raw text gives away, and the warning where that is too much."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from covec.concepts.examples import Examples
from covec.measure._baselines import Baseline, bag_of_words, balance_warning, cue_probe, leakage_warning
from covec.statistics.figure import Figure
from covec.statistics.splits import Split, folds, split

WORDS = [
    "river",
    "stone",
    "letter",
    "window",
    "garden",
    "engine",
    "market",
    "winter",
    "copper",
    "ladder",
    "basket",
    "signal",
]


def sentences(count: int, seed: int = 0, length: int = 12) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(4, length))) for _ in range(count)]


def examples_of(texts: list[str], labels: np.ndarray) -> tuple[Examples, Split]:
    examples = Examples(tuple(texts), labels)
    return examples, split(examples.keys, labels)


def coin(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.arange(count) % 2 == 0)


def cues(low: float, value: float) -> Baseline:
    figure = Figure(value, low, 1.0)
    return Baseline(np.zeros(1), np.zeros(1), figure, figure, "the first word")


def test_a_word_that_decides_is_found_by_the_bag_and_not_by_the_cues() -> None:
    labels = coin(400)
    texts = [
        f"one {text} {'merry' if label else 'gruff'} {text} end."
        for text, label in zip(sentences(400), labels, strict=True)
    ]
    examples, parts = examples_of(texts, labels)
    assert bag_of_words(examples, parts).auroc.value > 0.99
    probe = cue_probe(examples, parts)
    assert probe.auroc.low is not None
    assert probe.auroc.low < 0.55
    assert leakage_warning(probe) is None


@pytest.mark.parametrize(
    ("cue", "mark"),
    [
        ("the first word", lambda text, label: f"{'Surely' if label else 'Hardly'} {text}"),
        ("the last word", lambda text, label: f"{text} {'indeed' if label else 'though'}"),
        ("the final punctuation", lambda text, label: text + ("!" if label else ".")),
        ("the length", lambda text, label: f"{text} {text} {text}" if label else text),
        ("digits", lambda text, label: f"stone {7 if label else 'seven'} {text}"),
        ("capital letters", lambda text, label: text.upper() if label else text),
    ],
)
def test_a_template_is_flagged_and_its_cue_named(cue, mark) -> None:
    labels = coin(300)
    examples, parts = examples_of(
        [mark(text, label) for text, label in zip(sentences(300), labels, strict=True)], labels
    )
    probe = cue_probe(examples, parts)
    warning = leakage_warning(probe)
    assert probe.auroc.value > 0.9
    assert warning is not None
    assert f"most by {cue}" in warning
    assert "\n" not in warning


def test_labels_by_chance_are_not_told_apart() -> None:
    flagged, inside = 0, 0
    for seed in range(6):
        examples, parts = examples_of(sentences(200, seed), coin(200, seed))
        bag, probe = bag_of_words(examples, parts), cue_probe(examples, parts)
        flagged += leakage_warning(probe) is not None
        inside += sum((base.auroc.low or 0) <= 0.5 <= (base.auroc.high or 1) for base in (bag, probe))
    assert flagged == 0
    assert inside >= 9  # of 12 intervals of 95%


def test_the_warning_is_relative_to_the_vector() -> None:
    assert leakage_warning(cues(0.74, 0.8)) is None
    assert leakage_warning(cues(0.76, 0.8)) is not None
    assert leakage_warning(cues(0.66, 0.7), Figure(0.8)) is not None
    assert leakage_warning(cues(0.64, 0.7), Figure(0.8)) is None
    assert leakage_warning(cues(0.45, 0.6), Figure(0.4)) is None


def test_words_that_are_worse_than_guessing_are_warned_of() -> None:
    """Each noun stands once in either class, so the one that is left in teaches the wrong of the one left out."""
    nouns = [f"noun{row // 2} thing{row // 2}" for row in range(200)]
    texts = [f"{noun} here {noun} stone{row}" for row, noun in enumerate(nouns)]
    examples, parts = examples_of(texts, np.arange(200) % 2 == 0)
    words = bag_of_words(examples, parts)
    assert words.auroc.value < 0.3
    assert "column pair or group" in str(balance_warning(words))
    assert balance_warning(bag_of_words(*examples_of(sentences(200), coin(200)))) is None


def test_the_ridge_is_chosen_on_validation_and_the_fit_is_scikit_learns() -> None:
    labels = coin(200)
    texts = [
        f"{text} {'merry' if label and i % 3 else 'gruff'}"
        for i, (text, label) in enumerate(zip(sentences(200), labels, strict=True))
    ]
    examples, parts = examples_of(texts, labels)
    everything = np.array(texts, dtype=object)

    def fitted(strength: float, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        words = CountVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]")
        counts = words.fit_transform(everything[rows])
        model = LogisticRegression(C=strength, max_iter=1000).fit(counts, labels[rows])
        return model.decision_function(words.transform(everything[others]))

    strengths = (0.01, 0.1, 1.0, 10.0, 100.0)
    areas = [roc_auc_score(labels[parts.validation], fitted(s, parts.train, parts.validation)) for s in strengths]
    rows = np.concatenate([parts.train, parts.validation])
    expected = fitted(strengths[int(np.argmax(areas))], rows, parts.test)
    found = bag_of_words(examples, parts)
    np.testing.assert_allclose(found.scores, expected, atol=1e-6)
    assert found.auroc.value == pytest.approx(roc_auc_score(labels[parts.test], expected))
    assert found.accuracy.value == pytest.approx(((expected > 0) == labels[parts.test]).mean())


def test_chats_and_texts_of_marks_alone_are_taken() -> None:
    labels = coin(100)
    chats = [
        [{"role": "user", "content": f"{i}?"}, {"role": "assistant", "content": "..." if label else "!!"}]
        for i, label in enumerate(labels)
    ]
    examples = Examples(tuple(chats), labels)
    parts = split(examples.keys, labels)
    assert bag_of_words(examples, parts).auroc.value == 1.0
    assert "the final punctuation" in cue_probe(examples, parts).strongest


def test_pairs_widen_the_interval_by_the_cluster_bootstrap() -> None:
    labels = np.arange(300) % 2 == 0
    pairs = tuple(str(row // 2) for row in range(300))
    examples = Examples(tuple(f"{text} {i}" for i, text in enumerate(sentences(300))), labels, pairs=pairs)
    parts = split(examples.keys, labels, pairs=pairs)
    assert "cluster bootstrap" in bag_of_words(examples, parts).auroc.how


def test_folds_serve_as_splits() -> None:
    labels = coin(60)
    texts = [
        f"{text} {i} {'merry' if label else 'gruff'}"
        for i, (text, label) in enumerate(zip(sentences(60), labels, strict=True))
    ]
    examples = Examples(tuple(texts), labels)
    tests = [test for _, test in folds(examples.units, labels)]
    scores = np.zeros(60)
    for k, test in enumerate(tests):
        validation = tests[(k + 1) % 5]
        train = np.setdiff1d(np.arange(60), np.concatenate([test, validation]))
        scores[test] = bag_of_words(examples, Split(train, validation, test)).scores
    assert roc_auc_score(labels, scores) > 0.95
