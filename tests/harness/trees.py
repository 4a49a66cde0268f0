"""Trees of /proc and /sys as kernels show them, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

V2 = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1_CPU = "30 29 0:27 {root} /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct"
V1_CPUSET = "31 29 0:28 {root} /sys/fs/cgroup/cpuset ro,nosuid - cgroup cgroup rw,cpuset"


def write(root: Path, files: Mapping[str, str]) -> Path:
    """The files under `root`, each with a newline at its end, as the kernel's have."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def stat(periods: int, throttled: int, seconds: float, version: int = 2) -> str:
    """`cpu.stat` of a group with a quota."""
    time = f"throttled_usec {seconds * 1e6:.0f}" if version == 2 else f"throttled_time {seconds * 1e9:.0f}"
    return f"nr_periods {periods}\nnr_throttled {throttled}\n{time}"


def version_2(root: Path, group: str, files: Mapping[str, str], mount: str = V2) -> Path:
    """A process in a group of version 2; `files` are below /sys/fs/cgroup."""
    processes = {
        "proc/self/cgroup": f"0::{group}",
        "proc/self/mountinfo": f"21 1 8:1 / / rw - ext4 /dev/root rw\n{mount}",
    }
    return write(root, processes | {f"sys/fs/cgroup/{name}": text for name, text in files.items()})


def version_1(root: Path, group: str, files: Mapping[str, str], mounted: str = "/") -> Path:
    """A process in groups of version 1, of whose hierarchies the group `mounted` lies at the mount point."""
    mounts = "\n".join(line.format(root=mounted) for line in (V1_CPU, V1_CPUSET))
    processes = {
        "proc/self/cgroup": f"8:cpuset:{group}\n4:cpu,cpuacct:{group}\n1:name=systemd:{group}\n0::{group}",
        "proc/self/mountinfo": mounts,
    }
    return write(root, processes | {f"sys/fs/cgroup/{name}": text for name, text in files.items()})


def cores(root: Path, *threads: str, **files: Mapping[int, str]) -> Path:
    """Logical CPUs 0, 1, …, each with its `thread_siblings_list`, as given.

    `core_id="0 0 1"` and the like are further files, their double underscores standing for a slash; a value for each.
    """
    found = {f"cpu{cpu}/topology/thread_siblings_list": listed for cpu, listed in enumerate(threads)}
    for name, values in files.items():
        found |= {f"cpu{cpu}/{name.replace('__', '/')}": value for cpu, value in values.items()}
    found["online"] = f"0-{len(threads) - 1}"
    return write(root, {f"sys/devices/system/cpu/{name}": text for name, text in found.items()})
