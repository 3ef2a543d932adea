"""What the pages in docs/ show is run: Python page by page, on the embedded model; commands are parsed, cheap ones run.

Studies are cut down to one block and quick ones, and made once for all pages.
"""

import re
import shlex
import textwrap
from pathlib import Path

import pytest
import typer

import covec
from covec import cli
from covec.concepts import packaged

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {str(page.relative_to(DOCS)): page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))}
PYTHON = {
    name: "\n".join(map(textwrap.dedent, re.findall(r"^ *```python\n(.*?)^ *```", text, re.S | re.M)))
    for name, text in PAGES.items()
}
COMMANDS = [
    pytest.param(shlex.split(line)[1:], id=f"{name}: {line}")
    for name, text in PAGES.items()
    for line in re.findall(r"^ *\$ (covec .*?)(?:\s+#.*)?$", text, re.M)
]
ELSEWHERE = {"adding-a-method.md"}  # tests/checks/test_pages.py runs it, a law at a time
FEW = 110  # rows in pairs: above the 50 of each class from which on a study holds some out
CHEAP = {"detect", "export", "compare", "models", "systems", "capture"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, smol):
    """Where the pages are followed: with the files that they name."""
    made = tmp_path_factory.mktemp("docs")
    rows = packaged._data("sentiment.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[:FEW]
    (made / "sentiment.jsonl").write_text("".join(rows), encoding="utf-8")
    (made / "corpus.txt").write_text("\n".join(packaged.neutral_texts()[:8]), encoding="utf-8")
    studied, whole = {}, covec.study

    def reduced(model, examples, **options):
        digest = examples.digest if isinstance(examples, covec.Examples) else tuple(examples)
        if digest not in studied:
            studied[digest] = whole(model, examples, sites="resid.15", quick=True, finders="mean-difference")
        return studied[digest]

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setattr(covec, "load", lambda *_, **__: smol, raising=False)
        patch.setattr(covec, "study", reduced, raising=False)
        study = covec.study(smol, covec.Examples.read("sentiment.jsonl"))
        study.write("sentiment")
        covec.Bank([study.best]).save("other.safetensors")
        yield made


@pytest.mark.parametrize("page", [page for page, code in PYTHON.items() if code and page not in ELSEWHERE])
def test_the_python_of_a_page_runs(page, folder):
    exec(compile(PYTHON[page], page, "exec"), {})
    assert not list(folder.glob(".covec-draft-*"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one_that_there_is(command, folder, capsys):
    group = typer.main.get_command(cli.app)
    name, *arguments = command
    if not name.startswith("-"):
        assert group.commands[name].make_context(name, list(arguments)).params
    if name in CHEAP:
        assert cli.run(command) == 0
        assert capsys.readouterr().out.strip()
