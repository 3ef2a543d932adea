"""K-13: whatever is kept is kept for one network, one set of inputs and one question, and serves no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from covec.concepts.examples import Examples
from covec.detect import _corpus, detect_file
from covec.errors import CovecError, FileError
from covec.models import embedded
from covec.models.fingerprint import fingerprint
from covec.models.text import TextModel
from laws.given import PROMPTS, add, vector
from progresses import Stopping
from tiny import tiny_model

CHANGES: dict[str, Any] = {
    "one weight": lambda model: model.module.model.layers[1].mlp.up_proj.weight[0, 0].add_(1),
    "a step of training": lambda model: [weight.mul_(0.99) for weight in model.module.parameters()],
    "weights read anew": lambda model: model.module.load_state_dict(tiny_model("llama", seed=1)[0].state_dict()),
    "a weight replaced": lambda model: setattr(
        model.module.model.norm, "weight", torch.nn.Parameter(model.module.model.norm.weight + 1)
    ),
    "data replaced": lambda model: setattr(model.module.lm_head.weight, "data", model.module.lm_head.weight + 1),
    "a setting": lambda model: setattr(model.config, "rms_norm_eps", 0.01),
    "a token": lambda model: model.tokenizer.add_tokens(["<more>"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_live_model_that_is_changed_is_another_one(change: str) -> None:
    """Its fingerprint is kept for speed, and no vector found before the change fits it any more."""
    model = TextModel(*tiny_model("llama"))
    concept, before = vector(model), model.fingerprint
    model.detect(concept, PROMPTS[0])
    assert model.fingerprint == before
    with torch.no_grad():
        CHANGES[change](model)
    assert model.fingerprint == fingerprint(model.module, model.tokenizer) != before
    with pytest.raises(CovecError, match="found in|another model"):
        model.detect(concept, PROMPTS[0])
    with pytest.raises(CovecError, match="another model"), model.edit(concept.add(1.0)):
        raise AssertionError
    assert model.detect(concept, PROMPTS[0], force=True)


def test_a_conversion_belongs_to_one_file() -> None:
    """Another file, or another way of converting it, needs another folder: then raise `_CONVERSION`, and these."""
    known = embedded.EMBEDDED["smollm2-135m"]
    assert (embedded._CONVERSION, known.file_sha256[:16]) == (2, "b179c9523d0e6a0f")
    assert known.folder.name == "smollm2-135m.2"


def corpus(folder: Path, text: str = "ice melts") -> Path:
    path = folder / "corpus.txt"
    path.write_text("\n".join([*PROMPTS[:6], text]), encoding="utf-8")
    return path


def test_a_half_done_detection_is_gone_on_with_for_the_same_question_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_corpus, "SHARD_ROWS", 2)
    model, out = TextModel(*tiny_model("llama")), tmp_path / "out.parquet"
    concept = vector(model)
    with pytest.raises(KeyboardInterrupt):
        detect_file(model, concept, corpus(tmp_path), out, progress=Stopping(3))
    half = TextModel(tiny_model("llama")[0].to(torch.bfloat16), model.tokenizer)
    changed = TextModel(*tiny_model("llama"))
    with torch.no_grad():
        changed.module.lm_head.weight[0, 0] += 1
    for other, what in (
        (lambda: detect_file(changed, concept, corpus(tmp_path), out, force=True), "the model changed"),
        (lambda: detect_file(half, concept, corpus(tmp_path), out, force=True), "the (dtype|model's dtype) changed"),
        (lambda: detect_file(model, replace(concept, threshold=0.2), corpus(tmp_path), out), "the vectors changed"),
        (lambda: detect_file(model, replace(concept, aggregator="max"), corpus(tmp_path), out), "the vectors changed"),
        (lambda: detect_file(model, concept, corpus(tmp_path, "ice melt"), out), "the corpus changed"),
        (lambda: detect_file(model, concept, corpus(tmp_path), out, keep_text=False), "columns changed"),
    ):
        with pytest.raises(FileError, match=what):
            other()
    assert detect_file(model, concept, corpus(tmp_path), out).resumed > 0


def test_looks_are_counted_for_the_rows_and_not_for_their_name() -> None:
    one, other = (Examples.from_lists(list(PROMPTS[:4]), list(PROMPTS[4:]), name=name) for name in ("a", "b"))
    changed = Examples.from_lists([*PROMPTS[:3], "another"], list(PROMPTS[4:]), name="a")
    swapped = Examples.from_lists(list(PROMPTS[4:]), list(PROMPTS[:4]), name="a")
    rows = list(range(8))
    assert one.digest_of(rows) == other.digest_of(rows)
    assert len({found.digest_of(rows) for found in (one, changed, swapped)}) == 3


def test_a_cache_of_keys_and_values_belongs_to_the_edits_it_was_filled_under(tiny: TextModel) -> None:
    ids = tiny.tokenizer(PROMPTS[1], return_tensors="pt").input_ids
    with torch.no_grad():
        output = tiny.module(ids, use_cache=True)
        name = "cache" if "cache" in output else "past_key_values"
        with tiny.edit(add(tiny)), pytest.raises(CovecError, match="filled outside this scope"):
            tiny.module(ids[:, -1:], **{name: output[name]})
