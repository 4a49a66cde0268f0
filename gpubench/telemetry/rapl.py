"""The energy counters that Intel and AMD CPUs keep for each package, as Linux shows them (RAPL, powercap)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench.spec.case import share_id

READABLE = "`sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj` lets it be read until the next boot"


class Rapl:
    """The energy of a share's packages, if the share is all of them; else `reason` says why there is none."""

    def __init__(self, cores: Sequence[int], root: Path) -> None:
        self._zones: list[_Zone] = []
        self.reason: str | None = None
        try:
            packages = _packages(root)
            mine = {package for package, its_cores in packages.items() if its_cores & set(cores)}
            whole = set().union(*(packages[package] for package in mine))
            zones = [zone for zone in _zones(root) if zone.package in mine]
            if not zones:
                self.reason = "the kernel shows no RAPL energy counter for these cores"
            elif whole != set(cores):
                self.reason = (
                    f"RAPL counts whole packages ({share_id(tuple(whole))}), and this share is only a part of that"
                )
            else:
                self._zones = zones
                self.joules()
        except PermissionError:
            self.reason = f"the RAPL energy counter is readable by root only; {READABLE}"
        except (OSError, ValueError) as error:
            self.reason = f"the RAPL energy counter could not be read: {error}"

    def joules(self) -> float:
        """Grows from 0 at the first call; the counters' wraps are taken out. OSError where one cannot be read."""
        return sum(zone.grow() for zone in self._zones) / 1e6


@dataclass
class _Zone:
    """One counter, in microjoules, which starts again from 0 after `range_uj`."""

    folder: Path
    package: int
    range_uj: int
    last_uj: int | None = None
    grown_uj: int = 0

    def grow(self) -> int:
        now_uj = int((self.folder / "energy_uj").read_text())
        if self.last_uj is not None:
            step_uj = now_uj - self.last_uj
            self.grown_uj += step_uj if step_uj >= 0 else step_uj + self.range_uj
        self.last_uj = now_uj
        return self.grown_uj


def _zones(root: Path) -> list[_Zone]:
    """The package counters; a package of several dies has one for each ("package-0-die-1")."""
    zones = []
    for folder in sorted((root / "sys/class/powercap").glob("intel-rapl:*")):
        name = re.match(r"package-(\d+)", (folder / "name").read_text())
        if name and folder.name.count(":") == 1:  # intel-rapl:0:1 is a part of intel-rapl:0
            zones.append(_Zone(folder, int(name[1]), int((folder / "max_energy_range_uj").read_text())))
    return zones


def _packages(root: Path) -> dict[int, set[int]]:
    """The online cores of each package."""
    packages: dict[int, set[int]] = {}
    for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id"):
        packages.setdefault(int(path.read_text()), set()).add(int(path.parts[-3][3:]))
    return packages
