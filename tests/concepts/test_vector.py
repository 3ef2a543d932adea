"""Concept vectors keep their laws, and refuse whatever breaks one."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from concepts.made import FIGURE, direction, part, vectors
from covec.concepts.part import Part
from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.figure import Figure

SEEDS = st.integers(0, 2**31)


def planted(seed, width=16, factor=1.0):
    """Class means and a direction that tells them apart but is not their difference."""
    generator = torch.Generator().manual_seed(seed)
    negative, gap, tilt = torch.randn(3, width, generator=generator)
    tilt -= (tilt @ gap) / (gap @ gap) * gap
    return factor * (negative + gap), factor * negative, gap + 2 * tilt


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.floats(0.01, 100))
def test_class_means_score_a_half_and_write_raises_the_score_by_one(seed, factor):
    positive, negative, row = planted(seed, factor=factor)
    vector = ConceptVector.from_direction("c", "resid.1", row, positive, negative)
    assert torch.allclose(vector.score(torch.stack([positive, negative])), torch.tensor([0.5, -0.5]), atol=1e-4)
    torch.testing.assert_close(vector.write, positive - negative)
    start = torch.randn(5, 16) * factor
    assert torch.allclose(vector.score(start + vector.write) - vector.score(start), torch.ones(5), atol=1e-3)
    assert float(vector.direction.norm()) == pytest.approx(1, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([0.125, 7.0, 1e-3, 1e6]))
def test_the_length_of_the_given_direction_says_nothing(seed, factor):
    positive, negative, row = planted(seed)
    one = ConceptVector.from_direction("c", "resid.1", row, positive, negative)
    other = ConceptVector.from_direction("c", "resid.1", factor * row, positive, negative)
    torch.testing.assert_close(other.direction, one.direction)
    assert other.scale == pytest.approx(one.scale, rel=1e-5)


def test_scores_do_not_change_when_all_activations_grow():
    positive, negative, row = planted(3)
    rows = torch.randn(6, 16)
    one = ConceptVector.from_direction("c", "resid.1", row, positive, negative)
    large = ConceptVector.from_direction("c", "resid.1", row, 100 * positive, 100 * negative)
    torch.testing.assert_close(large.score(100 * rows), one.score(rows), rtol=1e-4, atol=1e-4)


def test_scores_agree_with_numpy_for_every_kind_of_array():
    vector = direction()
    rows = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    expected = (rows @ vector.direction.numpy() + vector.intercept) / vector.scale
    np.testing.assert_allclose(vector.score(rows), expected, rtol=1e-5)
    np.testing.assert_allclose(vector.score(torch.tensor(rows, dtype=torch.bfloat16)), expected, atol=0.1)
    assert vector.score(torch.tensor(rows, dtype=torch.bfloat16)).dtype == torch.float32


def test_a_vector_without_class_means_takes_the_scale_it_is_given():
    row = torch.tensor([0.0, 3.0, 4.0])
    vector = ConceptVector.from_direction("atom", "resid.2", row, scale=2.5, scale_from="codes")
    torch.testing.assert_close(vector.write, torch.tensor([0.0, 1.5, 2.0]))
    assert (vector.scale, vector.intercept) == (2.5, 0.0)
    native = ConceptVector.from_direction("task", "resid.2", row, write=row, scale_from="native")
    assert native.scale == pytest.approx(5)


@pytest.mark.parametrize("row", [[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_a_direction_that_is_none_is_refused(row):
    with pytest.raises(CovecError, match="direction|finite"):
        ConceptVector.from_direction("c", "embed", torch.tensor(row), torch.ones(2), torch.zeros(2))


def test_positive_means_more_of_the_concept():
    positive, negative, row = planted(0)
    with pytest.raises(CovecError, match="more of the concept"):
        ConceptVector.from_direction("c", "resid.1", -row, positive, negative)
    with pytest.raises(CovecError, match="from having the concept to lacking it"):
        ConceptVector.from_direction("c", "resid.1", -row, positive, negative, write=-row)


@pytest.mark.parametrize(
    "given_", [{"write": torch.ones(3)}, {"mean_positive": torch.ones(3)}, {"direction": torch.ones(2, 2)}]
)
def test_rows_of_unequal_length_are_refused(given_):
    rows = {"direction": torch.ones(2), "mean_positive": torch.ones(2), "mean_negative": torch.zeros(2)} | given_
    with pytest.raises(CovecError, match="one length"):
        ConceptVector.from_direction("c", "resid.1", **rows)


def test_no_class_means_and_no_scale_is_refused():
    with pytest.raises(CovecError, match="give the scale"):
        ConceptVector.from_direction("c", "resid.1", torch.ones(2))
    with pytest.raises(CovecError, match="scale_from says class-means"):
        ConceptVector.from_direction("c", "resid.1", torch.ones(2), scale=1.0)


def test_the_usual_vector_is_read_without_naming_its_site():
    vector = direction()
    only = vector.parts[Site.parse("resid.14")]
    assert vector.site == Site("resid", 14)
    assert vector.direction.shape == vector.write.shape == (8,)
    assert (vector.scale, vector.intercept) == (float(only.scale), float(only.intercept))


@pytest.mark.parametrize("field", ["site", "direction", "write", "scale", "intercept"])
@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        (ConceptVector("two", {"resid.1": part(), "resid.2": part()}), r"resid\.1, resid\.2.*at\(site\)"),
        (ConceptVector("plane", {"resid.1": part(2)}, kind="subspace"), "subspace of rank 2"),
        (ConceptVector("soft", {"embed": Part.writing(torch.ones(3, 8))}, kind="prefix"), "prefix of rank 3"),
    ],
    ids=["two-sites", "subspace", "prefix"],
)
def test_one_direction_is_not_read_from_what_is_more(vector, reason, field):
    with pytest.raises(CovecError, match=reason):
        getattr(vector, field)
    with pytest.raises(CovecError, match=reason):
        vector.score(torch.ones(1, 8))


def test_one_of_several_sites_can_be_chosen():
    vector = ConceptVector("two", {"resid.1": part(seed=1), "resid.2": part(seed=2)}, seed=5)
    assert vector.at("resid.2").parts == {Site("resid", 2): part(seed=2)}
    assert vector.at("resid.2").seed == 5
    with pytest.raises(CovecError, match=r"no part at resid\.3; it has resid\.1, resid\.2"):
        vector.at("resid.3")


def test_a_subspace_scores_each_row():
    made = part(3)
    assert made.score(torch.randn(5, 8)).shape == (5, 3)
    middle = (made.mean_positive + made.mean_negative)[None] / 2
    torch.testing.assert_close(made.score(middle), torch.zeros(1, 3), atol=1e-5, rtol=0)


@settings(max_examples=30, deadline=None)
@given(vectors())
def test_a_vector_equals_its_copy_and_no_neighbour(vector):
    assert vector == copy.deepcopy(vector) == dataclasses.replace(vector)
    assert hash(vector) == hash(copy.deepcopy(vector))
    assert vector != dataclasses.replace(vector, name=vector.name + "x")
    site, made = next(iter(vector.parts.items()))
    bits = made.write.clone()
    bits.view(torch.int32)[0, 0] ^= 1
    assert vector != dataclasses.replace(vector, parts=vector.parts | {site: dataclasses.replace(made, write=bits)})
    assert vector != vector.name
    assert all(part.tensors()["write"].dtype == torch.float32 for part in vector.parts.values())


def test_a_vector_keeps_no_hold_on_what_it_was_made_of():
    rows, model = torch.eye(4)[:1], {"name": "m"}
    vector = ConceptVector("c", {"resid.1": Part(rows, rows, [0.0], [1.0])}, scale_from="native", model=model)
    before = copy.deepcopy(vector)
    rows.zero_()
    model["name"] = "other"
    assert vector == before
    weight = torch.nn.Parameter(torch.eye(4)[:1])
    assert not Part(weight, weight, [0.0], [1.0]).write.requires_grad


def test_half_precision_is_kept_as_float32():
    made = ConceptVector.from_direction(
        "c", "resid.1", *(row.bfloat16() for row in (torch.ones(4), torch.ones(4), -torch.ones(4)))
    )
    assert made.direction.dtype == torch.float32
    assert made.scale == pytest.approx(4)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "arrow"}, "kind 'arrow' is not known"),
        ({"kind": 3}, "kind is a line"),
        ({"kind": "prefix"}, "has a direction, unlike a prefix"),
        ({"operation": "explode"}, "operation 'explode'"),
        ({"scale_from": "thin air"}, "scale_from 'thin air'"),
        ({"read_position": "everywhere"}, "not a position"),
        ({"read_position": 3}, "not a position"),
        ({"write_position": "mean"}, "takes no pooling"),
        ({"threshold": float("nan")}, "threshold is a finite number"),
        ({"threshold": True}, "threshold is a finite number"),
        ({"threshold": "0"}, "threshold is a finite number"),
        ({"calibration": (1.0,)}, "slope and an offset"),
        ({"calibration": (1.0, float("inf"))}, "offset of the calibration"),
        ({"seed": 1.5}, "whole number"),
        ({"seed": True}, "whole number"),
        ({"model": ["smollm2"]}, "model must be a dict"),
        ({"model": {3: "x"}}, "must be text"),
        ({"data": {"rows": np.ones(3)}}, "holds a ndarray"),
        ({"tried": {"a": 1}}, "tried must be a list"),
        ({"tried": ["a"]}, "tried must be a dict"),
        ({"metadata": {"kind": "x"}}, "'kind', which is a field"),
        ({"figures": {"n": 10**30}}, "more than 20 digits"),
        ({"versions": {"a": "\ud800"}}, "not valid Unicode"),
        ({"method": "two\nlines"}, "method is a line"),
        ({"parts": {}}, "has no parts"),
        ({"parts": {"resid": part()}}, "is not a site"),
        ({"parts": {"features.7@": part()}}, "not the address of a site"),
        ({"parts": {"a" * 201: part()}}, "not the address of a site"),
        ({"parts": {7: part()}}, "'7' is not the address of a site"),
        ({"parts": {"resid.1": part(), Site("resid", 1): part()}}, "two parts at one site"),
        ({"parts": {"resid.1": torch.ones(3)}}, "not a Part"),
        ({"parts": {"resid.1": part(2)}}, "2 rows, so it is a subspace"),
        ({"parts": {"resid.1": Part.writing(torch.ones(1, 3))}}, "lacks a direction, unlike a direction"),
        ({"parts": {"resid.1": part(means=False)}}, "no class means"),
    ],
)
def test_a_field_that_is_wrong_is_refused_in_one_line(fields, reason):
    with pytest.raises(CovecError, match=reason) as caught:
        ConceptVector(**{"name": "c", "parts": {"resid.1": part()}} | fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", " a", "a\n", "a\nb", "../a", "/a", "a//b", "a/..", ".", "a\\b", "x" * 201, None, "\x00", "\ud800"]
)
def test_a_name_is_one_harmless_line(name):
    with pytest.raises(CovecError, match="concept's name") as caught:
        direction(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["positive", "N/A", "ça va ?", "笑い", "a.b", "x" * 200])
def test_labels_people_use_are_names(name):
    assert direction(name).name == name


def nested(depth):
    return {"a": nested(depth - 1)} if depth else {}


def test_metadata_is_nested_so_deep_and_no_deeper():
    assert direction(metadata={"x": nested(20)}).metadata["x"]["a"]
    with pytest.raises(CovecError, match="nested"):
        direction(metadata={"x": nested(900)})


def test_numbers_of_other_libraries_become_plain():
    vector = dataclasses.replace(
        direction(),
        seed=np.int64(3),
        threshold=torch.tensor(0.5),
        calibration=np.array([2.0, 1.0]).tolist(),
        data={"n": np.int32(5), "shares": (np.float32(0.5), float("nan"))},
    )
    assert (vector.seed, vector.threshold, vector.calibration) == (3, 0.5, (2.0, 1.0))
    assert vector.data == {"n": 5, "shares": [0.5, None]}
    assert type(vector.data["n"]) is int


GOOD = {
    "direction": torch.eye(3)[:2],
    "write": 2 * torch.eye(3)[:2],
    "intercept": torch.zeros(2),
    "scale": torch.full((2,), 2.0),
}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"direction": torch.eye(3)[:2] * 1.01}, "orthonormal"),
        ({"direction": torch.ones(2, 3) / 3**0.5}, "orthonormal"),
        ({"direction": torch.eye(4)[:2]}, "direction has shape"),
        ({"direction": torch.eye(3)[:2] + 0j}, "complex"),
        ({"write": torch.ones(3)}, "write has shape"),
        ({"write": torch.ones(0, 3)}, "write has shape"),
        ({"write": torch.eye(3)[:2]}, "raise the score by 1"),
        ({"write": np.full((2, 3), 1e39)}, "write holds a number that is not finite"),
        ({"write": "abc"}, "not an array"),
        ({"intercept": torch.tensor([0.0, float("nan")])}, "intercept holds"),
        ({"intercept": torch.zeros(1)}, "intercept has shape"),
        ({"scale": torch.tensor([2.0, 0.0])}, "not positive"),
        ({"scale": torch.tensor([2.0, -2.0])}, "not positive"),
        ({"mean_positive": torch.ones(3)}, "together"),
        ({"mean_positive": torch.ones(3), "mean_negative": torch.ones(2)}, "mean_negative has shape"),
    ],
)
def test_a_part_that_breaks_a_law_is_refused(fields, reason):
    assert Part(**GOOD).rank == 2
    with pytest.raises(CovecError, match=reason):
        Part(**GOOD | fields)


def test_what_only_writes_has_no_score():
    with pytest.raises(CovecError, match="only writes"):
        Part.writing(torch.ones(2, 3)).score(torch.ones(1, 3))


@pytest.mark.parametrize("shape", [(8,), (2, 7), (1, 2, 8)])
def test_scores_need_rows_of_the_right_width(shape):
    with pytest.raises(CovecError, match=r"need activations \[n, 8\]"):
        direction().score(torch.ones(shape))


def test_probabilities_come_from_the_calibration():
    vector = direction(calibration=(2.0, -1.0))
    torch.testing.assert_close(vector.probability(torch.tensor([0.5, -0.5])), torch.sigmoid(torch.tensor([0.0, -2.0])))
    assert float(vector.probability(0.5)) == 0.5
    with pytest.raises(CovecError, match="not calibrated"):
        direction().probability(0.0)


MODEL = {"name": "one", "fingerprint": "aaaa", "width": 8}


def test_another_model_is_refused_unless_forced():
    vector = direction(model=MODEL)
    vector.check_model(MODEL | {"name": "renamed", "dtype": "bfloat16"})
    with pytest.raises(CovecError, match=r"found in one \(aaaa\), not in two \(bbbb\)"):
        vector.check_model({"name": "two", "fingerprint": "bbbb", "width": 8})
    vector.check_model({"name": "two", "fingerprint": "bbbb", "width": 8}, force=True)
    direction().check_model({"name": "two", "fingerprint": "bbbb", "width": 8})


@pytest.mark.parametrize("force", [False, True])
def test_another_width_is_refused_always(force):
    with pytest.raises(CovecError, match=r"8 wide at resid\.14, two 9"):
        direction(model=MODEL).check_model({"name": "two", "fingerprint": "aaaa", "width": 9}, force=force)


def test_sites_that_are_not_as_wide_as_the_model_are_left_to_the_edit():
    direction(site="neuron.3", model=MODEL).check_model(MODEL | {"width": 4})
    task = ConceptVector("t", {"model.q_proj": Part.writing(torch.ones(3, 5))}, kind="weights", model=MODEL)
    task.check_model(MODEL)
    assert task.sites[0].kind == "module"


@pytest.mark.parametrize(
    ("call", "forward", "given_", "named"),
    [
        (lambda v: v.add(), "edits.add", (1.0,), {}),
        (lambda v: v.add(-2, position="all", gate=1), "edits.add", (-2,), {"position": "all", "gate": 1}),
        (lambda v: v.ablate(sites=["resid.3"], to="zero"), "edits.ablate", (), {"to": "zero", "sites": ["resid.3"]}),
        (lambda v: v.set_coordinate(0.5), "edits.set_coordinate", (0.5,), {}),
        (lambda v: v.to_probability(0.1, below=False), "edits.to_probability", (0.1,), {"below": False}),
        (lambda v: v._repr_html_(), "report.vector_html", (), {}),
    ],
)
def test_conveniences_are_forwards(monkeypatch, call, forward, given_, named):
    seen = []
    monkeypatch.setattr(
        "covec.concepts.vector.resolve",
        lambda name: lambda vector, *values, **options: seen.append((name, vector.name, values, options)) or "<p>",
    )
    assert call(direction()) == "<p>"
    assert seen == [(forward, "sentiment", given_, named)]


def test_it_prints_what_it_is_and_how_good():
    vector = direction(
        method="ridge",
        model=MODEL,
        data={"name": "films", "n": 600},
        figures={"auroc": Figure(0.9, 0.8, 0.95, 0.5, 180)},
    )
    lines = str(vector).splitlines()
    assert lines[0] == "sentiment"
    assert [line.split()[0] for line in lines[1:]] == ["kind", "positions", "method", "model", "data", "auroc"]
    assert "0.90 [0.80, 0.95], null 0.50, n 180" in lines[-1]
    assert "films, n 600" in lines[-2]
    assert repr(vector) == "ConceptVector('sentiment', direction at resid.14, ridge)"


@settings(max_examples=20, deadline=None)
@given(vectors(), FIGURE)
def test_every_vector_prints(vector, figure):
    shown = dataclasses.replace(vector, figures={"auroc": figure})
    assert str(figure) in str(shown)
    assert str(vector.sites[0]) in repr(shown)


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        direction().name = "other"
    assert direction().read_position == Position("last")
