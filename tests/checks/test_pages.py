"""The pages on the contract: one is generated from it, the code of the other runs."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from covec import checks, registry
from covec.checks import page

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "adding-a-method.md").read_text(encoding="utf-8")
FILE, *OTHERS = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
(TOML,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.S)


def test_the_contract_in_words_is_that_of_the_code() -> None:
    assert (DOCS / "contract.md").read_text(encoding="utf-8") == page.markdown(), "run `make docs`"


def test_the_guide_does_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # where its classes are looked up
    for code in (FILE, *OTHERS):
        exec(compile(code, "adding-a-method.md", "exec"), vars(guide))
    assert vars(guide)["test_contract"]


def test_a_method_of_another_package_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tomllib.loads(TOML)["project"]["entry-points"]["covec.methods"]
    ((name, module),) = points.items()
    (tmp_path / "their_package").mkdir()
    (tmp_path / f"{module.replace('.', '/')}.py").write_text(FILE)
    found = [EntryPoint(name, module, "covec.methods")]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    monkeypatch.syspath_prepend(tmp_path)
    registry._modules.cache_clear()
    try:
        theirs = [check for check in checks.all_checks() if check.method == "median-difference"]
        assert {check.title for check in theirs} >= {"same seed same bits", "easy direction found"}
        next(check for check in theirs if check.title == "easy direction found").run()
    finally:
        registry._modules.cache_clear()
