"""What `import covec` and `covec --help` cost, and what the package offers."""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import covec

HEAVY = {
    "datasets", "jinja2", "matplotlib", "numpy", "pandas", "pyarrow", "rich", "safetensors", "scipy", "sklearn",
    "tokenizers", "torch", "transformers",
}  # fmt: skip


def imported_by(code: str) -> set[str]:
    """The packages in `sys.modules` of a fresh interpreter after `code`."""
    script = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}), file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(found.stderr.split())


def test_import_covec_imports_nothing_heavy():
    assert not imported_by("import covec") & (HEAVY | {"typer"})


@pytest.mark.parametrize(
    "arguments", [["--help"], ["study", "--help"], ["steer", "--help"], ["systems"], ["--version"]]
)
def test_help_and_listings_import_nothing_heavy(arguments):
    assert not imported_by(f"from covec.cli import run\nassert run({arguments!r}) == 0") & HEAVY


def test_listing_methods_imports_none_of_them():
    code = "from covec import registry\nfor verb in registry.VERBS: registry.names(verb)"
    assert not imported_by(code) & HEAVY


@pytest.mark.parametrize("name", covec.__all__)
def test_every_public_name_is_there(name):
    assert getattr(covec, name) is not None
    assert name in dir(covec)


def test_the_names_are_the_same_to_a_type_checker():
    tree = ast.parse(Path(covec.__file__).read_text(encoding="utf-8"))
    told = {f"{node.module}:{name.name}" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
            for name in node.names if name.asname}  # fmt: skip
    assert told == set(covec._PUBLIC.values())


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'no_such_thing'"):
        covec.no_such_thing  # noqa: B018


def test_version_is_that_of_the_project():
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert covec.__version__ == version("covec") == tomllib.loads(project.read_text())["project"]["version"]
