"""Who holds a context on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpubench.spec.record import GpuProcess
from gpubench.telemetry.nvml import binding


def compute_processes(handle: Any) -> list[GpuProcess]:
    nvml = binding()
    try:
        found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except Exception:  # R510 and newer have it; where it is missing, the binding raises what is no NVMLError
        found = nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)
    return as_processes(found)


def as_processes(found: Sequence[Any]) -> list[GpuProcess]:
    # R535.43 to 535.86 scrambled the list: such numbers are no processes.
    return [GpuProcess(pid=one.pid, memory_bytes=one.usedGpuMemory) for one in found if one.pid not in (0, 2**32 - 1)]
