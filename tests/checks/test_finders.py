"""Every registered finder, found by discovery, keeps the contract; what it cannot keep is listed with a reason."""

from __future__ import annotations

import inspect

import pytest

from covec import registry
from covec.checks.finders import EXPECTED_FAILURES, LAWS, Check, check_finder
from covec.find import Finder

CHECKS = [check for name in registry.names("find") for check in check_finder(name)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.finder}: {check.law}")
def test_law(check: Check) -> None:
    if check.expected_failure is None:
        check.run()
    else:
        with pytest.raises(AssertionError):  # were it kept after all, the table would be out of date
            check.run()


def test_every_finder_is_checked_by_every_law() -> None:
    assert len(registry.names("find")) >= 7
    assert len(CHECKS) == len(registry.names("find")) * len(LAWS)


def test_every_expected_failure_exists_and_has_a_reason() -> None:
    known = {(check.finder, check.law) for check in CHECKS}
    assert set(EXPECTED_FAILURES) <= known
    assert all(len(reason) > 20 for reason in EXPECTED_FAILURES.values())


@pytest.mark.parametrize("name", registry.names("find"))
def test_a_registered_finder_derives_from_the_contract_once(name: str) -> None:
    finder = registry.get("find", name)
    assert finder.__bases__ == (Finder,)
    assert finder.entry.name == name
    assert finder.__doc__
    assert inspect.getmodule(finder).__doc__
