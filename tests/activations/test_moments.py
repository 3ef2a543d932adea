"""Moments of a stream are those of the whole, whatever the shards."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.activations.moments import Moments
from covec.errors import ExamplesError


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.lists(st.integers(1, 20), min_size=1, max_size=6), st.floats(0, 1e4))
def test_shards_merge_to_the_whole(seed, sizes, shift):
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.normal(size=(sum(sizes), 5)) + shift)
    labels = np.arange(len(rows)) % 2 == 0
    target = torch.from_numpy(rng.normal(size=len(rows)))
    parts, start = [], 0
    for size in sizes:
        cut = slice(start, start + size)
        parts.append(Moments(5, per_label=True).update(rows[cut], labels[cut], targets={"t": target[cut]}))
        start += size
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part)
    assert merged.count() == len(rows)
    torch.testing.assert_close(merged.mean(), rows.mean(0))
    expected = np.cov(rows.numpy().T, bias=True) if len(rows) > 1 else np.zeros((5, 5))
    np.testing.assert_allclose(merged.covariance().numpy(), expected, atol=1e-5)
    for label in merged.labels():
        assert merged.count(label) == (labels == label).sum()
        torch.testing.assert_close(merged.mean(label), rows[labels == label].mean(0))
    cross = ((rows - rows.mean(0)) * (target - target.mean())[:, None]).mean(0)
    torch.testing.assert_close(merged.cross_covariance("t"), cross, atol=1e-6, rtol=1e-6)


def test_what_is_not_kept_is_refused():
    moments = Moments(3, covariance=False).update(torch.ones(2, 3), [True, False])
    for ask in (moments.covariance, lambda: moments.mean("other"), lambda: moments.cross_covariance("t")):
        with pytest.raises(ExamplesError):
            ask()
    with pytest.raises(ExamplesError, match="width 3"):
        moments.update(torch.ones(2, 4))
    with pytest.raises(ExamplesError, match="labels"):
        moments.update(torch.ones(2, 3), [True])
    with pytest.raises(ExamplesError, match="same width"):
        moments.merge(Moments(4))


def test_an_empty_shard_changes_nothing() -> None:
    rows, target = torch.randn(4, 3), [1.0, 2.0, 3.0, 5.0]
    whole = Moments(3).update(rows, ["a", "b", "a", "b"], targets={"t": target})
    for empty_first in (True, False):
        found = Moments(3)
        for size in (0, 4) if empty_first else (4, 0):
            found.update(rows[:size], ["a", "b", "a", "b"][:size], targets={"t": target[:size]})
        assert torch.equal(found.cross_covariance("t"), whole.cross_covariance("t"))
        assert torch.equal(found.covariance(), whole.covariance())
        assert found.labels() == whole.labels()


def test_labels_of_a_column_of_objects_are_its_values() -> None:
    moments = Moments(3).update(torch.randn(4, 3), np.array(["a", "b", "a", "b"], dtype=object))
    assert (moments.labels(), moments.count("a")) == (["a", "b"], 2)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], np.ones((4, 1)), 1.0])
def test_one_label_and_one_target_a_row(wrong) -> None:
    moments = Moments(3)
    for given_wrong in ({"labels": wrong}, {"targets": {"t": wrong}}):
        with pytest.raises(ExamplesError, match="for 4 rows: give one each"):
            moments.update(torch.randn(4, 3), **given_wrong)
    assert moments.count() == 0


def test_a_prompt_shows_how_many_rows_they_are_of():
    assert repr(Moments(3)) == "Moments(0 rows of width 3)"
    found = Moments(3, covariance=False).update(torch.ones(3, 3), [True, False, True])
    assert repr(found) == "Moments(3 rows of width 3, 1 labelled False, 2 labelled True)"
    assert repr(Moments(3).update(torch.ones(9, 3), range(9))).endswith("1 labelled 5, ...)")


@pytest.mark.parametrize(
    "labels", [[1, 1.0, "1", True], [True, 1, 0, 1], [None, "a", "a", None], [float("nan")] * 4, [0.5, 1.0, 0.0, 1.0]]
)
def test_labels_of_several_types_and_missing_ones_are_refused(labels):
    for column in (labels, pd.Series(labels, dtype=object), np.array(labels, dtype=object)):
        with pytest.raises(ExamplesError, match="labels"):
            Moments(16).update(torch.ones(4, 16), column)
    assert Moments(16).update(torch.ones(4, 16), np.array([0.0, 1, 1, 0])).count(1.0) == 2
