"""What a report of a fault needs: versions, and what the machine computes with."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version


def show_versions() -> None:
    """Print the versions of covec, Python and all that covec needs, the device that `auto` takes, and its numbers."""
    facts = list(_facts())
    width = max(len(name) for name, _ in facts)
    print("\n".join(f"{name:<{width}}  {value}" for name, value in facts))


def _facts() -> Iterator[tuple[str, str]]:
    import torch

    from covec.models.hardware import choose_device, multiplies_bfloat16

    device = choose_device()
    yield "covec", version("covec")
    yield "python", platform.python_version()
    yield "platform", platform.platform()
    yield "device", f"{device}, {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)
    yield "bfloat16", "native" if multiplies_bfloat16(device) else "emulated: dtype auto is float32"
    yield "threads", str(torch.get_num_threads())
    for name in _needed():
        yield name, _version(name)


def _needed() -> list[str]:
    """The packages that covec needs, extras left out."""
    plain = [requirement for requirement in requires("covec") or () if "extra ==" not in requirement]
    return sorted(re.split(r"[^\w.-]", requirement)[0] for requirement in plain)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
