"""The command line: `covec COMMAND`, one file a group of commands.

Results go to stdout (with `--json` exactly one JSON document), all else to stderr. Exit codes: 0; 1 where a claim
or check failed; 2 where the input was wrong, with one line that says what and how to mend it; 130 where it was
interrupted.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Sequence

import typer

from covec.cli import bench, capture, catalog, demo, detect, doctor, explain, models, name, steer, study, vectors
from covec.errors import CovecError, one_line
from covec.models.hardware import out_of_memory, set_thread_policy

_INTERRUPTED = 130

app = typer.Typer(
    name="covec",
    help="One workbench for concept vectors: find them, prove them, see them, steer with them.",
    add_completion=False,
    rich_markup_mode=None,  # plain help starts twice as fast
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for function in (
    study.study,
    detect.detect,
    steer.steer,
    bench.bench,
    name.name,
    explain.explain,
    capture.capture,
    vectors.export,
    vectors.compare,
    catalog.systems,
    catalog.claims,
    models.models,
    doctor.doctor,
    demo.demo,
):
    app.command()(function)


@app.callback(invoke_without_command=True)
def _covec(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from covec import __version__

        print(__version__)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave no partial file when told to stop
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code."""
    _prepare()
    try:
        os.getcwd()
    except OSError:  # libraries of native code end the process without it
        return _fail("the working folder is gone: change to one that exists, for example with: cd")
    try:
        code = int(app(list(arguments) or ["--help"], prog_name="covec", standalone_mode=False) or 0)
        if code == _INTERRUPTED:
            print("interrupted", file=sys.stderr)
        return code
    except (CovecError, typer.TyperException) as error:
        return _fail(_refusal(error) if isinstance(error, typer.TyperException) else str(error))
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return _fail("out of memory; lower the batch budget, for example --batch-tokens 256, or name fewer --sites")


def _prepare() -> None:
    """Quiet the libraries and let idle threads sleep; all of it before torch is imported."""
    set_thread_policy()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.simplefilter("ignore", FutureWarning)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {one_line(str(message))}", file=sys.stderr)
    logger = logging.getLogger("covec")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.INFO)


def _refusal(error: typer.TyperException) -> str:
    """What was wrong with an option, and the value it was given, which typer leaves out."""
    faults = getattr(error.__cause__, "errors", None)
    if not isinstance(error, typer.BadParameter) or error.param is None or faults is None:
        context = getattr(error, "ctx", None)
        told = error.format_message().rstrip(".")
        return told if context is None else f"{told}; see {context.command_path} --help"
    fault = faults()[0]
    reason = fault["msg"].partition(", ")[0].replace("Input", "it", 1)
    return f"{error.param.get_error_hint()} cannot be {fault['input']!r}: {reason}"


def _fail(message: str) -> int:
    print(f"error: {one_line(message)}", file=sys.stderr)
    return 2
