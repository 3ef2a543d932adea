from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.checks.planted import draw
from covec.errors import ExamplesError
from covec.find._rows import Rows
from covec.find.pca_pairs import PcaPairs, paired_differences


def test_exact() -> None:
    """Differences (3, 0), (3, 0) and (0, 1): the first axis has the larger spread."""
    X = [[3.0, 0.0], [0.0, 0.0], [4.0, 5.0], [1.0, 5.0], [7.0, 8.0], [7.0, 7.0]]
    found = PcaPairs().fit(X, [1, 0] * 3, pairs=list("aabbcc"))
    torch.testing.assert_close(found.direction_, torch.tensor([1.0, 0.0]))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 30))
def test_it_is_the_first_right_singular_vector(seed: int, d: int) -> None:
    world = draw(20, d, effect=2, seed=seed)
    differences = (world.X[::2] - world.X[1::2]).double().numpy()
    wanted = np.linalg.svd(differences)[2][0]
    found = PcaPairs().fit(world.X, world.y, pairs=world.pairs)
    assert abs(found.direction_.double().numpy() @ wanted) > 1 - 1e-5
    assert found.scale_ > 0


def test_members_of_a_pair_are_averaged_and_single_rows_left_out() -> None:
    X = torch.tensor([[1.0], [3.0], [0.0], [9.0], [5.0], [7.0], [8.0]])
    rows = Rows(X, np.array([True, True, False, True, True, False, True]), None, ["a", "a", "a", "b", "c", "c", None])
    assert sorted(paired_differences(rows)[:, 0].tolist()) == [-2, 2]


def test_pairs_are_needed() -> None:
    world = draw(8, 3, effect=2, seed=0)
    with pytest.raises(ExamplesError, match="needs pairs"):
        PcaPairs().fit(world.X, world.y)
    with pytest.raises(ExamplesError, match="two pairs with a row of each class, these rows have 1"):
        PcaPairs().fit(world.X, world.y, pairs=["a", "a", *"bcdefg"])
