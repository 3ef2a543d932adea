"""Batches: equal inputs once, none lost, none over budget that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.models.batching import pack, pad, unique
from covec.models.tokens import Tokenized, tokenize
from tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def items() -> list[Tokenized]:
    return list(tokenize(tiny_tokenizer(), ["The hotel", "x", "A dull film: two hours"]))


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 100))
def test_every_input_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = pack(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= budget for batch in batches)
    flat = [lengths[index] for batch in batches for index in batch]
    assert flat == sorted(flat, reverse=True)


def test_equal_inputs_are_one_unless_their_layouts_differ(items: list[Tokenized]) -> None:
    spanned = replace(items[0], layout=replace(items[0].layout, span=(0, 1)))
    first, places = unique([items[0], items[1], items[0], spanned, items[1]])
    assert first == [0, 1, 3]
    assert places == [0, 1, 0, 2, 1]


@pytest.mark.parametrize("left", [False, True])
def test_padding_stands_on_one_side_and_is_masked(items: list[Tokenized], left: bool) -> None:
    batch = pad(items, [2, 0, 1], pad_id=9, masked=True, device=torch.device("cpu"), left=left)
    assert batch.mask is not None
    for place, row in enumerate(batch.rows):
        shown = batch.mask[place].bool()
        assert tuple(batch.ids[place][shown].tolist()) == items[row].ids
        assert set(batch.ids[place][~shown].tolist()) <= {9}
        assert shown.tolist() == sorted(shown.tolist(), reverse=not left)
    assert batch.layouts == tuple(items[row].layout for row in (2, 0, 1))


def test_a_mask_is_made_only_where_it_is_needed(items: list[Tokenized]) -> None:
    device = torch.device("cpu")
    assert pad(items, [0, 1], pad_id=0, masked=False, device=device).mask is None
    assert pad(items, [0], pad_id=0, masked=True, device=device).mask is None
    assert pad(items, [0, 1], pad_id=0, masked=True, device=device).mask is not None
