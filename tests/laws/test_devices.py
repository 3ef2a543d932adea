"""K-19: vectors lie on the processor, networks wherever they like, and what an edit needs is moved once a call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pytest
import torch
from accelerate import cpu_offload
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from covec.edits.algebra import Ablate, Add, Edit, Gate, SetCoordinate
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from laws.given import PROMPTS, add, vector
from tiny import FAMILIES, tiny_model

CPU, META = torch.device("cpu"), torch.device("meta")


def split_over_two_devices(family: str) -> TextModel:
    """A model whose blocks from the second on lie on another device, as Accelerate places them."""
    module, tokenizer = tiny_model(family)
    model = TextModel(module, tokenizer)
    final = model.anatomy.tap(model.sites[-1]).module

    def send(_: nn.Module, args: Any, kwargs: Any) -> Any:
        return tree_map(lambda value: value.to(META) if isinstance(value, Tensor) else value, (args, kwargs))

    for part in (*model.anatomy.blocks[1:], final, module.get_output_embeddings()):
        part.to(META)
        part.register_forward_pre_hook(send, with_kwargs=True, prepend=True)
    return TextModel(module, tokenizer)


def edits_at(model: TextModel, site: str, gate: Gate) -> list[Edit]:
    direction = nn.functional.normalize(torch.ones(model.width), dim=0)
    where = {"site": Site.parse(site)}
    along = {"directions": direction[None], "targets": torch.zeros(1)}
    return [
        Add(**where, shift=torch.ones(model.width), position=Position("last")),
        Ablate(**where, **along),
        SetCoordinate(**where, **along),
        Add(**where, shift=torch.ones(model.width), gate=gate),
    ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Where(Edit):
    """Notes on which device it sees activations."""

    observes: ClassVar[bool] = True

    devices: list[torch.device]

    def apply(self, h: Tensor, context: Any) -> Tensor:
        self.devices.append(h.device)
        return h


@pytest.mark.parametrize("family", FAMILIES)
def test_edits_gates_and_readers_act_on_the_device_of_their_site(family: str) -> None:
    model, whole = split_over_two_devices(family), TextModel(*tiny_model(family))
    concept = vector(whole)
    ids = model.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    gate = Gate(Site("resid", 0), nn.functional.normalize(torch.ones(model.width), dim=0), 0.0, 1.0)
    seen = [Where(site=Site("resid", block), devices=[]) for block in (0, 1)]
    below = edits_at(model, "resid.0", gate)
    above = [*edits_at(model, "resid.1", gate), *concept.add(1.0), *concept.ablate()]
    with torch.no_grad(), model.edit(*below, *above, *seen, force=True):
        output = model.module(ids, use_cache=False)
        rows = model.capture(PROMPTS[:3], "resid.0", "mean")["resid.0"]
    assert output.logits.device == META
    assert [one.devices for one in seen] == [[CPU, CPU], [META]]
    with whole.edit(*below):
        assert torch.equal(rows, whole.capture(PROMPTS[:3], "resid.0", "mean")["resid.0"])
    assert all(edit.shift.device == CPU for edit in (*below, *above) if isinstance(edit, Add))


@pytest.mark.parametrize("use_cache", [True, False])
def test_an_edit_is_moved_once_a_call_and_not_once_a_token(tiny: TextModel, use_cache: bool) -> None:
    moved = Counter[str]()

    @dataclass(frozen=True, eq=False, kw_only=True)
    class Moved(Add):
        def prepare(self, device: torch.device, dtype: torch.dtype) -> Self:
            moved[str(self.site)] += 1
            return super().prepare(device, dtype)

    edits = [Moved(site=Site("resid", block), shift=torch.ones(tiny.width)) for block in (0, 1)]
    with tiny.edit(*edits):
        tiny.generate(list(PROMPTS[:3]), max_new_tokens=6, min_new_tokens=6, use_cache=use_cache)
        assert moved == {"resid.0": 1, "resid.1": 1}
        ids = tiny.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
        tiny.module.generate(ids, max_new_tokens=6, min_new_tokens=6, do_sample=False, use_cache=use_cache)
        assert moved == {"resid.0": 2, "resid.1": 2}
        tiny.generate([PROMPTS[0]] * 2, edits=[[edits[0]], [edits[1]]], max_new_tokens=3, use_cache=use_cache)
    assert max(moved.values()) <= 5


def test_offloaded_weights_are_fetched_where_they_are_needed(tiny: TextModel) -> None:
    """Accelerate holds a place for what is not in memory, and the first parameter may be no more than that."""
    module, tokenizer = tiny_model(tiny.name.removeprefix("tiny-"))
    cpu_offload(module, execution_device=CPU)
    assert next(module.parameters()).is_meta
    model = TextModel(module, tokenizer)
    rows = model.capture(PROMPTS[:3], "resid.*", "mean")
    expected = tiny.capture(PROMPTS[:3], "resid.*", "mean")
    assert all(torch.equal(rows[site], expected[site]) for site in rows.sites)
    edit = add(tiny)
    with model.edit(edit), tiny.edit(edit):
        assert model.generate(PROMPTS[1], max_new_tokens=4) == tiny.generate(PROMPTS[1], max_new_tokens=4)
