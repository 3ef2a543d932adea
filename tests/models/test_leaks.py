"""Padding that a mask does not hide is found by measurement, and only there where it may be."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from covec.models.leaks import heeds_mask, padding_leaks

SHORT, LONG, PAD = [3, 4], [5, 6, 7, 8, 9], 0


class Body(nn.Module):
    """Token embeddings plus what `mixing` makes of them and their mask."""

    def __init__(self, mixing: str) -> None:
        super().__init__()
        self.mixing = mixing
        self.embedding = nn.Embedding(10, 4)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor]:
        hidden = self.embedding(input_ids)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.mixing == "masked mean":
            return (hidden + (hidden * mask[..., None]).sum(1, keepdim=True) / mask.sum(1)[:, None, None],)
        if self.mixing == "mean":
            return (hidden + hidden.mean(1, keepdim=True),)
        return (hidden.cumsum(1),)


@pytest.mark.parametrize(
    ("mixing", "right", "left"),
    [("masked mean", False, False), ("mean", True, True), ("running sum", False, True)],
)
def test_what_stands_beside_a_row_is_told_by_whether_it_changes_it(mixing: str, right: bool, left: bool) -> None:
    """A running sum takes in only what stands before."""
    torch.manual_seed(0)
    body = Body(mixing)
    assert padding_leaks(body, SHORT, LONG, PAD, left=False) is right
    assert padding_leaks(body, SHORT, LONG, PAD, left=True) is left


def test_attention_that_says_whether_it_is_causal_is_trusted_and_convolutions_are_not() -> None:
    said, convolved = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2), nn.Conv1d(2, 2, 3))
    for block in (said, convolved):
        block[0].is_causal = True
    assert heeds_mask([said, said])
    assert not heeds_mask([said, convolved])
    assert not heeds_mask([said, nn.Sequential(nn.Linear(2, 2))])
