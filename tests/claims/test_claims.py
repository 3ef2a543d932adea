"""Every claim runs from end to end on a reduced setting, and what is true by algebra holds there too."""

import math

import pytest

from covec.claims import available, run
from covec.statistics.figure import Figure

BY_ALGEBRA = {
    "scav": ("log-odds after the edit", "rows already there", "norm of the edit"),
    "super-activators": ("range under weak coupling", "order of the values", "gaps between neighbours"),
}


def test_the_claims_of_the_systems_that_are_built_are_there():
    assert {"raptor", "scav", "style-vectors", "super-activators"} <= set(available())


@pytest.mark.parametrize("id", available())
def test_a_reduced_claim_runs_and_says_how_it_was_judged(id, smol):
    claim = run(id, reduced=True)
    assert claim.id == id
    assert len(claim.figures) >= 3
    for figure in claim.figures:
        assert isinstance(figure.figure, Figure)
        assert figure.rule
        assert not math.isnan(figure.figure.value), figure.name
    names = {figure.name: figure.holds for figure in claim.figures}
    assert all(names[name] for name in BY_ALGEBRA.get(id, ()))
    document = claim.to_json()
    assert set(document) == {"id", "passed", "figures", "seconds", "processor_seconds"}
    assert document["passed"] == all(names.values())
