"""Activations answer by site and by input."""

from __future__ import annotations

import pytest
import torch

from covec.activations.rows import Activations
from covec.errors import ModelError
from covec.models.positions import Position
from covec.models.sites import Site

ROWS = torch.arange(12.0).reshape(6, 2)
SITES = (Site("resid", 0), Site("resid", 1))


def test_pooled_rows_are_one_an_input() -> None:
    found = Activations({SITES[0]: ROWS, SITES[1]: ROWS + 1}, Position("last"))
    assert len(found) == 6
    assert found.sites == SITES
    assert torch.equal(found["resid.1"], ROWS + 1)
    assert torch.equal(found[SITES[0]], ROWS)
    assert torch.equal(found.of(2, "resid.0"), ROWS[2:3])
    assert found.stack().shape == (2, 6, 2)


def test_unpooled_rows_are_several_an_input() -> None:
    found = Activations({SITES[0]: ROWS}, Position("content"), torch.tensor([0, 1, 1, 6]), torch.arange(6))
    assert len(found) == 3
    assert [len(found.of(index, "resid.0")) for index in range(3)] == [1, 0, 5]
    assert torch.equal(found.of(2, "resid.0"), ROWS[1:])


def test_a_site_that_was_not_captured_is_named() -> None:
    found = Activations({SITES[0]: ROWS}, Position("last"))
    with pytest.raises(ModelError, match="'resid.1' was not captured; there are resid.0"):
        found["resid.1"]
    with pytest.raises(ModelError, match="is not a site"):
        found["resid"]
    with pytest.raises(ModelError, match="0 is not a site"):
        list(found)  # Python asks for item 0


def test_a_prompt_shows_where_they_were_read_and_no_numbers() -> None:
    pooled = Activations({SITES[0]: ROWS, SITES[1]: ROWS + 1}, Position("last"))
    assert repr(pooled) == "Activations(6 inputs, 6 rows at resid.0..1; last/none)"
    several = Activations({SITES[0]: ROWS}, Position("content"), torch.tensor([0, 1, 1, 6]), torch.arange(6))
    assert repr(several) == "Activations(3 inputs, 6 rows at resid.0; content/none)"
