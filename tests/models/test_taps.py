"""Hidden states are found and replaced in whatever container a module takes or gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPast

from covec.errors import ModelError
from covec.models.taps import by_token, hidden_of, hook, uncompiled, with_hidden


class Pair(NamedTuple):
    hidden: Tensor
    other: str


class Block(nn.Module):
    """A block that gives its output in `wrap`."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.wrap = wrap

    def forward(self, hidden_states: Tensor) -> Any:
        return self.wrap(hidden_states * 2)


CONTAINERS = {
    "tensor": lambda hidden: hidden,
    "tuple": lambda hidden: (hidden, "kept"),
    "list": lambda hidden: [hidden, "kept"],
    "named tuple": lambda hidden: Pair(hidden, "kept"),
    "dataclass": lambda hidden: BaseModelOutputWithPast(last_hidden_state=hidden),
    "dict": lambda hidden: {"hidden": hidden, "other": "kept"},
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_the_output_is_replaced_in_a_container_of_its_type(name: str) -> None:
    block, given = Block(CONTAINERS[name]), torch.ones(1, 2, 3)
    plain = block(given)
    handle = hook(block, "out", lambda hidden: hidden + 1)
    edited = block(given)
    handle.remove()
    assert type(edited) is type(plain)
    assert torch.equal(hidden_of(edited), torch.full((1, 2, 3), 3.0))
    assert str(edited).count("kept") == str(plain).count("kept")
    assert torch.equal(hidden_of(block(given)), hidden_of(plain))


@pytest.mark.parametrize("by_name", [False, True])
def test_the_input_is_replaced_however_it_is_passed(by_name: bool) -> None:
    block, given = Block(CONTAINERS["tensor"]), torch.ones(1, 2, 3)
    handle = hook(block, "in", lambda hidden: hidden + 1)
    found = block(hidden_states=given) if by_name else block(given)
    handle.remove()
    assert torch.equal(found, torch.full((1, 2, 3), 4.0))
    assert torch.equal(given, torch.ones(1, 2, 3))


@pytest.mark.parametrize("end", ["in", "out"])
def test_a_visit_that_gives_nothing_changes_nothing(end: str) -> None:
    block, seen = Block(CONTAINERS["tuple"]), []
    handle = hook(block, end, lambda hidden: seen.append(hidden.clone()))
    output = block(torch.ones(1, 2, 3))
    handle.remove()
    assert torch.equal(output[0], torch.full((1, 2, 3), 2.0))
    assert torch.equal(seen[0], torch.full((1, 2, 3), 1.0 if end == "in" else 2.0))


@dataclass
class Opaque:
    hidden: Tensor


@pytest.mark.parametrize("output", [None, "text", (), (1, 2), {}, Opaque(torch.ones(1))])
def test_an_output_without_hidden_states_is_named(output: Any) -> None:
    with pytest.raises(ModelError, match=f"returned {type(output).__name__}"):
        hidden_of(output)


def test_other_tensors_of_an_output_stay() -> None:
    output = BaseModelOutputWithPast(last_hidden_state=torch.zeros(1), hidden_states=(torch.ones(1),))
    changed = with_hidden(output, torch.full((1,), 5.0))
    assert float(changed.last_hidden_state) == 5.0
    assert float(changed.hidden_states[0]) == 1.0
    assert float(output.last_hidden_state) == 0.0


def test_code_compiled_before_a_hook_came_sees_it() -> None:
    block = Block(CONTAINERS["tensor"])
    compiled = torch.compile(block, backend="eager")
    given = torch.ones(1, 2, 3)
    compiled(given)
    handle = hook(block, "out", lambda hidden: hidden + 1)
    with uncompiled(), uncompiled():
        assert torch.equal(compiled(given), torch.full((1, 2, 3), 3.0))
    handle.remove()
    with uncompiled():
        pass
    assert torch.equal(compiled(given), torch.full((1, 2, 3), 2.0))


def test_tokens_of_all_rows_in_one_list_are_told_apart() -> None:
    rows = torch.arange(24.0).view(2, 3, 4)
    assert by_token(rows, (2, 3), "here") is rows
    assert torch.equal(by_token(rows.view(6, 4), (2, 3), "here"), rows)
    for strange in (rows[:, :2], rows[0], rows[..., None], rows.view(6, 4)[:5]):
        with pytest.raises(ModelError, match=r"here gives \[.* for 2 rows of 3 tokens, not one row a token"):
            by_token(strange, (2, 3), "here")


def test_a_module_without_a_tensor_has_no_input() -> None:
    class Clock(nn.Module):
        def forward(self, *, hour: int = 0, sand: Tensor | None = None) -> Any:
            return sand

    clock = Clock()
    handle = hook(clock, "in", lambda hidden: hidden + 1)
    assert torch.equal(clock(sand=torch.zeros(2)), torch.ones(2))
    with pytest.raises(ModelError, match="called without a tensor"):
        clock(hour=3)
    handle.remove()
