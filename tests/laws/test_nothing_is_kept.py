"""K-16: no graph, no view of a batch and no state of a pass outlives the call that made it.

Memory itself is weighed in tests/activations/test_capture.py.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from covec.activations.moments import Moments
from covec.activations.split import Split
from covec.concepts.vector import ConceptVector
from covec.models.batching import pad
from covec.models.text import TextModel
from laws.given import PROMPTS, add, vector
from tiny import tiny_model


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors within what a call gave back."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors(part)
    elif isinstance(value, list | tuple | set):
        for part in value:
            yield from tensors(part)
    elif hasattr(value, "__dict__"):
        yield from tensors(vars(value))


def calls(model: TextModel, concept: ConceptVector) -> dict[str, Any]:
    some = list(PROMPTS[:3])

    def watched() -> Any:
        with model.watch(concept) as log:
            model.generate(some, max_new_tokens=3)
        return log.rows

    def encoded() -> Any:
        batch = pad(model.tokenize(some), range(3), pad_id=model.pad_id, masked=False, device=model.device)
        return Split(model, "resid.1").encode(batch)

    def accumulated() -> Any:
        rows = model.capture(some, "resid.1", "content/none")["resid.1"]
        return Moments(model.width).update(rows.requires_grad_(), torch.arange(len(rows)) % 2 == 0)

    return {
        "pooled rows": lambda: model.capture(some, "resid.*", "mean"),
        "rows of tokens": lambda: model.capture(some, ["resid.*", "head.0.1"], "content/none"),
        "scores": lambda: model.detect(concept, some),
        "texts": lambda: model.generate(some, max_new_tokens=3),
        "a log": watched,
        "the lower part of a network": encoded,
        "a vector": lambda: vector(model),
        "moments": accumulated,
    }


NAMES = list(calls(TextModel(*tiny_model("llama")), None))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_back_has_no_graph_and_no_parent(name: str) -> None:
    """Where gradients are on, and weights and edits want theirs."""
    model = TextModel(*tiny_model("llama"))
    concept = vector(model)
    edit = add(model)
    edit.shift.requires_grad_()
    with torch.enable_grad(), model.edit(edit):
        found = calls(model, concept)[name]()
    for tensor in tensors(found):
        assert tensor.grad_fn is None
        assert not tensor.requires_grad
        if name != "the lower part of a network":
            assert tensor.untyped_storage().nbytes() == tensor.nbytes


@pytest.mark.parametrize("name", NAMES)
def test_no_hidden_state_outlives_its_call(name: str) -> None:
    """Neither hooks nor plans nor caches keep what passed by."""
    model = TextModel(*tiny_model("llama"))
    concept, states = vector(model), list[Any]()

    def remember(_: Any, args: Any, output: Any) -> None:
        states.append(weakref.ref(output if isinstance(output, Tensor) else output[0]))

    handles = [block.register_forward_hook(remember) for block in model.anatomy.blocks]
    with model.edit(add(model), concept.add(1.0)):
        found = calls(model, concept)[name]()
    for handle in handles:
        handle.remove()
    del found
    gc.collect()
    assert states
    assert not [state for state in states if state() is not None]
