"""What this machine is, and which devices it has: GPUs that NVML or AMD SMI sees, else CPU shares."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

from gpubench.spec.case import Device, share_id
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Machine
from gpubench.telemetry import amd, nvml


def describe() -> Machine:
    """This machine with its GPUs, NVIDIA's first. Why a vendor's could not be read is kept beside them."""
    view, amd_view = nvml.discover(), amd.discover() or amd.AmdView()
    return Machine(
        name=platform.node(),
        os=f"{platform.system()} {platform.release()}",
        cpu=_cpu_model(),
        cores=len(usable_cores()),
        memory_bytes=psutil.virtual_memory().total,
        devices=view.devices + amd_view.devices,
        driver=view.driver or amd_view.driver,
        cuda=view.cuda,
        nvml_reason=view.reason,
        amd_reason=amd_view.reason,
    )


def usable_cores() -> list[int]:
    """The logical CPUs that this process may use: fewer than the machine's in a container or under taskset."""
    return sorted(os.sched_getaffinity(0))


def device_kind(asked: str, machine: Machine) -> str:
    """`gpu` where GPUs are seen, else `cpu`; a kind asked for by name is an error where it cannot be had."""
    if asked == "gpu" and not machine.devices:
        reasons = "; ".join(filter(None, (machine.nvml_reason, machine.amd_reason)))
        raise UsageError(f"No GPU was found: {reasons}. Use --device-kind cpu to measure CPU shares.")
    if asked == "auto":
        return "gpu" if machine.devices else "cpu"
    return asked


def environment_kind(machine: Machine) -> str:
    """The device kind that a managed environment is to be for. UsageError where none is made for these GPUs."""
    kind = device_kind("auto", machine)
    if kind == "gpu" and machine.devices[0].vendor == "amd":
        raise UsageError(
            "No environment is made for AMD GPUs: install PyTorch's ROCm build yourself, and name its Python with "
            "--python torch=PATH."
        )
    return kind


def most_devices(kind: str, machine: Machine) -> int:
    return len(_gpus(machine)) if kind == "gpu" else len(physical_cores())


def devices(kind: str, largest_count: int, machine: Machine) -> list[Device]:
    """The devices to take cases' from, always in this order: all GPUs, or `largest_count` equal CPU shares.

    A share is a disjoint set of physical cores with all their hardware threads, the same size at every device count.
    """
    if kind == "gpu":
        return _gpus(machine)
    cores = physical_cores()
    per_share = len(cores) // max(1, largest_count)
    if per_share == 0:
        raise UsageError(f"{largest_count} CPU shares need {largest_count} cores; this machine has {len(cores)}.")
    shares = [cores[i * per_share : (i + 1) * per_share] for i in range(largest_count)]
    threads = [tuple(sorted(thread for core in share for thread in core)) for share in shares]
    name = f"CPU share of {per_share} core{'s' if per_share > 1 else ''}"
    return [Device(kind="cpu", id=share_id(t), name=name, cores=t) for t in threads]


def _gpus(machine: Machine) -> list[Device]:
    """One vendor's, as no case runs on GPUs of two: NVIDIA's where there are any."""
    return [device for device in machine.devices if device.vendor == machine.devices[0].vendor]


def physical_cores() -> list[tuple[int, ...]]:
    """Usable hardware threads grouped by the core that they share."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for cpu in usable_cores():
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            key = tuple((topology / name).read_text().strip() for name in ("physical_package_id", "core_id"))
        except OSError:
            key = (str(cpu),)
        groups.setdefault(key, []).append(cpu)
    return sorted(tuple(group) for group in groups.values())


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
