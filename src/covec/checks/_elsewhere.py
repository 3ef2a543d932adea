"""What a concept vector's file is to a fresh process, which has nothing but the file.

Run as a module with a file of vectors, a file of rows and a file for the answer.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor

from covec.concepts.bank import load_vector


@dataclass(frozen=True)
class Elsewhere:
    """A vector's direction [d] and the scores of some rows [n], as another process has them."""

    direction: Float[Tensor, "d"]
    scores: Float[Tensor, "n"]


def read_elsewhere(path: Path, rows: Float[Tensor, "n d"]) -> Elsewhere:
    """Load the vector in `path` in a fresh process and score `rows` there."""
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "rows", Path(folder) / "answer"
        save_file({"rows": rows}, given)
        subprocess.run([sys.executable, "-m", __name__, path, given, answer], check=True)
        return Elsewhere(**load_file(answer))


if __name__ == "__main__":
    vector = load_vector(sys.argv[1])
    rows = load_file(sys.argv[2])["rows"].clone()  # BLAS rounds in another way where memory is not aligned
    save_file({"direction": vector.direction, "scores": vector.score(rows)}, sys.argv[3])
