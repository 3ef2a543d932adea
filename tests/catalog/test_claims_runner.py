"""Running claims and recording what they gave."""

import json
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec

import pytest

from covec import catalog, claims
from covec.cli import run as command_line
from covec.errors import CovecError
from covec.statistics.figure import Figure


def figure(holds):
    return claims.ClaimFigure("accuracy", Figure(0.9, 0.8, 0.95, 0.5, 100), 0.7, "above the baseline", holds)


@pytest.fixture
def raptor(monkeypatch, tmp_path):
    """A claim of RAPTOR whose figures the test chooses, recorded elsewhere."""
    module = module_from_spec(ModuleSpec("covec.claims.raptor", None))
    module.claim = lambda reduced=False: claims.Claim("raptor", (figure(True), figure(not reduced)))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(claims, "available", lambda: ("raptor",))
    monkeypatch.setattr(catalog, "RESULTS", tmp_path)


@pytest.mark.usefixtures("raptor")
def test_a_run_is_timed_and_passes_where_every_rule_holds():
    claim = claims.run("raptor")
    assert claim.passed
    assert claim.seconds > 0
    assert not claims.run("raptor", reduced=True).passed


def test_a_claim_without_figures_does_not_pass():
    assert not claims.Claim("raptor", ()).passed


@pytest.mark.usefixtures("raptor")
def test_what_is_written_is_what_the_catalog_reads():
    path = claims.write(claims.run("raptor"))
    system = catalog.system("raptor")
    assert (system.status, system.stale) == ("claim holds", False)
    document = json.loads(path.read_text())
    assert set(document) == {
        "id",
        "passed",
        "figures",
        "seconds",
        "processor_seconds",
        "date",
        "digest",
        "texts",
        "machine",
        "versions",
    }
    assert document["figures"][0]["figure"]["null"] == 0.5


@pytest.mark.usefixtures("raptor")
def test_unknown_systems_and_missing_claims_are_told_apart():
    with pytest.raises(CovecError, match="no system 'raptorr'"):
        claims.run("raptorr")
    with pytest.raises(CovecError, match="not written yet; these are: raptor"):
        claims.run("mosaic")


def test_every_claim_belongs_to_a_system():
    known = {system.id for system in catalog.systems()}
    assert set(claims.available()) <= known


@pytest.mark.usefixtures("raptor")
def test_all_claims_make_one_table(capsys):
    assert command_line(["claims", "--all"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["claim", "rules"], ["raptor", "holds"]]
    assert lines[1].endswith("accuracy: 0.90 [0.80, 0.95], null 0.50, n 100; baseline 0.70; above the baseline")


def test_figures_that_are_only_shown_are_no_rules():
    shown = claims.ClaimFigure("control", Figure(0.5), None, claims.SHOWN, True)
    claim = claims.Claim("raptor", (shown, figure(False)))
    assert claim.rules == (figure(False),)
    assert [line[:5] for line in str(claim).splitlines()[1:]] == ["     ", "  NO "]
