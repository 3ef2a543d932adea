"""Several concepts together: their p-values are corrected for their number."""

import dataclasses

import pytest

from covec.studies._several import multiplicity_warnings
from report.fabricated import studies, study


def with_p(*p):
    made = studies(tuple("abc"[: len(p)]))
    judged = {name: study(name, p_test=value, verdict="found") for name, value in zip(made, p, strict=True)}
    return dataclasses.replace(made, studies=judged, warnings=())


def test_p_is_corrected_by_holm():
    assert with_p(0.0001, 0.004, 0.03).p_holm == pytest.approx({"a": 0.0003, "b": 0.008, "c": 0.03})


def test_what_does_not_outlive_the_correction_is_warned_of():
    (warning,) = multiplicity_warnings(with_p(0.0001, 0.006, 0.008))
    assert "for 3 concepts" in warning
    assert "b (p 0.012), c (p 0.012)" in warning
    assert "a (" not in warning
    assert multiplicity_warnings(with_p(0.0001, 0.0002, 0.0003)) == ()


def test_what_was_not_found_anyway_is_not_warned_of():
    made = with_p(0.0001, 0.4)
    lost = dataclasses.replace(made["b"], verdict="not-found")
    assert multiplicity_warnings(dataclasses.replace(made, studies={**made.studies, "b": lost})) == ()


def test_the_warnings_are_printed():
    assert str(dataclasses.replace(with_p(0.1, 0.1), warnings=("careful",))).endswith("warning: careful")


def test_a_prompt_shows_a_study_in_a_line():
    shown = repr(study("kind"))
    assert shown.startswith("Study('kind', found-and-used: logistic at resid.17, last/none, test AUROC 0.9")
    assert shown.count("\n") == 0
    assert repr(with_p(0.1, 0.2)).count("\n") == 0
    assert repr(with_p(0.1, 0.2)).count("Study(") == 2


def test_random_directions_have_no_interval_but_a_share_below():
    assert "random direction  0.51, n 100, 95% below 0.62" in str(study("kind"))
