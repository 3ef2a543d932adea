"""K-22: a control vector in GGUF holds, block by block, what is added here."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from covec.concepts.exports import export
from covec.concepts.imports import load_gguf
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.models.text import TextModel
from laws.given import PROMPTS, vector


def several(model: TextModel, blocks: tuple[int, ...]) -> ConceptVector:
    parts = {}
    for block in blocks:
        parts |= vector(model, f"resid.{block}").parts
    return ConceptVector("half", parts, model=model.describe())


def test_exported_and_read_again_it_steers_the_embedded_model_alike(smol: TextModel, tmp_path: Path) -> None:
    """`direction.k` is what strength 1 adds after block k, counted from 0: seen at a plain hook on that block."""
    made, path = several(smol, (3, 12, 29)), tmp_path / "v.gguf"
    export(made, "gguf", path)
    reader = gguf.GGUFReader(path)
    assert reader.get_field("general.architecture").contents() == "controlvector"
    stored = {tensor.name: tensor for tensor in reader.tensors}
    assert list(stored) == ["direction.3", "direction.12", "direction.29"]
    assert {tensor.tensor_type for tensor in reader.tensors} == {gguf.GGMLQuantizationType.F32}
    read = load_gguf(path)
    ids = smol.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    logits = []
    with torch.no_grad():
        for concept in (made, read):
            with smol.edit(concept.add(0.5, position="all"), force=True):
                logits.append(smol.module(ids).logits)
        handles = []
        for name, tensor in stored.items():
            block = smol.module.model.layers[int(name.split(".")[1])]
            shift = torch.from_numpy(np.array(tensor.data))
            handles.append(block.register_forward_hook(lambda _, args, output, shift=shift: output + 0.5 * shift))
        logits.append(smol.module(ids).logits)
        for handle in handles:
            handle.remove()
    assert torch.equal(logits[1], logits[0])
    assert torch.equal(logits[2], logits[0])


@pytest.mark.parametrize("blocks", [(0,), (0, 3)])
def test_block_0_which_llama_cpp_never_steers_is_refused(
    tiny: TextModel, tmp_path: Path, blocks: tuple[int, ...]
) -> None:
    made = several(tiny, tuple(block for block in blocks if block < tiny.blocks))
    with pytest.raises(CovecError, match="never steers block 0"):
        export(made, "gguf", tmp_path / "v.gguf")
    assert not list(tmp_path.iterdir())
