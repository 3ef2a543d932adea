"""Laws of splits and folds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.errors import ExamplesError
from covec.statistics.splits import (
    Split,
    deal,
    folds,
    independent_groups,
    left_out,
    near_duplicate_key,
    regime,
    split,
    units,
)

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def texts(count: int, start: int = 0) -> list[str]:
    return [f"text number {index}" for index in range(start, start + count)]


def alternating(count: int) -> np.ndarray:
    return np.arange(count) % 2 == 0


def part_of(parts: Split, count: int) -> np.ndarray:
    part = np.full(count, -1)
    for index, rows in enumerate((parts.train, parts.validation, parts.test)):
        part[rows] = index
    return part


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Good, good!", "good good"),
        ("\uff27\uff2f\uff2f\uff24", "good"),
        ("Straße", "STRASSE"),
        ("a b\tc\n", "abc"),
        ("don\u2019t", "don't"),
        ("\ufb01ne", "FINE"),
    ],
)
def test_texts_equal_but_for_case_form_punctuation_and_space_have_one_key(one: str, other: str) -> None:
    assert near_duplicate_key(one) == near_duplicate_key(other)


@pytest.mark.parametrize(("one", "other"), [("good", "goods"), ("3 > 2", "3 < 2"), ("cafe", "café"), ("?", "!")])
def test_nothing_looser_is_a_duplicate(one: str, other: str) -> None:
    assert near_duplicate_key(one) != near_duplicate_key(other)


@given(st.lists(st.sampled_from(["Zoë", "and", "7", "ÉTÉ", "日本"])), st.sampled_from([" ", ", ", "\u2014", "!\n"]))
def test_what_stands_between_words_does_not_matter(words: list[str], mark: str) -> None:
    assert near_duplicate_key(mark.join(words)) == near_duplicate_key("".join(words).lower())


@given(st.lists(st.tuples(st.sampled_from(LETTERS), st.booleans()), min_size=30, max_size=120), st.integers(0, 99))
@settings(max_examples=40)
def test_duplicates_never_straddle(rows: list[tuple[str, bool]], seed: int) -> None:
    keys = [f"{letter}" for letter, _ in rows] + texts(40)
    labels = np.array([label for _, label in rows] + alternating(40).tolist())
    part = part_of(split(keys, labels, seed=seed), len(keys))
    assert all(len(set(part[[other == key for other in keys]])) == 1 for key in set(keys))
    for train, test in folds(units(keys), labels, seed=seed):
        assert not {keys[row] for row in train} & {keys[row] for row in test}


@given(st.lists(st.sampled_from(LETTERS), min_size=60, max_size=60), st.integers(0, 99))
@settings(max_examples=40)
def test_pairs_and_groups_never_straddle_and_no_text_stands_twice(letters: list[str], seed: int) -> None:
    keys = [letter if index % 3 == 0 else f"{letter}{index}" for index, letter in enumerate(letters)] + texts(60)
    pairs = [str(index // 2) for index in range(120)]
    labels = alternating(120)
    part = part_of(split(keys, labels, pairs=pairs, seed=seed), 120)
    assert (part[::2] == part[1::2]).all()
    kept = part >= 0
    assert all(len(set(part[kept & np.array([other == key for other in keys])])) <= 1 for key in set(keys))
    groups = [str(index // 6) for index in range(120)]
    part = part_of(split(texts(120), labels, groups=groups, seed=seed), 120)
    assert all(len(set(part[start : start + 6])) == 1 for start in range(0, 120, 6))


def test_adding_rows_moves_no_other() -> None:
    few, many = texts(200), texts(300)
    before = part_of(split(few, alternating(200)), 200)
    after = part_of(split(many, alternating(300)), 300)
    assert (before == after[:200]).all()


@given(st.permutations(range(80)), st.integers(0, 9))
@settings(max_examples=20)
def test_the_order_of_rows_decides_nothing(order: list[int], seed: int) -> None:
    keys, labels = texts(80), alternating(80)
    shuffled = [keys[row] for row in order]
    part = part_of(split(keys, labels, seed=seed), 80)
    assert (part[order] == part_of(split(shuffled, labels[order], seed=seed), 80)).all()
    assert (deal(keys, labels, seed=seed)[order] == deal(shuffled, labels[order], seed=seed)).all()


def test_only_the_salt_moves_rows() -> None:
    keys, labels = texts(400), alternating(400)
    parts = [part_of(split(keys, labels, seed=seed), 400) for seed in (0, 0, 1)]
    assert (parts[0] == parts[1]).all()
    assert (parts[0] != parts[2]).mean() > 0.3
    assert (parts[0] == part_of(split(keys, ~labels), 400)).all()  # nor do labels


def test_shares_are_sixty_twenty_twenty() -> None:
    parts = split(texts(5000), alternating(5000))
    shares = np.array([len(parts.train), len(parts.validation), len(parts.test)]) / 5000
    assert np.abs(shares - [0.6, 0.2, 0.2]).max() < 0.02


@given(st.integers(8, 14), st.integers(8, 200), st.integers(0, 50))
@settings(max_examples=60)
def test_every_part_has_both_classes_however_rare_one_is(rare: int, common: int, seed: int) -> None:
    labels = np.array([True] * rare + [False] * common)
    parts = split(texts(rare + common), labels, seed=seed)
    for rows in (parts.train, parts.validation, parts.test):
        assert labels[rows].any()
        assert not labels[rows].all()


@given(st.integers(0, 8), st.integers(0, 20))
@settings(max_examples=30)
def test_folds_have_both_classes_also_where_units_hold_both(mixed: int, seed: int) -> None:
    rest = 8 - mixed
    names = [f"both {i}" for i in range(mixed) for _ in range(2)] + [f"one {i}" for i in range(2 * rest)]
    labels = np.array([True, False] * mixed + [True] * rest + [False] * rest)
    for train, test in folds(names, labels, seed=seed):
        assert labels[train].any()
        assert labels[test].any()
        assert not labels[train].all()
        assert not labels[test].all()


def test_folds_partition_the_rows_that_are_kept() -> None:
    names = [None, *texts(49)]
    parts = folds(names, alternating(50))
    assert Counter(row for _, test in parts for row in test.tolist()) == Counter(range(1, 50))
    assert all(not set(train.tolist()) & set(test.tolist()) and 0 not in train for train, test in parts)


def test_too_few_units_for_the_folds_are_refused() -> None:
    with pytest.raises(ExamplesError, match="4 independent positive examples cannot fill 5 folds"):
        folds(texts(20), np.arange(20) < 4)


def test_a_text_in_two_groups_stays_in_the_first() -> None:
    assert units(["a", "b", "a", "c"], groups=["x", "x", "y", "y"]) == ["group x", "group x", None, "group y"]
    assert left_out(["group x", None, None]) == (
        "rows left out, because their text stands in an earlier group or pair too: 2",
    )
    assert left_out(["group x"]) == ()


def test_the_rest_of_a_pair_goes_with_its_text() -> None:
    names = units(["a", "b", "a", "c", "c", "d"], pairs=["1", "1", "2", "2", "3", "3"])
    assert names == ["pair 1", "pair 1", None, None, "pair 3", "pair 3"]


def test_rows_without_an_id_stand_by_their_text() -> None:
    assert units(["a", "b", "a"], groups=[None, "x", None]) == ["text a", "group x", "text a"]
    assert units(["a", "b"], groups=["x", "x"], pairs=["1", "1"]) == ["group x", "group x"]


def test_a_pair_in_two_groups_is_refused() -> None:
    with pytest.raises(ExamplesError, match="pair '1' stands in two groups"):
        units(["a", "b"], groups=["x", "y"], pairs=["1", "1"])


def test_independent_groups_are_units_a_class() -> None:
    labels = np.array([True, True, False, False, True])
    assert independent_groups(["a", "a", "a", "b", None], labels) == (1, 2)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (7, "refused"),
        (8, "too-little-data"),
        (19, "too-little-data"),
        (20, "nested"),
        (49, "nested"),
        (50, "holdout"),
    ],
)
def test_regimes(count: int, expected: str) -> None:
    assert regime(count) == expected


def test_a_split_column_overrides() -> None:
    fixed = ["test", "test", "train", "train", "validation", "validation"]
    parts = split(texts(6), alternating(6), fixed=fixed)
    assert [parts.train.tolist(), parts.validation.tolist(), parts.test.tolist()] == [[2, 3], [4, 5], [0, 1]]
    assert parts.warnings == ()
    leaking = split(["a", "b", "a", "d", "e", "f"], alternating(6), fixed=fixed)
    assert leaking.warnings == ("rows that share their text, group or pair with another part of the split column: 2",)
    with pytest.raises(ExamplesError, match="no negative validation rows"):
        split(texts(6), np.array([1, 0, 1, 0, 1, 1], dtype=bool), fixed=fixed)


def test_a_split_column_keeps_no_row_of_an_earlier_group() -> None:
    """A row without a unit has no fold, and would stand in a part without ever being scored."""
    keys, groups = ["a", "b", "c", "d", "a", "e", "f", "g", "h", "b"], list("qrstuvwxyz")
    fixed = ["train"] * 5 + ["validation"] * 2 + ["test"] * 3
    parts = split(keys, alternating(10), groups=groups, fixed=fixed)
    assert [part.tolist() for part in (parts.train, parts.validation, parts.test)] == [[0, 1, 2, 3], [5, 6], [7, 8]]
    assert parts.warnings == left_out(units(keys, groups=groups))


@given(st.integers(0, 10**6), st.integers(5, 30), st.integers(5, 30), st.integers(0, 6))
def test_which_class_is_called_positive_moves_no_row(seed: int, positive: int, negative: int, both: int) -> None:
    labels = np.repeat([True, False], [positive + both, negative + both])
    names = [*(f"p{one}" for one in range(positive)), *(f"b{one}" for one in range(both))]
    names += [*(f"b{one}" for one in range(both)), *(f"n{one}" for one in range(negative))]
    np.testing.assert_array_equal(deal(names, labels, seed=seed), deal(names, ~labels, seed=seed))
