"""Names of vectors: every way, site and direction, and what has none."""

from dataclasses import replace

import pytest
import torch

import covec
from covec.concepts.part import Part
from covec.errors import CovecError, ModelError
from covec.models.sites import Site
from covec.name import describe
from covec.name.conceptualization import Conceptualization

WAY = [Conceptualization(concepts=("pets", "taxes", "opera"), count=2)]


@pytest.fixture
def vector(tiny):
    low, high = torch.randn(2, tiny.width, generator=torch.Generator().manual_seed(0))
    return covec.ConceptVector.from_direction("warmth", "resid.1", high - low, high, low, model=tiny.describe())


def test_every_site_and_direction_is_named(tiny, vector):
    basis = torch.linalg.qr(torch.randn(tiny.width, 2, generator=torch.Generator().manual_seed(1))).Q.T
    plane = Part(basis, basis, torch.zeros(2), torch.ones(2))
    sites = {Site("resid", 0): plane, Site("resid", 1): plane}
    both = covec.ConceptVector("plane", sites, kind="subspace", scale_from="native", model=tiny.describe())
    found = describe(tiny, covec.Bank([vector, both]), WAY)
    assert [(one.concept, str(one.site), one.row) for one in found] == [
        ("warmth", "resid.1", 0), ("plane", "resid.0", 0), ("plane", "resid.0", 1), ("plane", "resid.1", 0),
        ("plane", "resid.1", 1),
    ]  # fmt: skip
    assert str(found[2]).startswith("plane at resid.0, direction 1, by conceptualization\n  up    ")


def test_what_is_named_is_what_strength_one_adds(tiny, vector):
    (one,), (other,) = describe(tiny, vector, WAY), WAY[0].name(tiny, vector.write[None], "resid.1")
    assert list(one.names) == other
    assert one.up == [pair for pair in other if pair[1] > 0]
    assert one.down == [pair for pair in reversed(other) if pair[1] < 0]
    assert one.to_json()["down"] == [{"text": text, "weight": weight} for text, weight in one.down]


def test_what_has_no_direction_and_what_belongs_elsewhere_is_refused(tiny, vector):
    prefix = covec.ConceptVector("p", {Site("embed"): Part.writing(torch.ones(2, tiny.width))}, kind="prefix")
    with pytest.raises(ModelError, match="'p' is of kind prefix, which has no direction to name"):
        describe(tiny, prefix, WAY)
    foreign = replace(vector, model={**vector.model, "fingerprint": "0" * 32, "name": "another"})
    with pytest.raises(CovecError, match="was found in another"):
        describe(tiny, foreign, WAY)
    assert describe(tiny, foreign, WAY, force=True)
    with pytest.raises(CovecError, match="no name method 'magic'"):
        describe(tiny, vector, ["magic"])
