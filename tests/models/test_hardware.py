from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from covec.errors import ModelError
from covec.models import hardware
from covec.models.hardware import choose_device, choose_dtype, multiplies_bfloat16

CPU = torch.device("cpu")


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch):
    """Sets the instructions that the processor is said to have."""
    return lambda *flags: monkeypatch.setattr(hardware, "_processor_flags", lambda: frozenset(flags))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("avx2", "avx512f", "avx512bw"), torch.float32),
        (("avx512f", "avx512_bf16"), torch.bfloat16),
        (("avx512f", "amx_tile", "amx_bf16"), torch.bfloat16),
        (("asimd", "sve", "bf16"), torch.bfloat16),
        ((), torch.float32),
    ],
)
def test_bfloat16_is_chosen_only_where_it_is_native(processor, flags, expected):
    processor(*flags)
    assert choose_dtype("auto", CPU) == expected


@pytest.mark.parametrize("native", [True, False])
def test_a_cuda_device_is_asked_itself(monkeypatch, processor, native):
    processor("avx512_bf16")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native and not including_emulation)
    assert multiplies_bfloat16(torch.device("cuda")) is native
    assert not multiplies_bfloat16(torch.device("mps"))


@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc/cpuinfo")
def test_the_flags_of_this_processor_are_found():
    flags = hardware._processor_flags()
    assert flags
    assert ("avx512_bf16" in flags) == (" avx512_bf16" in Path("/proc/cpuinfo").read_text())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", torch.float32])
def test_a_named_dtype_is_taken(dtype):
    assert choose_dtype(dtype, CPU) == (getattr(torch, dtype) if isinstance(dtype, str) else dtype)


@pytest.mark.parametrize("dtype", ["int8", "float3", "Tensor", "", torch.int64])
def test_what_is_no_floating_dtype_is_refused(dtype):
    with pytest.raises(ModelError, match=r"no dtype .*use auto"):
        choose_dtype(dtype, CPU)


def test_the_device_is_the_processor_where_there_is_no_other(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == CPU
    assert choose_device("cpu") == CPU
    assert choose_device(CPU) == CPU


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "", "tpu:x"])
def test_an_absent_device_is_refused(device):
    with pytest.raises(ModelError, match=r"no device .* here"):
        choose_device(device)


def _policy_in_a_new_process(**environment: str) -> list[str]:
    code = (
        "import os, sys; from covec.models.hardware import set_thread_policy; set_thread_policy();"
        "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    clean = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"} | environment
    return subprocess.run(
        [sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True
    ).stdout.split()


def test_threads_are_told_to_sleep_before_torch_is_imported():
    assert _policy_in_a_new_process() == ["PASSIVE", "False"]


def test_the_users_thread_policy_is_kept():
    assert _policy_in_a_new_process(OMP_WAIT_POLICY="ACTIVE") == ["ACTIVE", "False"]
