"""The versions that the project says it runs with: every lowest one is tested, and the pins keep to the ranges."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
REQUIREMENTS = [
    Requirement(line)
    for line in [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"], *EXTRAS["test"]]
]


def pins(name):
    """What a file of constraints pins: versions by canonical name."""
    lines = (line.split("==") for line in (ROOT / name).read_text().splitlines() if not line.startswith("#"))
    return {canonicalize_name(package): Version(version) for package, version in lines}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_lowest_version_is_the_one_that_test_oldest_installs(requirement):
    (bound,) = requirement.specifier  # `>=` alone: no release is shut out before it is there
    assert bound.operator == ">="
    assert pins("constraints-oldest.txt")[canonicalize_name(requirement.name)] == Version(bound.version)


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_what_is_installed_by_make_is_in_range(requirement):
    assert requirement.specifier.contains(pins("constraints.txt")[canonicalize_name(requirement.name)])


def test_one_python_is_the_lowest():
    lowest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert PROJECT["tool"]["mypy"]["python_version"] == lowest
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + lowest.replace(".", "")
    assert f"--python-version {lowest} " in (ROOT / "constraints-oldest.txt").read_text()
