"""What work costs: processor time, and how much memory the process took for it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from covec.models.hardware import hand_back_freed_memory

Result = TypeVar("Result")
_SELF = Path("/proc/self")
_RESET = "5"  # to clear_refs: the peak begins anew (man 5 proc)


class Cost(NamedTuple):
    """Processor seconds, and megabytes of memory at the peak above those at the start; None where nobody tells."""

    seconds: float
    megabytes: float | None


def metered(work: Callable[[], Result]) -> tuple[Result, Cost]:
    """What `work` gives, and what it cost."""
    hand_back_freed_memory()  # what was freed before would be taken without being counted
    with suppress(OSError):
        (_SELF / "clear_refs").write_text(_RESET)
    before, begun = _megabytes("VmRSS"), time.process_time()
    result = work()
    seconds, peak = time.process_time() - begun, _megabytes("VmHWM")
    return result, Cost(seconds, None if before is None or peak is None else max(0.0, peak - before))


def _megabytes(name: str) -> float | None:
    """A line of Linux's account of this process; None elsewhere."""
    with suppress(OSError):
        found = re.search(rf"^{name}:\s+(\d+) kB", (_SELF / "status").read_text(), re.MULTILINE)
        return int(found[1]) / 1000 if found else None
    return None
