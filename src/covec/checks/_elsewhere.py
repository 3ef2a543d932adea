"""What a concept vector's file is to another process, which has nothing but the file.

Run as a module it answers requests, one a line, until there are no more: a file of vectors, a file of rows and a file
for the answer. One such process serves all checks, for starting it costs more than everything that it does.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor

from covec.concepts.bank import load_vector
from covec.errors import CovecError


@dataclass(frozen=True)
class Elsewhere:
    """A vector's direction [d] and the scores of some rows [n], as another process has them."""

    direction: Float[Tensor, "d"]
    scores: Float[Tensor, "n"]


def read_elsewhere(path: Path, rows: Float[Tensor, "n d"]) -> Elsewhere:
    """Load the vector in `path` in another process and score `rows` there."""
    process = _process()
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "rows", Path(folder) / "answer"
        save_file({"rows": rows}, given)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([str(path), str(given), str(answer)]) + "\n")
        process.stdin.flush()
        said = process.stdout.readline().strip()
        assert said == "done", f"another process could not read the file: {said or 'it ended'}"
        return Elsewhere(**load_file(answer))


@cache
def _process() -> subprocess.Popen[str]:
    """The other process, which ends with this one."""
    command = [sys.executable, "-m", __name__]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)
    return process


def _answer(path: str, given: str, answer: str) -> None:
    vector = load_vector(path)
    rows = load_file(given)["rows"].clone()  # BLAS rounds in another way where memory is not aligned
    save_file({"direction": vector.direction, "scores": vector.score(rows)}, answer)


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            _answer(*json.loads(line))
            print("done", flush=True)
        except CovecError as error:
            print(error, flush=True)
