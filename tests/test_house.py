"""House rules that a reader of the code can rely on."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from covec import registry

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "covec"
FILES = sorted(SOURCE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
IMPORT_NAMES = {"scikit-learn": "sklearn"}  # where it is not the package's own name with underscores
FOUND_BY_OTHERS = {"accelerate"}  # transformers imports it for us: docs/dependencies.md


def lines(path):
    return path.read_text(encoding="utf-8").count("\n")


def test_no_file_is_longer_than_400_lines():
    long = {str(path.relative_to(ROOT)): lines(path) for path in FILES if lines(path) > 400}
    assert not long


def test_half_of_the_files_have_at_most_150_lines():
    assert sum(lines(path) <= 150 for path in FILES) >= len(FILES) / 2


def body_lines(function):
    """Lines from the first statement to the last, docstring and parameters left out."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_no_function_is_longer_than_a_screen():
    found = {
        f"{path.relative_to(SOURCE)}: {node.name}": body_lines(node)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert not {name: count for name, count in found.items() if count > 55}


@pytest.mark.parametrize(
    "pattern", [r"\bpickle\b", r"trust_remote_code=True[,)]", r"\btorch\.load\(", r"\bshell=True", r"\beval\((?!\))"]
)
def test_nothing_loads_or_runs_foreign_code(pattern):
    found = [str(path) for path in FILES if re.search(rf"(?<![.\w]){pattern}", path.read_text(encoding="utf-8"))]
    assert not found


WRITING = {
    "open", "write_text", "write_bytes", "touch", "write_table", "ParquetWriter", "savefig", "dump", "save_file",
    "save_pretrained", "GGUFWriter", "tofile", "savez", "to_parquet", "to_csv", "to_pickle", "copyfile", "copy2",
    "copytree", "move", "symlink_to",
}  # fmt: skip
PLACED_BY_HAND = {  # why a file writes otherwise than to a draft of covec.writing
    "writing.py": "it makes the drafts",
    "bench/_meter.py": "a switch of the system, and no file",
    "checks/_elsewhere.py": "into a temporary folder, to be read by another process at once",
    "report/svg.py": "a picture into memory",
    "models/conversion.py": "into a folder that embedded.py gives its name when it is whole",
    "models/_seal.py": "the same",
}


def writes_elsewhere(node):
    """Whether a call writes a file that is not called `draft`, by the names that stand in it."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called not in WRITING:
        return False
    words = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    texts = {word.value for word in ast.walk(node) if isinstance(word, ast.Constant) and isinstance(word.value, str)}
    if called == "open" and not any(re.fullmatch(r"[rwaxbt+]*[wax+][rwaxbt+]*", text) for text in texts):
        return False
    return not words & {"draft", "writer"}  # a writer was given the draft when it was made


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_is_written_whole_or_not_at_all(path):
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    lines = [node.lineno for node in calls if writes_elsewhere(node)]
    assert bool(lines) == (str(path.relative_to(SOURCE)) in PLACED_BY_HAND), f"write through covec.writing: {lines}"


def methods():
    return [(verb, name) for verb in registry.VERBS for name in registry.names(verb)]


@pytest.mark.parametrize(("verb", "name"), methods())
def test_a_method_is_called_as_its_file(verb, name):
    entry = registry.get(verb, name).entry
    assert (entry.verb, entry.name) == (verb, name)


def names_of(requirements):
    return {re.split(r"[<>=\[;]", requirement)[0] for requirement in requirements} - {"covec"}


def imported():
    """Top-level packages that any file of the source imports, at any depth."""
    found = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"covec"}


def test_dependencies_are_those_that_are_imported():
    required = names_of(PROJECT["project"]["dependencies"]) - FOUND_BY_OTHERS
    assert {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in required} == imported()


def test_every_dependency_is_explained():
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    extras = PROJECT["project"]["optional-dependencies"].values()
    listed = names_of([*PROJECT["project"]["dependencies"], *(name for extra in extras for name in extra)])
    assert not {name for name in listed if f"`{name}`" not in page}


SCRIPTS = sorted(path for folder in ("benchmarks", "docs", "examples") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_beside_the_package_import_what_there_is(path):
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    asked = [
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "covec"
        for alias in node.names
    ]
    missing = [
        f"{module}: {name}"
        for module, name in asked
        if not hasattr(importlib.import_module(module), name) and importlib.util.find_spec(f"{module}.{name}") is None
    ]
    assert not missing


def test_every_packaged_file_ships(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, check=True, capture_output=True, cwd=ROOT)
    (wheel,) = tmp_path.glob("covec-*.whl")
    shipped = {name.removeprefix("covec/") for name in zipfile.ZipFile(wheel).namelist()}
    files = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= shipped
