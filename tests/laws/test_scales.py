"""K-30: nothing depends on how large a network's activations are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import covec
from covec.models.text import TextModel
from covec.studies import Study
from laws.fresh import TEXTS, examples
from tiny import tiny_model


def scaled(factor: float) -> TextModel:
    """A model whose stream is `factor` times as large everywhere, and whose logits are the same."""
    module, tokenizer = tiny_model("llama")
    with torch.no_grad():
        module.model.embed_tokens.weight *= factor
        for block in module.model.layers:
            block.self_attn.o_proj.weight *= factor
            block.mlp.down_proj.weight *= factor
            for norm in (block.input_layernorm, block.post_attention_layernorm):
                norm.variance_epsilon = 1e-14  # else the one thing with a scale of its own
        module.model.norm.variance_epsilon = 1e-14
    return TextModel(module, tokenizer, name="scaled")


def judged(model: TextModel) -> Study:
    return covec.study(model, examples(60), finders="mean-difference,ridge", nulls=3)


def figures(study: Study) -> dict[str, float]:
    used = study.used
    named = {
        "test": study.test["auroc"], "stability": study.stability, "random": study.random_direction, "add": used.add,
        "ablate": used.ablate, "kl": used.kl, "equal kl": used.at_equal_kl, "isotropic": used.isotropic,
    }  # fmt: skip
    return {
        f"{name} {end}": getattr(figure, end)
        for name, figure in named.items()
        for end in ("value", "low", "high", "null")
        if getattr(figure, end) is not None
    }


@pytest.fixture(scope="module")
def usual() -> tuple[TextModel, Study]:
    model = scaled(1.0)
    return model, judged(model)


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_a_hundredfold_stream_gives_the_same_study(usual: tuple[TextModel, Study], factor: float) -> None:
    """The same site, finder, verdict and figures, and the same texts at the same strength."""
    model, found = scaled(factor), judged(scaled(factor))
    expected: Any = usual[1]
    for choose in (
        lambda study: (study.selected.site, study.selected.position, study.selected.finder),
        lambda study: (study.verdict, study.used.verdict, study.p_test, study.p_sweep, study.regime),
        lambda study: study.warnings,
        lambda study: [(cell.site, cell.position, cell.finder) for cell in study.cells],
    ):
        assert choose(found) == choose(expected)
    assert found.best.scale == pytest.approx(factor * expected.best.scale, rel=1e-3)
    assert (found.best.threshold, *found.best.calibration) == pytest.approx(
        (expected.best.threshold, *expected.best.calibration), rel=1e-2, abs=1e-3
    )
    one, other = figures(found), figures(expected)
    assert one.keys() == other.keys()
    for name, value in other.items():
        assert one[name] == pytest.approx(value, rel=1e-2, abs=1e-3), name
    for strength in (-2.0, 1.0, 4.0):
        edits = (found.best.add(strength), found.best.ablate()), (expected.best.add(strength), expected.best.ablate())
        for mine, theirs in zip(*edits, strict=True):
            with model.edit(mine), usual[0].edit(theirs):
                assert model.generate(TEXTS, max_new_tokens=6) == usual[0].generate(TEXTS, max_new_tokens=6)
    scores = [[one.score for one in where.detect(study.best, TEXTS)] for where, study in ((model, found), usual)]
    assert np.allclose(*scores, atol=1e-3)
