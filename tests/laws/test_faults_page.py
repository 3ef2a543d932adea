"""The page of faults names all thirty kinds, tests that exist, and what is open."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from covec import catalog, registry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
KINDS = dict(re.findall(r"^## K-(\d+) .+\n((?:(?!## ).*\n?)*)", PAGE, re.M))
SYSTEMS = {system.id: system for system in catalog.systems()}
OPEN = re.compile(r"`open: ([a-z-]+)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def collected(path: str) -> set[str]:
    """The tests that pytest collects from a file; none where there is no such file."""
    if not (ROOT / path).is_file():
        return set()
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_all_kinds_are_there_in_order() -> None:
    assert list(KINDS) == [str(kind) for kind in range(1, 31)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_has_tests_that_exist_or_waits_for_a_verb(kind: str) -> None:
    named, waits = TEST.findall(KINDS[kind]), OPEN.findall(KINDS[kind])
    assert named or waits
    assert not [f"{path}::{name}" for path, name in named if name not in collected(path)]
    assert len(set(named)) == len(named)
    assert KINDS[kind].count("`open") == len(waits)
    # What a verb has to show comes with its first method, and what a system has to show with its module.
    assert not [verb for verb in waits if verb in registry.VERBS and registry.names(verb)]
    assert not [id for id in waits if id in SYSTEMS and SYSTEMS[id].module]
    assert set(waits) <= {*registry.VERBS, *SYSTEMS, "bake"}


def test_every_law_is_on_the_page() -> None:
    files = {f"tests/laws/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert files - {path for path, _ in TEST.findall(PAGE)} == {f"tests/laws/{Path(__file__).name}"}
