"""K-18: a network in half precision goes through everything; statistics and vectors are float32 or better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import covec
from covec import registry
from covec.concepts.vector import ConceptVector
from covec.detect import calibrate
from covec.errors import ModelError
from covec.models.text import TextModel
from finding import OF_ROWS, columns
from laws.fresh import examples
from laws.given import PROMPTS
from tiny import tiny_model


def pipeline(model: TextModel, exact: TextModel | None, site: str, folder: Path) -> None:
    """Capture, every fit, calibration, saving, steering, watching and detection; compared with float32 if given."""
    data = examples(12)
    rows = model.capture(data.inputs, site, "mean")[site]
    assert rows.dtype == torch.float32
    assert torch.isfinite(rows).all()
    pairs = [f"pair {row % 12}" for row in range(24)]
    for name in OF_ROWS:
        finder = registry.get("find", name)().fit(rows.to(model.dtype), data.labels, **columns(name, pairs))
        assert finder.direction_.dtype == finder.mean_positive_.dtype == torch.float32
        assert abs(float(finder.direction_.double().norm()) - 1) < 1e-6
        concept = ConceptVector.from_direction(
            name, site, finder.direction_, finder.mean_positive_, finder.mean_negative_, read_position="mean",
            model=model.describe(),
        )  # fmt: skip
        concept.save(folder / "v.safetensors")
        loaded = covec.load_vector(folder / "v.safetensors")
        assert loaded.identical(concept)
        assert {tensor.dtype for tensor in loaded.parts[loaded.site].tensors().values()} == {torch.float32}
    concept = calibrate(model, loaded, data, np.arange(24))
    scores = {}
    for label, edits in {"plain": (), "add": concept.add(1.0), "ablate": concept.ablate()}.items():
        with model.edit(edits), model.watch(concept) as log:
            found = model.detect(concept, PROMPTS[2])
            model.generate(PROMPTS[2], max_new_tokens=2)
        scores[label] = [token.score for token in found.tokens[1:]]
        assert np.isfinite([row.score for row in log.rows if row.index]).all()
    step = float(torch.finfo(model.dtype).eps) * 4 * float(rows.abs().max()) / concept.scale
    shifted = np.subtract(scores["add"], scores["plain"])
    assert abs(float(np.median(shifted)) - 1) < max(0.02, step)
    assert np.abs(scores["ablate"]).max() < max(0.02, 25 * step)
    if exact is not None:
        assert model.fingerprint == exact.fingerprint
        found = exact.capture(data.inputs, site, "mean")[site]
        gap = (found[:12].mean(0) - found[12:].mean(0)).double()
        assert (
            torch.nn.functional.cosine_similarity(gap, (rows[:12].mean(0) - rows[12:].mean(0)).double(), dim=0) > 0.95
        )


def test_the_embedded_model_in_bfloat16(rough: TextModel, smol: TextModel, tmp_path: Path) -> None:
    pipeline(rough, smol, "resid.12", tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tiny_models_in_every_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    for family in ("llama", "gpt2"):
        module, tokenizer = tiny_model(family)
        pipeline(TextModel(module.to(dtype), tokenizer), None, "resid.1", tmp_path)


def test_a_study_of_a_bfloat16_model_judges_in_float32(tmp_path: Path) -> None:
    module, tokenizer = tiny_model("llama")
    module.to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = covec.load(tmp_path, dtype="bfloat16", device="cpu")
    study = covec.study(model, examples(60), sites="resid.1", finders="mean-difference,ridge", position="mean", nulls=3)
    assert study.used.dtype == "float32"
    assert "activations were read in bfloat16, the causal part ran in float32" in study.notes
    assert study.best.direction.dtype == torch.float32
    assert study.test["auroc"].value > 0.9


def test_within_autocast_edits_and_scores_are_as_exact_as_outside() -> None:
    model = TextModel(*tiny_model("llama"))
    direction = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    vector = ConceptVector.from_direction("c", "resid.1", direction, direction, -direction, model=model.describe())
    with torch.autocast("cpu", torch.bfloat16), model.edit(vector.ablate(position="all")):
        left = [token.score for found in model.detect([vector], PROMPTS) for token in found.tokens]
        rows = model.capture(PROMPTS, "resid.1", "last")["resid.1"]
    assert max(abs(score) for score in left if score is not None) < 1e-5
    assert float(vector.score(rows).abs().max()) < 1e-5


def test_edits_of_a_float64_model_are_computed_in_float64() -> None:
    """To its own precision, and what they do not move stays as it is."""
    module, tokenizer = tiny_model("llama")
    model = TextModel(module.double(), tokenizer)
    rows = model.capture(PROMPTS, "resid.1", "mean")["resid.1"]
    concept = ConceptVector.from_direction(
        "one", "resid.1", rows[0] - rows[1], rows[0], rows[1], model=model.describe(), calibration=(3.0, 0.0)
    )
    seen: list[torch.Tensor] = []
    ids = torch.tensor([tokenizer(PROMPTS[2]).input_ids])
    direction = concept.direction.double()
    for edits in ((), concept.ablate(position="all"), concept.set_coordinate(2.5, position="all")):
        with model.edit(edits), torch.no_grad():
            handle = module.model.layers[1].register_forward_hook(lambda _, __, out: seen.append(out[0].clone()))
            module(ids)
            handle.remove()
    plain, ablated, raised = seen
    assert plain.dtype == ablated.dtype == torch.float64
    wanted = -concept.parts[concept.site].intercept.double()
    exact = plain + (wanted - plain @ direction)[:, None] * direction
    torch.testing.assert_close(ablated, exact, rtol=0, atol=1e-13)
    torch.testing.assert_close(raised - ablated, (2.5 * concept.scale * direction).expand_as(raised), rtol=0, atol=1e-6)
    with model.edit(concept.to_probability(0.999, below=False, position="all")), torch.no_grad():
        handle = module.model.layers[1].register_forward_hook(lambda _, __, out: seen.append(out[0].clone()))
        module(ids)
        handle.remove()
    across = torch.eye(32).double() - torch.outer(direction, direction) / (direction @ direction)
    torch.testing.assert_close(seen[-1] @ across, plain @ across, rtol=0, atol=1e-13)


@pytest.mark.parametrize("how", ["set_coordinate", "add twice"])
def test_edits_beyond_the_range_of_float16_are_refused(how: str) -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module.half(), tokenizer)
    rows = model.capture(PROMPTS, "resid.1", "mean")["resid.1"]
    concept = ConceptVector.from_direction(
        "one", "resid.1", rows[0] - rows[1], rows[0], rows[1], model=model.describe()
    )
    large = 9e4 / float(concept.write.abs().max())
    edits = concept.set_coordinate(large) if how == "set_coordinate" else 2 * concept.add(0.6 * large)
    with model.edit(edits), pytest.raises(ModelError, match="beyond float16: use a smaller strength"):
        model.capture(PROMPTS, "resid.2")
