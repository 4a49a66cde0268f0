"""The cores that CPU shares are made of: which hardware threads share one, and which cores are equally fast."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpubench.telemetry.cgroup import CpuGroups, cpus

CPUS = "sys/devices/system/cpu"
# Cores of one kind differ a little: the highest clock of a favoured core is up to a tenth higher. An efficiency core
# reaches three quarters of a performance core's clock at most.
LIKE = 0.8


@dataclass(frozen=True)
class Cores:
    """Usable cores as their hardware threads. `other` are those that are slower, or have fewer threads, than `like`."""

    like: list[tuple[int, ...]]
    other: list[tuple[int, ...]]


def usable_cpus(root: Path = Path("/")) -> list[int]:
    """The logical CPUs that this process may use: fewer than the machine's under taskset or in a cpuset."""
    mine = os.sched_getaffinity(0)
    cpuset = CpuGroups(root).limits().cpuset
    return sorted(mine if cpuset is None else mine & cpuset or mine)


def usable_cores(root: Path = Path("/")) -> Cores:
    """The usable cores of the fastest kind, which equal shares can be made of, and the others.

    The kernel lists the threads of each core. `core_id` does not tell cores apart: it counts anew in each cluster.
    """
    usable = set(usable_cpus(root))
    found = sorted({tuple(sorted(_siblings(root, cpu) & usable | {cpu})) for cpu in usable})
    speeds = {core: _speed(root, core[0]) for core in found}
    marked = _performance_cpus(root)
    if marked and any(marked.issuperset(core) for core in found):
        fast = [core for core in found if marked.issuperset(core)]
    else:
        known = [speed for speed in speeds.values() if speed is not None]
        least = LIKE * max(known, default=0)
        fast = [core for core in found if (speed := speeds[core]) is None or speed >= least]
    most_threads = max(len(core) for core in fast)
    like = [core for core in fast if len(core) == most_threads]
    return Cores(like, [core for core in found if core not in like])


def _siblings(root: Path, cpu: int) -> frozenset[int]:
    """All hardware threads of a CPU's core; the CPU alone where the kernel does not say."""
    for name in ("thread_siblings_list", "core_cpus_list"):  # one file, by its older and its newer name
        try:
            return cpus((root / CPUS / f"cpu{cpu}/topology/{name}").read_text())
        except (OSError, ValueError):
            continue
    return frozenset({cpu})


def _performance_cpus(root: Path) -> frozenset[int]:
    """Of a hybrid Intel CPU, its performance cores; empty elsewhere."""
    try:
        return cpus((root / "sys/devices/cpu_core/cpus").read_text())
    except (OSError, ValueError):
        return frozenset()


def _speed(root: Path, cpu: int) -> int | None:
    """What the kernel says of a CPU's speed against the others': its capacity (arm64), or else its highest clock."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int((root / CPUS / f"cpu{cpu}" / name).read_text())
        except (OSError, ValueError):
            continue
    return None
