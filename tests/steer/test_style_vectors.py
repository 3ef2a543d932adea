"""Style vectors: raw differences of means at three blocks, added at each."""

import math

import pytest
import torch

from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.steer.style_vectors import StyleVectors, _inserted

EXAMPLES = Examples.from_lists(
    ["Such a lovely day!", "I love it, really!", "How wonderful!"], ["A dull day.", "I hate it.", "How awful."]
)


@pytest.fixture(scope="module")
def fitted(tiny: TextModel) -> StyleVectors:
    return StyleVectors().fit(tiny, EXAMPLES)


def test_the_paper_s_blocks_are_those_of_its_model():
    assert [site.block for site in _inserted(32)] == [18, 19, 20]
    assert [site.block for site in _inserted(30)] == [16, 17, 18]
    assert [site.block for site in _inserted(2)] == [1]


def test_strength_one_adds_the_difference_of_means_at_every_block(tiny, fitted):
    (vector,) = fitted.vectors.values()
    assert vector.method == "style-vectors"
    for edit, site in zip(fitted.edits(1.0), _inserted(tiny.blocks), strict=True):
        rows = tiny.capture(EXAMPLES.inputs, [site], "last")[site]
        difference = rows[:3].mean(0) - rows[3:].mean(0)
        assert edit.site == site
        assert torch.allclose(edit.shift, difference, atol=1e-5 * float(rows.abs().max()))


def test_adding_to_the_stream_is_adding_to_what_the_mlp_writes(tiny, fitted):
    """The paper adds at the MLP's output; where the MLP reads the stream after attention that comes to the same."""
    site, edit = _inserted(tiny.blocks)[0], fitted.edits(1.0)[0]
    from dataclasses import replace

    from covec.models.sites import Site

    at_mlp = replace(edit, site=Site("mlp", site.block))
    texts = list(EXAMPLES.inputs)
    outputs = []
    for one in (edit, at_mlp):
        with tiny.edit(one):
            outputs.append(tiny.capture(texts, "resid.*", "mean").stack())
    assert torch.allclose(*outputs, atol=1e-4 * float(outputs[0].abs().max()))


def test_strengths_are_multiples_and_zero_is_none(tiny, fitted):
    assert fitted.edits(0.0) == ()
    for one, double in zip(fitted.edits(-1.0), fitted.edits(2.0), strict=True):
        assert torch.allclose(-2 * one.shift, double.shift)
    with pytest.raises(CovecError, match="finite number"):
        fitted.edits(math.inf)
    with pytest.raises(CovecError, match="not fitted"):
        StyleVectors().edits()


def test_other_sites_can_be_named(tiny):
    (vector,) = StyleVectors(sites="resid.0").fit(tiny, EXAMPLES).vectors.values()
    assert [str(site) for site in vector.sites] == ["resid.0"]
    with pytest.raises(CovecError, match="no site"):
        StyleVectors(sites="resid.99").fit(tiny, EXAMPLES)
