"""A peer's process: its results and times, and what is told of one that is missing or breaks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))  # where the races import each other from

import workers

PEER = """
import numpy
print("a peer may print")
PACKAGE = "numpy"
def load(settings):
    def broken():
        raise ValueError("two lines\\nof complaint")
    return {"double": lambda: {"rows": 2 * numpy.array(settings["rows"])}, "broken": broken}
"""


@pytest.fixture
def peer(tmp_path, monkeypatch):
    """A peer in this very environment; returns where its script is."""
    (tmp_path / "environment").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (tmp_path / "environment" / part).symlink_to(Path(sys.prefix) / part)
    (tmp_path / "environment" / "built").touch()
    monkeypatch.setattr(workers, "environment", lambda _: tmp_path / "environment")
    monkeypatch.setattr(workers, "PEERS", tmp_path)
    (tmp_path / "a_peer.py").write_text(PEER)
    return tmp_path / "a_peer.py"


def test_tasks_give_results_and_times(peer):
    with workers.Worker("a-peer", {"rows": [1.0, 2.0]}) as worker:
        double = workers.Remote("a-peer", worker, "double")
        assert double.absent is None
        np.testing.assert_array_equal(double.result()["rows"], [2, 4])
        assert double.time().cpu >= 0
        assert workers.versions([worker]) == {"a-peer": np.__version__}
        assert workers.Remote("a-peer", worker, "triple").absent == "has no such thing"
        broken = workers.Remote("a-peer", worker, "broken")
        assert broken.result() == {}
        assert broken.absent == "breaks off: of complaint"


def test_one_that_does_not_start_is_absent(peer):
    peer.write_text("import no_such_package")
    with workers.Worker("a-peer", {}) as worker:
        assert worker.absent == "does not start: ModuleNotFoundError: No module named 'no_such_package'"
        assert workers.versions([worker]) == {}


def test_one_that_is_not_built_is_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "environment", lambda _: tmp_path)
    with workers.Worker("a-peer", {}) as worker:
        assert worker.absent == "not installed: its environment is not built"
    (tmp_path / "failed").write_text("no such release")
    with workers.Worker("a-peer", {}) as worker:
        assert worker.absent == "not installed: no such release"


def test_an_environment_is_built_once_and_failures_are_kept(tmp_path, monkeypatch):
    home, commands = tmp_path / "environment", []

    def run(command, **_):
        commands.append(command)
        home.mkdir(exist_ok=True)
        failed = "--no-deps" in command and "nothing\n" in (tmp_path / "a-peer.txt").read_text()
        told = "WARNING: slow\nERROR: No matching distribution found for nothing\n" if failed else ""
        return subprocess.CompletedProcess(command, int(failed), stderr=told)

    monkeypatch.setattr(workers.subprocess, "run", run)
    monkeypatch.setattr(workers, "PEERS", tmp_path)
    monkeypatch.setattr(workers, "environment", lambda _: home)
    (tmp_path / "common.txt").write_text("torch\n")
    (tmp_path / "a-peer.txt").write_text("nothing\n")
    workers.build("a-peer")
    assert (home / "failed").read_text() == "No matching distribution found for nothing"
    (tmp_path / "a-peer.txt").write_text("something\n")
    workers.build("a-peer")
    assert (home / "built").exists()
    assert not (home / "failed").exists()
    before = len(commands)
    workers.build("a-peer")
    assert len(commands) == before == 6
