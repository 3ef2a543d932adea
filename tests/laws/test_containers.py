"""K-7: the same vector steers alike whatever container the blocks hand their stream on in."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from covec.activations.split import Split
from covec.models.batching import pad
from covec.models.text import TextModel
from laws.given import PROMPTS, add, close, vector
from tiny import tiny_model


class Pair(NamedTuple):
    stream: Tensor
    note: str


CONTAINERS = {
    "tensor": lambda hidden: hidden,
    "tuple": lambda hidden: (hidden,),
    "tuple of more": lambda hidden: (hidden, None, hidden * 0),
    "list": lambda hidden: [hidden, "note"],
    "named tuple": lambda hidden: Pair(hidden, "note"),
    "dataclass": lambda hidden: BaseModelOutput(last_hidden_state=hidden, attentions=(hidden * 0,)),
    "dict": lambda hidden: {"stream": hidden, "note": "note"},
}


def plain(given: Any) -> Tensor:
    """The stream in whatever the block before gave."""
    while not isinstance(given, Tensor):
        given = next(iter(given.values())) if isinstance(given, dict) else given[0]
    return given


def boxed(family: str, container: str) -> TextModel:
    """A tiny model whose blocks give their stream in a container, and take it out of one."""
    module, tokenizer = tiny_model(family)
    model = TextModel(module, tokenizer)
    for part in (*model.anatomy.blocks, model.anatomy.tap(model.sites[-1]).module):
        wrap = CONTAINERS[container] if part in model.anatomy.blocks else plain
        part.__class__ = boxing(type(part), wrap)
    return TextModel(module, tokenizer)


def boxing(kind: type[nn.Module], wrap: Any) -> type[nn.Module]:
    class Boxed(kind):  # type: ignore[misc, valid-type]
        def forward(self, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
            return wrap(plain(super().forward(plain(hidden_states), *args, **kwargs)))

    Boxed.__name__ = kind.__name__
    return Boxed


def outputs(model: TextModel) -> tuple[list[Any], Tensor]:
    """What the blocks give in a raw pass, and the logits."""
    given: list[Any] = []
    handles = [
        block.register_forward_hook(lambda _, args, output: given.append(output)) for block in model.anatomy.blocks
    ]
    with torch.no_grad():
        logits = model.module(model.tokenizer(PROMPTS[2], return_tensors="pt").input_ids, use_cache=False).logits
    for handle in handles:
        handle.remove()
    return given, logits


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_steering_reading_and_splitting_agree(family: str, container: str) -> None:
    usual, model = TextModel(*tiny_model(family)), boxed(family, container)
    if isinstance(outputs(usual)[0][0], tuple) and container in ("tensor", "dict"):
        pytest.skip("in this version of transformers the network takes the first of what its blocks give")
    concept = vector(usual)
    wrapped = vector(model)
    assert close(wrapped.direction, concept.direction)
    for edits in ([], concept.add(1.5), concept.ablate(to="zero"), [add(usual, "last")]):
        untouched, _ = outputs(model)
        with usual.edit(edits):
            expected = outputs(usual)[1]
            rows = usual.capture(PROMPTS, "final", "mean")["final"]
        with model.edit(edits, force=True):
            given, found = outputs(model)
            assert close(model.capture(PROMPTS, "final", "mean")["final"], rows)
        assert torch.allclose(found, expected, atol=1e-4)
        assert [type(one) for one in given] == [type(one) for one in untouched]
        for one, other in zip(given, untouched, strict=True):
            assert shape_of(one) == shape_of(other)


def shape_of(output: Any) -> Any:
    """A container without its numbers."""
    if isinstance(output, Tensor):
        return output.shape
    values = output.items() if isinstance(output, dict) else enumerate(output)
    return [(key, value.shape if isinstance(value, Tensor) else str(type(value))) for key, value in values]


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_blocks_above_a_site_run_alone(container: str) -> None:
    usual, model = TextModel(*tiny_model("llama")), boxed("llama", container)
    found = []
    for one in (usual, model):
        batch = pad(one.tokenize(PROMPTS), [0, 2], pad_id=one.pad_id, masked=False, device=one.device)
        with torch.no_grad():
            split = Split(one, "resid.1")
            found.append(split.decode(batch, split.encode(batch), lambda hidden: hidden * 1.5))
    assert close(found[1][1], found[0][1])
