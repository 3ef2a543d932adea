"""No process that is killed, and none that writes at the same place, ever shows half a file or leaves litter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("task", "said"), [("kills", "writers killed"), ("crowd", "files read"), ("looks", "81 looks counted")]
)
def test_what_was_there_stays_whole_and_nothing_is_left_behind(tmp_path, task, said):
    program = subprocess.run(
        [sys.executable, TESTS / "hard_stops.py", task, tmp_path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
    )
    assert program.returncode == 0, program.stderr[-2000:]
    assert said in program.stdout
