"""K-20: a network whose weights are bytes is read, steered and told apart like any other. (Baking: open.)"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from covec.models.text import TextModel
from laws.given import PROMPTS, add, close, hooks, vector
from tiny import FAMILIES, tiny_model


class ByteLinear(nn.Module):
    """A linear map with int8 weights and a scale an output, as quantised checkpoints have them."""

    def __init__(self, weight: Tensor, bias: Tensor | None, packed: bool) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        scale = weight.abs().amax(1, keepdim=True) / 127
        whole = (weight / scale).round().to(torch.int8)
        if packed:  # bitsandbytes keeps its bytes as a parameter
            self.weight = nn.Parameter(whole.view(torch.uint8), requires_grad=False)
        else:
            self.register_buffer("weight", whole)
        self.register_buffer("scale", scale)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, rows: Tensor) -> Tensor:
        weight = self.weight.view(torch.int8).to(rows.dtype) * self.scale.to(rows.dtype)
        return nn.functional.linear(rows, weight, self.bias)


def in_bytes(family: str, packed: bool = False) -> tuple[TextModel, TextModel]:
    """A model of byte weights, and one of floats that computes the same."""
    found = []
    for quantised in (True, False):
        module, tokenizer = tiny_model(family)
        for block in TextModel(module, tokenizer).anatomy.blocks:
            for name, part in list(block.named_modules()):
                weight = getattr(part, "weight", None)
                if name and isinstance(weight, Tensor) and weight.ndim == 2:
                    # GPT-2's `Conv1D` stores its weight transposed.
                    plain = weight.detach().T if type(part).__name__ == "Conv1D" else weight.detach()
                    bytewise = ByteLinear(plain, part.bias if part.bias is None else part.bias.detach(), packed)
                    parent, _, last = name.rpartition(".")
                    setattr(block.get_submodule(parent), last, bytewise if quantised else floats(bytewise))
        found.append(TextModel(module, tokenizer))
    return found[0], found[1]


def floats(bytewise: ByteLinear) -> nn.Linear:
    linear = nn.Linear(bytewise.in_features, bytewise.out_features, bias=bytewise.bias is not None)
    linear.weight.data = bytewise.weight.view(torch.int8).float() * bytewise.scale
    if bytewise.bias is not None:
        linear.bias.data = bytewise.bias.data
    return linear


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_sites_readings_and_steering_are_those_of_the_same_floats(family: str, packed: bool) -> None:
    model, floating = in_bytes(family, packed)
    assert model.sites == floating.sites
    assert model.dtype == torch.float32
    for site in ("resid.1", "attn.1", "mlp.0", "neuron.1", "head.0.1"):
        assert close(model.capture(PROMPTS, site, "mean")[site], floating.capture(PROMPTS, site, "mean")[site], 1e-3)
    concept, known = vector(model), hooks(model)
    for edits in (concept.add(1.5), concept.ablate(), [add(model, "last")]):
        with model.edit(edits):
            found = model.capture(PROMPTS, "final", "mean")["final"]
            text = model.generate(PROMPTS[1], max_new_tokens=4)
        with floating.edit(edits, force=True):
            assert close(found, floating.capture(PROMPTS, "final", "mean")["final"], 1e-3)
            assert text == floating.generate(PROMPTS[1], max_new_tokens=4)
    assert model.detect(concept, PROMPTS[0]).score == pytest.approx(
        floating.detect(concept, PROMPTS[0], force=True).score, abs=1e-3
    )
    assert hooks(model) == known


def test_one_byte_makes_another_model() -> None:
    model, _ = in_bytes("llama")
    before = model.fingerprint
    weight = model.module.model.layers[1].mlp.up_proj.weight
    weight[0, 0] += 1
    assert model.fingerprint != before
    weight[0, 0] -= 1
    assert model.fingerprint == before
