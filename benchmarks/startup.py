"""The race of start-up: a new process each time that imports a package, or answers on the command line, and ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import workers
from race import Heat, Seconds, Wanted, race

PEERS = {  # package and what a user of it imports
    "steering-vectors": "steering_vectors",
    "nnsight": "nnsight",
    "captum": "captum.concept",
    "concept-erasure": "concept_erasure",
    "interp-engine": "interp_engine",
}
STUDY = "from covec.models.text import TextModel; from covec.studies import study"
COVEC = Path(sys.executable).with_name("covec")
ABOUT = """Processor time of a whole new process, Python's own start included, with all files in memory and compiled:
each has run once before. covec imports what a name needs when it is first used, so that its import is not all that it
will cost; *covec, study* has imported all that a study works with, PyTorch and transformers among it."""


def main() -> None:
    """Imports, then the command line."""
    heats = [
        Heat(
            "import",
            [Process("import covec", sys.executable, "-c", "import covec")],
            0,
            beside=[
                Process("covec, study", sys.executable, "-c", STUDY),
                *(Process(f"import {name}", _python(peer), "-c", f"import {name}") for peer, name in PEERS.items()),
                Process("import torch", sys.executable, "-c", "import torch"),
                Process("python", sys.executable, "-c", "pass"),
            ],
            wanted=[Wanted("import covec", at_most=0.25)],
        ),
        Heat(
            "command line",
            [Process("covec --help", COVEC, "--help")],
            0,
            beside=[
                Process("covec study --help", COVEC, "study", "--help"),
                Process("covec --version", COVEC, "--version"),
            ],
            wanted=[Wanted("covec --help", at_most=0.3)],
        ),
    ]
    race("startup", "Start-up", ABOUT, heats, {peer: _version(peer) for peer in PEERS})


def _python(peer):
    return workers.environment(peer) / "bin" / "python"


def _version(peer):
    wanted = (workers.PEERS / f"{peer}.txt").read_text().splitlines()
    return next(line.partition("==")[2] for line in wanted if line.startswith(f"{peer}=="))


class Process:
    """A command in a process of its own; the result is its exit code, which is 0 or ends the race."""

    def __init__(self, name, *command) -> None:
        self.name, self.command = name, [str(part) for part in command]
        self.absent = None if Path(self.command[0]).exists() else "its environment is not built"

    def result(self):
        """Nothing to compare; what fails takes no part."""
        done = subprocess.run(self.command, capture_output=True, text=True, env=self._variables())
        if done.returncode:
            self.absent = f"breaks off: {done.stderr.strip().splitlines()[-1]}"
        return {}

    def time(self) -> Seconds:
        """Of the process alone, as the system counts it."""
        begun = time.perf_counter()
        with open(os.devnull, "w") as nowhere:
            process = subprocess.Popen(self.command, stdout=nowhere, stderr=nowhere, env=self._variables())
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        return Seconds(used.ru_utime + used.ru_stime, time.perf_counter() - begun)

    def _variables(self):
        return {**os.environ, **workers.QUIET}


if __name__ == "__main__":
    main()
