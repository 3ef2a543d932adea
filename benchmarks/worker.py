"""The far end of a `Worker`: a peer's tasks, in the peer's environment, asked for by JSON lines.

Usage: python -P worker.py PEER.py   (started by workers.py, not by hand)

PEER.py defines PACKAGE, the name of its distribution, and `load(settings) -> {task: function}`; each function computes
all anew and returns arrays by name. What a peer raises ends the process; its last line says why.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from importlib.metadata import version


def main(file: str) -> None:
    """Serve until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # peers print; only answers may go where answers are read
    import torch

    torch.set_num_threads(1)
    tasks: dict = {}
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line), tasks, file)), file=answers, flush=True)


def answer_to(asked: dict, tasks: dict, file: str) -> dict:
    """Load the tasks, time one of them, or write what one gives to a file."""
    if "settings" in asked:
        spec = importlib.util.spec_from_file_location("peer", file)
        peer = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(peer)
        tasks.update(peer.load(asked["settings"]))
        return {"tasks": list(tasks), "version": version(peer.PACKAGE)}
    if "result" in asked:
        import numpy

        numpy.savez(asked["to"], **tasks[asked["result"]]())
        return {}
    wall, cpu = time.perf_counter(), time.process_time()
    tasks[asked["time"]]()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


if __name__ == "__main__":
    main(sys.argv[1])
