"""Run races and write their page: the environments of their peers first, then each race in a process of its own.

Usage: python benchmarks/bench.py [RACE ...]   (`make bench`, `make bench RACE=capture`)

A race is a file of this folder with a `main`, listed here with its peers.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import page
import workers

from covec.writing import whole_file

HERE = Path(__file__).parent
RACES: dict[str, tuple[str, ...]] = {  # every race, with the peers whose environments it needs
    "capture": ("steering-vectors", "nnsight", "transformer-lens", "interp-engine"),
    "vectors": ("steering-vectors", "repeng"),
    "fits": (),
    "permutations": (),
    "steering": ("steering-vectors", "nnsight"),
    "startup": ("steering-vectors", "nnsight", "captum", "concept-erasure", "interp-engine"),
    "study": ("steering-vectors",),
}


def main(names: list[str]) -> int:
    """Exit code 1 where a race found unequal results or broke off; the page then keeps its former figures."""
    if strange := [name for name in names if name not in RACES]:
        print(f"no race {strange[0]!r}; there are {', '.join(RACES)}", file=sys.stderr)
        return 2
    chosen = names or list(RACES)
    for peer in dict.fromkeys(peer for name in chosen for peer in RACES[name]):
        workers.build(peer)
    broken = [name for name in chosen if subprocess.run([sys.executable, HERE / f"{name}.py"]).returncode]
    with whole_file(HERE.parent / "docs" / "benchmarks.md") as draft:
        draft.write_text(page.page(), encoding="utf-8")
    if broken:
        print(f"not finished: {', '.join(broken)}", file=sys.stderr)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
