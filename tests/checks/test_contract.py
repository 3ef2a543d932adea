"""Everything that covec finds by discovery keeps its contract; what it cannot keep is listed with a reason."""

from __future__ import annotations

import subprocess
import sys

import pytest

from covec import checks, registry
from covec.checks._check import Check
from covec.checks.edits import MAKERS
from covec.checks.expected import EDITS, SCIKIT_LEARN
from covec.detect import aggregators
from covec.errors import CovecError
from covec.steer import steerings

CHECKS = checks.all_checks()


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_contract(check: Check) -> None:
    check.run()


def test_every_method_is_found() -> None:
    found = {(check.verb, check.method) for check in CHECKS}
    assert {name for verb, name in found if verb == "find"} == set(registry.names("find"))
    assert {name for verb, name in found if verb == "detect"} == set(aggregators())
    assert {name for verb, name in found if verb == "name"} == set(registry.names("name"))
    assert {name for verb, name in found if verb == "steer"} == set(steerings())
    assert {name for verb, name in found if verb == "measure"} == set(registry.names("measure"))
    assert {name for verb, name in found if verb == "edit"} >= set(MAKERS)
    assert sum(verb == "vector" for verb, _ in found) >= 8


def test_every_expected_failure_is_of_a_check_and_has_a_reason() -> None:
    methods = [(verb, name) for verb in ("find", "name", "steer", "measure") for name in registry.names(verb)]
    methods += [("detect", name) for name in aggregators()]
    said = {(verb, name): registry.get(verb, name).entry.cannot for verb, name in methods}
    said |= {("edit", name): laws for name, laws in EDITS.items()}
    expected = {(*method, law) for method, laws in said.items() for law in laws}
    assert expected == {(check.verb, check.method, check.title) for check in CHECKS if check.expected_failure}
    assert all(len(reason) > 20 for laws in (*said.values(), SCIKIT_LEARN) for reason in laws.values())


def broken(subject: bool) -> None:
    """A law that is kept where the subject is true."""
    assert subject


def test_an_expected_failure_has_to_fail() -> None:
    Check("find", "some", broken, False, "it cannot be helped").run()
    with pytest.raises(AssertionError, match="find some: broken: kept after all"):
        Check("find", "some", broken, True, "it cannot be helped").run()


def test_a_crash_is_no_expected_failure() -> None:
    with pytest.raises(TypeError) as caught:
        Check("find", "some", lambda subject: subject + 1, "", "it cannot be helped").run()
    assert "find some" in caught.value.__notes__[-1]


def test_failures_are_expected_of_laws_that_there_are() -> None:
    with pytest.raises(CovecError, match="no law 'louder' for mean; there are: equal scores"):
        checks.check_aggregator("mean", {"louder": "because"})


def test_without_assertions_nothing_passes() -> None:
    code = "from covec.checks._check import Check; Check('find', 'some', print, None).run()"
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert "run without -O" in run.stderr


def test_the_package_costs_nothing_until_it_is_used() -> None:
    code = "import sys, covec.checks; assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
