"""The README's code does what the README says, on the embedded model; studies are cut down to one block."""

import ast
import functools
import inspect
import re
import shlex
from pathlib import Path

import pytest

import covec
from covec import cli
from covec.concepts import packaged
from covec.find import mean_difference

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
PYTHON, METHOD = re.findall(r"```python\n(.*?)```", README, re.S)
STUDY, *COMMANDS = [shlex.split(line)[1:] for line in re.findall(r"^\$ (covec .*?)(?:\s+#.*)?$", README, re.M)]
COMMANDS = [command for command in COMMANDS if command != ["demo"]]  # tests/cli/test_demo.py runs it


@pytest.fixture(scope="module")
def folder(tmp_path_factory, smol):
    """Where the README is followed: with examples called sentiment.jsonl, and what the study of them left."""
    made = tmp_path_factory.mktemp("readme")
    (made / "sentiment.jsonl").write_bytes(packaged._data("sentiment.jsonl").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.setattr(covec, "load", lambda *_, **__: smol, raising=False)
        assert cli.run([*STUDY, "--quick", "--sites", "resid.15"]) == 0
        yield made


def test_the_python_example(folder, monkeypatch, capsys):
    one_block = functools.partial(covec.study, sites="resid.15", quick=True)
    monkeypatch.setattr(covec, "study", one_block, raising=False)
    names = {}
    exec(compile(PYTHON, "README.md", "exec"), names)
    written = capsys.readouterr().out
    assert "found" in written
    plain = names["model"].generate("The hotel was", max_new_tokens=40)
    assert plain not in written  # the strength that is shown does something
    assert len(names["log"].rows) > 3
    assert names["rows"]["resid.14"].shape == (1, names["model"].width)
    assert (folder / "sentiment.html").is_file()
    assert covec.load_vector(folder / "sentiment.safetensors").identical(names["v"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_command_lines(folder, command, capsys):
    claimed = command[0] == "claims"
    code = cli.run([*command, "--reduced"] if claimed else command)
    out, err = capsys.readouterr()
    assert code in ((0, 1) if claimed else (0,)), err  # a reduced claim proves nothing
    assert out.strip()


def test_the_study_leaves_its_report(folder):
    assert (folder / "sentiment" / "report.html").is_file()


def test_the_steering_line_shows_three_different_texts(folder, capsys):
    (steer,) = [command for command in COMMANDS if command[0] == "steer"]
    cli.run(steer)
    texts = [part.partition(":\n")[2] for part in capsys.readouterr().out.split("\n\n'")]
    assert len(set(texts)) == 3


def test_the_method_is_the_one_that_ships():
    def body(source):
        (found,) = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
        (decorator,) = found.decorator_list
        decorator.keywords = [one for one in decorator.keywords if one.arg != "cannot"]  # the README says it in words
        for function in [node for node in found.body if isinstance(node, ast.FunctionDef)]:
            function.returns = None
            for argument in function.args.args:
                argument.annotation = None
        return ast.dump(found)

    assert body(METHOD) == body(inspect.getsource(mean_difference))
