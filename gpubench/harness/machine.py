"""What this machine is, and which devices it has: GPUs that NVML or AMD SMI sees, else CPU shares."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from gpubench.harness.cores import usable_cores, usable_cpus
from gpubench.spec.case import Device, share_id
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Machine, RunRecord
from gpubench.telemetry import amd, nvml, signs
from gpubench.telemetry.cgroup import CpuGroups, cpus

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CONTAINER_MARKS = (".dockerenv", "run/.containerenv", "run/systemd/container")
GENERATED = re.compile(r"[0-9a-f]{12}")


def describe(name: str | None = None, root: Path = Path("/")) -> Machine:
    """This machine with its GPUs, NVIDIA's first. Why a vendor's could not be read is kept beside them.

    `name` is the one that the user gives it, None for its host name. UsageError where it is unfit. `root` is where
    /proc and /sys are found.
    """
    if name is not None and not NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a machine: use letters, digits, '.', '_' and '-' (up to 100).")
    view = nvml.discover(whole=False)
    amd_view = amd.discover() or amd.AmdView(reason=signs.without_amdsmi())
    host = platform.node()
    limits = CpuGroups(root).limits()
    return Machine(
        name=name or host,
        name_from="given" if name else "container" if name_is_generated(host, root, os.environ) else "host",
        os=f"{platform.system()} {platform.release()}",
        cpu=_cpu_model(root),
        cores=len(usable_cpus(root)),
        cpu_quota_cores=limits.quota_cores,
        cpu_quota_source=limits.source,
        cpuset=_narrower(limits.cpuset, root),
        memory_bytes=psutil.virtual_memory().total,
        devices=view.devices + amd_view.devices,
        driver=view.driver or amd_view.driver,
        cuda=view.cuda,
        nvml_reason=view.reason,
        amd_reason=amd_view.reason,
        gpu_refusal=view.refusal,
    )


def named_as(machine: Machine, records: Sequence[RunRecord]) -> Machine:
    """The machine by the name that a run to be continued was given, where it was given one."""
    given = next((record.machine.name for record in records if record.machine.name_from == "given"), None)
    return machine if given is None else replace(machine, name=given, name_from="given")


def name_is_generated(host: str, root: Path, environment: Mapping[str, str]) -> bool:
    """Whether a container's engine made this host name up, so that the next container of the kind has another.

    Docker and Podman take twelve digits of the container's id. In Kubernetes it is the name of the pod.
    """
    in_container = any((root / mark).exists() for mark in CONTAINER_MARKS) or "container" in environment
    return "KUBERNETES_SERVICE_HOST" in environment or (in_container and GENERATED.fullmatch(host) is not None)


def _narrower(cpuset: frozenset[int] | None, root: Path) -> str | None:
    """The cpuset as the kernel writes it; None where it holds all CPUs that are online."""
    try:
        online = cpus((root / "sys/devices/system/cpu/online").read_text())
    except (OSError, ValueError):
        return None
    return None if cpuset is None or cpuset >= online else share_id(tuple(cpuset)).partition(" ")[2]


def device_kind(asked: str, machine: Machine) -> str:
    """`gpu` where GPUs are seen, else `cpu`.

    UsageError where GPUs are asked for by name and there is none; or where there are some that no case can run on
    before somebody sets them up: to measure CPU shares in their place is left to those who ask for it.
    """
    if asked != "cpu" and not machine.devices and machine.gpu_refusal:
        raise UsageError(f"{machine.gpu_refusal}. Use --device-kind cpu to measure CPU shares.")
    if asked == "gpu" and not machine.devices:
        raise UsageError(f"No GPU was found: {no_gpu(machine)}. Use --device-kind cpu to measure CPU shares.")
    if asked == "auto":
        return "gpu" if machine.devices else "cpu"
    return asked


def no_gpu(machine: Machine) -> str:
    """Why this machine, on which no GPU is seen, has none to measure; never empty."""
    reasons = [reason for reason in (machine.nvml_reason, machine.amd_reason) if reason]
    return "; ".join(reasons) or "neither NVML nor AMD SMI shows one"


def fallback(asked: str, machine: Machine) -> str | None:
    """One line for a run that would take GPUs, and takes CPU shares as none is seen; None where it does not."""
    if asked != "auto" or machine.devices:
        return None
    return f"No GPU: {no_gpu(machine)}. Measuring CPU shares."


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
    """How many GPUs there are, or how many CPU shares of one core fit in the cores and in the CPU quota."""
    if kind == "gpu":
        return len(_gpus(machine))
    quota = machine.cpu_quota_cores
    return min(len(physical_cores()), _whole(quota) if quota is not None else sys.maxsize)


def lacking(kind: str, count: int, machine: Machine) -> str:
    """Why there are no `count` devices."""
    most = most_devices(kind, machine)
    quota = machine.cpu_quota_cores
    why = ""
    if kind == "cpu" and quota is not None and most == _whole(quota) < count:
        shares = "a CPU share needs" if count == 1 else f"{count} CPU shares need"
        cores = f"{count} core{'s' if count > 1 else ''}"
        why = f": {shares} a CPU quota of {cores}, and {machine.cpu_quota_source or 'the quota'} allows {quota:g}"
    elif kind == "cpu" and (unlike := usable_cores().other):
        why = f": {len(unlike)} other core{'s are' if len(unlike) > 1 else ' is'} slower or cut, and no equal share"
    return f"needs {count} device{'s' if count > 1 else ''}, {most} found{why}"


def devices(kind: str, largest_count: int, machine: Machine) -> list[Device]:
    """The devices to take cases' from, always in this order: all GPUs, or `largest_count` equal CPU shares.

    A share is a disjoint set of physical cores of one kind, the same size at every device count, with all their
    hardware threads: each thread needs a core's worth of the CPU quota, where there is one. Only where the quota is
    too low for a whole core does a share have fewer of its threads. UsageError where the shares do not fit.
    """
    if kind == "gpu":
        return _gpus(machine)
    if largest_count == 0:
        return []
    cores = physical_cores()
    if largest_count > most_devices(kind, machine):
        raise UsageError(f"CPU shares: {lacking(kind, largest_count, machine)}.")
    threads, per_share = len(cores[0]), len(cores) // largest_count
    if machine.cpu_quota_cores is not None:
        cpus_of_share = _whole(machine.cpu_quota_cores / largest_count)
        per_share = min(per_share, max(1, cpus_of_share // threads))
        threads = min(threads, cpus_of_share)
    shares = [cores[i * per_share : (i + 1) * per_share] for i in range(largest_count)]
    used = [tuple(sorted(thread for core in share for thread in core[:threads])) for share in shares]
    name = f"CPU share of {per_share} core{'s' if per_share > 1 else ''}"
    if threads < len(cores[0]):
        name = f"CPU share of {threads} of the {len(cores[0])} threads of a core"
    return [Device(kind="cpu", id=share_id(t), name=name, cores=t) for t in used]


def physical_cores() -> list[tuple[int, ...]]:
    """Usable hardware threads by the core that they share; of unlike cores, those of the fastest kind alone."""
    return usable_cores().like


def _whole(cores: float) -> int:
    """Whole cores of a quota: 299,999 of 100,000 microseconds are meant as three."""
    return int(cores + 0.001)


def _gpus(machine: Machine) -> list[Device]:
    """One vendor's, as no case runs on GPUs of two: NVIDIA's where there are any."""
    return [device for device in machine.devices if device.vendor == machine.devices[0].vendor]


def _cpu_model(root: Path) -> str:
    """As the kernel names it; on arm64 by its implementer and part, since there is no name."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    if "model name" in found:
        return found["model name"]
    if "CPU implementer" in found and "CPU part" in found:
        return f"{platform.machine()} {found['CPU implementer']} {found['CPU part']}"
    return platform.processor() or platform.machine()
