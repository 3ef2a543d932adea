"""Every token is found at its index in the unpadded sequence, whatever the padding, the cache and the beams."""

from __future__ import annotations

import threading
from contextvars import copy_context

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.models.plan import Pass, Plan, current_plan, edits_in_force, planned, stacked
from covec.models.positions import Layout, Position, mask

CPU = torch.device("cpu")
SELECTS = ["all", "content", "prompt", "generated", "first", "last", "last+generated", "from-2", "from-9", "1", "8"]


def layout(length: int) -> Layout:
    special = np.zeros(length, dtype=bool)
    special[0] = True
    return Layout(special, length, length - 1)


def expected(select: str, length: int, index: int) -> bool:
    """Whether a position selects the token at `index` of a prompt of `length` tokens that was written on."""
    if index < length:
        return bool(mask(Position(select), layout(length))[index])
    whole = {"all": True, "content": True, "generated": True, "last+generated": True}
    if select.startswith("from-"):
        return index >= int(select[5:])
    return whole.get(select, select == str(index))


def selected(now: Pass, select: str) -> np.ndarray:
    found = now.mask(Position(select))
    return np.ones((now.rows, now.columns), dtype=bool) if found is None else found.numpy()


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.sampled_from(SELECTS),
    st.integers(1, 3),
    st.integers(0, 5),
    st.integers(0, 2),
)
def test_left_padded_passes_select_by_unpadded_index(
    lengths: list[int], select: str, beams: int, new: int, extra: int
) -> None:
    """Cached step by step, or all at once, beams side by side, with columns of padding to spare."""
    width = max(lengths) + extra
    plan = Plan([layout(length) for length in lengths], "left", width=width if extra else 0)
    rows = len(lengths) * beams
    whole = selected(Pass(plan, rows, 0, width + new, CPU), select)
    steps = [selected(Pass(plan, rows, 0, width, CPU), select)]
    steps += [selected(Pass(plan, rows, width + step, 1, CPU), select) for step in range(new)]
    assert (np.concatenate(steps, axis=1) == whole).all()
    for row in range(rows):
        length = lengths[row // beams]
        padding = width - length
        assert not whole[row, :padding].any()
        assert whole[row, padding:].tolist() == [expected(select, length, index) for index in range(length + new)]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.sampled_from(SELECTS))
def test_right_padded_passes_never_select_padding(lengths: list[int], select: str) -> None:
    plan = Plan([layout(length) for length in lengths], "right")
    found = selected(Pass(plan, len(lengths), 0, max(lengths), CPU), select)
    for row, length in enumerate(lengths):
        assert found[row, :length].tolist() == mask(Position(select), layout(length)).tolist()
        assert not found[row, length:].any()


def test_a_selection_of_everything_needs_no_mask() -> None:
    plan = Plan([layout(3), layout(3)])
    assert Pass(plan, 2, 0, 3, CPU).mask(Position("all")) is None
    assert Pass(plan, 2, 0, 3, CPU).mask(Position("content")) is not None


def test_edits_stand_on_the_stack_of_their_thread_and_model() -> None:
    seen: list[tuple[str, ...]] = []
    with stacked("model", ["a"]), stacked("other", ["b"]), stacked("model", ["c"]):
        assert edits_in_force("model") == ("a", "c")
        assert edits_in_force("other") == ("b",)
        thread = threading.Thread(target=lambda: seen.append(edits_in_force("model")))
        thread.start()
        thread.join()
    assert seen == [()]
    assert edits_in_force("model") == ()


def test_stack_and_plan_are_restored_after_an_error() -> None:
    plan = Plan([layout(2)])
    with pytest.raises(KeyError), planned(plan), stacked("model", ["a"]):
        assert current_plan() is plan
        raise KeyError
    assert current_plan() is None
    assert edits_in_force("model") == ()


def test_scopes_may_end_in_any_order_and_in_any_thread() -> None:
    first, second = stacked("model", ["a"]), stacked("model", ["b"])
    first.__enter__(), second.__enter__()
    first.__exit__(None, None, None)
    assert edits_in_force("model") == ("b",)
    with stacked("model", ["c"]):
        context = copy_context()  # of a task that outlives the scope
        thread = threading.Thread(target=second.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        assert edits_in_force("model") == ("c",)
    assert edits_in_force("model") == context.run(edits_in_force, "model") == ()
