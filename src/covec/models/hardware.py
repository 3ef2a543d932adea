"""Where and how a model runs: device, dtype, and how threads wait.

The module imports torch only in the functions that need it: `set_thread_policy` must run before torch is imported.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from covec.errors import ModelError

if TYPE_CHECKING:
    import torch

# "bf16" alone is how Linux calls the instructions on ARM.
_NATIVE_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}


def set_thread_policy() -> None:
    """Let idle OpenMP threads sleep instead of spin, unless the user said otherwise; call it before importing torch.

    Threads that spin take the processor from any other busy process: a second one slowed two spinning threads by
    3 to 13 times, two sleeping ones by 3; on a quiet machine both are equally fast.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: each library has its own for that."""
    told = str(error).lower()
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"MemoryError", "OutOfMemoryError"}) or "out of memory" in told or "allocate memory" in told


def choose_device(device: str | torch.device = "auto") -> torch.device:
    """The device to load on: `auto` is the first CUDA device, else the processor.

    Raises
    ------
    ModelError
        Where there is no such device.
    """
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # AssertionError: torch without CUDA
        raise ModelError(f"no device {str(device)!r} here: use device='auto' or 'cpu'") from error
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The dtype to load in: `auto` is bfloat16 where `device` multiplies it natively, else float32.

    Raises
    ------
    ModelError
        Where `dtype` is no floating dtype of torch.
    """
    import torch

    if dtype == "auto":
        return torch.bfloat16 if multiplies_bfloat16(device) else torch.float32
    chosen = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(chosen, torch.dtype) or not chosen.is_floating_point:
        raise ModelError(f"no dtype {str(dtype)!r} to load in: use auto, float32, bfloat16 or float16")
    return chosen


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether `device` multiplies bfloat16 natively; emulated, it is slower than float32."""
    if device.type == "cuda":
        import torch

        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and bool(_NATIVE_BFLOAT16 & _processor_flags())


def hand_back_freed_memory() -> None:
    """Give the system back what was freed between things that stay, which glibc keeps for the process.

    Worth its milliseconds where much was freed: after a model was read or many rows were captured.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


@cache
def _processor_flags() -> frozenset[str]:
    if platform.system() == "Linux":
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        return frozenset(
            word for line in re.findall(r"^(?:flags|Features)\s*:(.*)", text, re.M) for word in line.split()
        )
    import torch

    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return frozenset(name for name, present in capabilities.items() if present is True)
