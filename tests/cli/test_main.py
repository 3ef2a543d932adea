"""Exit codes and streams: what went wrong is one line on stderr, whatever went wrong."""

import subprocess
import sys

import pytest
import typer

from covec import cli
from covec.errors import ExamplesError


@pytest.fixture
def covec(monkeypatch, capsys):
    """A command line whose only command, `work`, runs what the test gives; returns code, stdout and stderr."""

    def run(work):
        app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
        app.callback()(lambda: None)
        app.command("work")(work)
        monkeypatch.setattr(cli, "app", app)
        code = cli.run(["work"])
        return code, *capsys.readouterr()

    return run


def raising(error):
    def work() -> None:
        raise error

    return work


def test_success_says_nothing_by_itself(covec):
    assert covec(lambda: None) == (0, "", "")


def test_a_users_error_is_one_line(covec):
    assert covec(raising(ExamplesError("a.csv has no\ncolumn 'x'"))) == (2, "", "error: a.csv has no column 'x'\n")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_out_of_memory_names_the_batch_budget(covec, error):
    code, out, err = covec(raising(error))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--batch-tokens" in err


def test_an_interrupt_is_130(covec):
    assert covec(raising(KeyboardInterrupt())) == (130, "", "interrupted\n")


@pytest.mark.parametrize("error", [RuntimeError("a fault of covec"), ValueError("another")])
def test_faults_of_covec_keep_their_traceback(covec, error):
    with pytest.raises(type(error), match=str(error)):
        covec(raising(error))


def test_a_failed_claim_is_1(covec):
    assert covec(raising(typer.Exit(1))) == (1, "", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["study"],
        ["study", "a.csv", "--no-such-option"],
        ["study", "a.csv", "--seed", "one"],
        ["steer", "v.safetensors"],
        ["export", "v.safetensors"],
        ["systems", "--verb", "fly"],
        ["claims"],
        ["claims", "no-such-system"],
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments, capsys):
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_covec_alone_is_help(capsys):
    assert cli.run([]) == cli.run(["--help"]) == 0
    out, err = capsys.readouterr()
    half = len(out) // 2
    assert out[:half] == out[half:]
    assert out.startswith("Usage: covec")
    assert err == ""


@pytest.mark.parametrize(
    ("option", "value", "kind"), [("--max-kl", "loud", "number"), ("--max-new-tokens", "1.5", "integer")]
)
def test_a_refused_value_is_named(option, value, kind, capsys):
    assert cli.run(["steer", "v.safetensors", "--prompt", "a", option, value]) == 2
    assert capsys.readouterr().err == f"error: '{option}' cannot be '{value}': it should be a valid {kind}\n"


def test_every_command_has_help(capsys):
    for command in cli.app.registered_commands:
        name = command.callback.__name__
        assert cli.run([name, "--help"]) == 0
        out, err = capsys.readouterr()
        assert command.callback.__doc__.splitlines()[0].split(":")[0] in " ".join(out.split())
        assert err == ""


def test_a_closed_pipe_is_no_fault():
    code = "import sys; from covec.cli import run; sys.exit(run(['systems', '--json']))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("arguments", [["models"], ["detect", "--text", "a", "--vector", "/nowhere/v.safetensors"]])
def test_a_working_folder_that_is_gone_is_told_in_one_line(tmp_path, arguments):
    code = f"import os, covec.cli; os.rmdir({str(tmp_path)!r}); covec.cli.main({arguments!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the working folder is gone: change to one that exists, for example with: cd\n"
