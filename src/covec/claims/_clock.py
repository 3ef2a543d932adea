"""What work costs, in a way that busy neighbours change little: processor time on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Within the block torch computes on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time that `work` takes."""
    begun = time.process_time()
    work()
    return time.process_time() - begun
