"""Peers in environments of their own: built once, each run by a process that loads once and then answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from race import Arrays, Seconds

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS = HERE / "peers"
QUIET = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def environment(peer: str) -> Path:
    """Where a peer's environment is, or will be."""
    return ROOT / f".venv-bench-{peer}"


def build(peer: str) -> None:
    """Make a peer's environment where it is not there or its requirements have changed; what fails is kept as told."""
    home, wanted = environment(peer), (PEERS / "common.txt").read_text() + (PEERS / f"{peer}.txt").read_text()
    built, failed = home / "built", home / "failed"
    if built.is_file() and built.read_text() == wanted:
        return
    shutil.rmtree(home, ignore_errors=True)
    print(f"building the environment of {peer}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    common = ["--constraint", ROOT / "constraints.txt", "--requirement", PEERS / "common.txt"]
    for step in (common, ["--no-deps", "--requirement", PEERS / f"{peer}.txt"]):
        done = subprocess.run([*pip, *step], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            told = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
            failed.write_text(told[-1] if told else "pip failed")
            return
    built.write_text(wanted)


class WorkerError(Exception):
    """What ended a peer's process."""


class Worker:
    """A process in a peer's environment with the tasks of benchmarks/peers/SCRIPT.py (PEER.py); a scope ends it.

    One that cannot be started is `absent`, with the reason; so are its tasks.
    """

    def __init__(self, peer: str, settings: dict[str, Any], script: str | None = None) -> None:
        self.peer, self.settings = peer, settings
        self.script = PEERS / f"{(script or peer).replace('-', '_')}.py"
        self.absent: str | None = None
        self.version = ""
        self.tasks: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it lasts as long as the worker

    def __enter__(self) -> Worker:
        home = environment(self.peer)
        if not (home / "built").is_file():
            reason = (home / "failed").read_text() if (home / "failed").is_file() else "its environment is not built"
            self.absent = f"not installed: {reason}"
            return self
        self._process = subprocess.Popen(
            [home / "bin" / "python", "-P", HERE / "worker.py", self.script],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True,
            env={**os.environ, **QUIET, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            told = self.ask(settings=self.settings)
            self.version, self.tasks = told["version"], told["tasks"]
        except WorkerError as error:
            self.absent = f"does not start: {error}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait()

    def ask(self, **asked: Any) -> dict[str, Any]:
        """The answer to one request; a process that ended instead raises with the last line that it left."""
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        if line := self._process.stdout.readline():
            return json.loads(line)
        code = self._process.wait()
        self._complaints.seek(0)
        told = self._complaints.read().strip().splitlines()
        raise WorkerError(told[-1] if told else f"its process ended with code {code}")


class Remote:
    """One task of a worker."""

    def __init__(self, name: str, worker: Worker, task: str) -> None:
        self.name, self.worker, self.task = name, worker, task

    @property
    def absent(self) -> str | None:
        """Why it does not take part."""
        return self.worker.absent or (None if self.task in self.worker.tasks else "has no such thing")

    def result(self) -> Arrays:
        with tempfile.TemporaryDirectory() as folder:
            try:
                self.worker.ask(result=self.task, to=f"{folder}/result.npz")
            except WorkerError as error:
                self.worker.absent = f"breaks off: {error}"
                return {}
            with np.load(f"{folder}/result.npz") as file:
                return dict(file)

    def time(self) -> Seconds:
        told = self.worker.ask(time=self.task)
        return Seconds(told["cpu"], told["wall"])


def versions(workers: Iterable[Worker]) -> dict[str, str]:
    """The versions of the peers that take part."""
    return {worker.peer: worker.version for worker in workers if worker.version}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        build(name)
