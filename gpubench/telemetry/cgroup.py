"""What the control groups of this process let it use of the CPUs, and how often they stopped it (Linux, v1 and v2).

A group's quota holds for all groups below it, so every level from this process's own group up to the highest that is
visible counts. In a container the levels above its own are usually hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

CONTROLLERS = ("cpu", "cpuset")


@dataclass(frozen=True)
class CpuLimits:
    """`quota_cores` is CPU time over wall time, None where there is no limit; `source` names the file that says so.

    `cpuset` holds the logical CPUs that the group may use, None where that is not known.
    """

    quota_cores: float | None = None
    source: str | None = None
    cpuset: frozenset[int] | None = None


@dataclass(frozen=True)
class Throttling:
    """How many of a group's scheduling periods there were, in how many it was stopped, and for how long.

    The time is the sum over the CPUs on which something waited.
    """

    periods: int
    throttled_periods: int
    throttled_seconds: float


class CpuGroups:
    """The control groups of this process. `root` is where /proc and /sys are found."""

    def __init__(self, root: Path = Path("/")) -> None:
        mounts = list(_mounts(root))
        self._levels = {name: list(_levels(root, mounts, name)) for name in CONTROLLERS}

    def limits(self) -> CpuLimits:
        """The lowest quota of all levels, and the cpuset."""
        quotas = [found for folder in self._levels["cpu"] if (found := _quota(folder)) is not None]
        cores, source = min(quotas, default=(None, None))
        return CpuLimits(cores, source, next(filter(None, map(_cpuset, self._levels["cpuset"])), None))

    def throttling(self) -> dict[Path, Throttling]:
        """What each level has counted so far; a level without a quota counts nothing."""
        return {folder: found for folder in self._levels["cpu"] if (found := _throttling(folder)) is not None}


def throttled_between(before: dict[Path, Throttling], after: dict[Path, Throttling]) -> Throttling | None:
    """What the level that stopped this process for longest counted in between; None where no quota was at work."""
    grown = [
        Throttling(
            now.periods - then.periods,
            now.throttled_periods - then.throttled_periods,
            now.throttled_seconds - then.throttled_seconds,
        )
        for folder, now in after.items()
        if (then := before.get(folder)) is not None
    ]
    return max((one for one in grown if one.periods > 0), key=lambda one: one.throttled_seconds, default=None)


def cpus(text: str) -> frozenset[int]:
    """The kernel's list '0-3,8' as numbers. ValueError where it is none."""
    found: set[int] = set()
    for span in filter(None, text.strip().split(",")):
        first, _, last = span.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return frozenset(found)


@dataclass(frozen=True)
class _Mount:
    """A mounted hierarchy: which group lies at its mount point, and whether it is of version 2 or has a controller."""

    group: PurePosixPath
    folder: Path
    controllers: frozenset[str] | None  # None is version 2, which has them all


def _mounts(root: Path) -> Iterator[_Mount]:
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        if len(words) < 5 or not kind or kind[0] not in ("cgroup", "cgroup2"):
            continue
        group, folder = (re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), word) for word in words[3:5])
        controllers = None if kind[0] == "cgroup2" else frozenset(kind[-1].split(","))
        yield _Mount(PurePosixPath(group), root / folder.lstrip("/"), controllers)


def _levels(root: Path, mounts: list[_Mount], controller: str) -> Iterator[Path]:
    """The folders of this process's groups that may limit it by a controller, its own first, in both versions."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        is_version_2 = number == "0" and not names
        if not is_version_2 and controller not in names.split(","):
            continue
        for mount in mounts:
            fits = mount.controllers is None if is_version_2 else controller in (mount.controllers or ())
            if fits:
                yield from _upwards(mount, PurePosixPath(path))
                break


def _upwards(mount: _Mount, group: PurePosixPath) -> Iterator[Path]:
    """From the group's folder up to the mount point; the mount point alone where the group lies outside of it."""
    inside = group.relative_to(mount.group) if group.is_relative_to(mount.group) else PurePosixPath()
    folder = mount.folder / inside if ".." not in inside.parts else mount.folder
    if not folder.is_dir():
        folder = mount.folder
    while folder != mount.folder:
        yield folder
        folder = folder.parent
    yield folder


def _quota(folder: Path) -> tuple[float, str] | None:
    """In cores, with the name of the file; None where there is no limit at this level."""
    words = _text(folder / "cpu.max").split()
    source = "cpu.max"
    if not words:
        words = [_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        source = "cpu.cfs_quota_us"
    try:
        quota, period = map(int, words)
    except ValueError:  # "max", or no such file
        return None
    return (quota / period, source) if quota > 0 and period > 0 else None


def _cpuset(folder: Path) -> frozenset[int] | None:
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        try:
            if found := cpus(_text(folder / name)):
                return found
        except ValueError:
            continue
    return None


def _throttling(folder: Path) -> Throttling | None:
    found = dict(line.split(maxsplit=1) for line in _text(folder / "cpu.stat").splitlines() if " " in line)
    try:
        seconds = (
            int(found["throttled_usec"]) / 1e6 if "throttled_usec" in found else int(found["throttled_time"]) / 1e9
        )
        return Throttling(int(found["nr_periods"]), int(found["nr_throttled"]), seconds)
    except (KeyError, ValueError):
        return None


def _text(path: Path) -> str:
    """Empty where the kernel has no such file, or does not let this user read it."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
