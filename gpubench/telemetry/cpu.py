"""CPU shares through the kernel's own files: busy cores, host memory, frequency, RAPL energy, temperature (Linux)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from gpubench.spec.case import Device, share_id
from gpubench.spec.record import METRICS
from gpubench.telemetry.rapl import Rapl
from gpubench.telemetry.source import Gpm, Header, Sample

SLOW_READ_NS = 1_000_000_000  # memory, frequency and temperature: the kernel may take milliseconds to answer
FEWEST_TICKS = 4  # of 10 ms each: a share of fewer says little


class CpuSource:
    """Reads CPU shares by their cores. `root` is where /proc and /sys are found."""

    def __init__(self, devices: Sequence[Device], root: Path = Path("/")) -> None:
        self._shares: list[_Share] = []
        self._root = root
        self._slow_ns = self._memory_used_bytes = 0
        try:
            ticks = _read_ticks(root)
        except (OSError, ValueError) as error:
            self._header = Header(source="cpu", reason=f"the kernel's /proc/stat could not be read: {error}")
            return
        unavailable: dict[str, dict[str, str]] = {}
        for device in devices:
            if absent := set(device.cores) - set(ticks):
                reason = f"this machine has no {share_id(tuple(absent))}"
                unavailable[device.id] = dict.fromkeys(METRICS, reason)
                continue
            share = _Share(device, root, ticks)
            self._shares.append(share)
            unavailable[device.id] = share.unavailable
        self._header = Header(
            source="cpu",
            devices=[share.id for share in self._shares],
            unavailable=unavailable,
            methods={share.id: share.methods for share in self._shares},
        )

    def header(self) -> Header:
        return self._header

    def sweep(self, edge: bool = False) -> list[Sample]:
        try:
            ticks, time_ns = _read_ticks(self._root), time.monotonic_ns()
            if time_ns - self._slow_ns >= SLOW_READ_NS or edge:
                self._slow_ns, self._memory_used_bytes = time_ns, _memory_used_bytes()
        except (OSError, ValueError) as error:
            return [
                Sample(
                    time_ns=time.monotonic_ns(),
                    id=share.id,
                    values=dict.fromkeys(METRICS),
                    problems=dict.fromkeys(METRICS, str(error)),
                )
                for share in self._shares
            ]
        return [share.sample(time_ns, ticks, self._memory_used_bytes, edge) for share in self._shares]

    def close(self) -> None: ...


METHODS = {
    "utilization_percent": "busy share of the cores (/proc/stat)",
    "memory_used_bytes": "host memory that is not available",
    "power_watts": "energy over the time between two sweeps",
    "energy_joules": "RAPL counter of the whole package",
    "sm_clock_mhz": "mean frequency of the cores, read once a second",
    "temperature_celsius": "CPU package, read once a second",
    "steal_percent": "share of the cores' time that the hypervisor gave to others",
}


class _Ticks(NamedTuple):
    """Of one core since boot, in the kernel's clock ticks."""

    busy: int
    stolen: int
    total: int


class _Share:
    """One share: its cores, and what its last sweep found."""

    def __init__(self, device: Device, root: Path, ticks: dict[int, _Ticks]) -> None:
        self.id, self._cores, self._root = device.id, device.cores, root
        self._last_ticks = self._sum(ticks)
        self._rapl = Rapl(device.cores, root)
        self._last_energy: tuple[int, float] | None = None
        self._at_edge: tuple[int, dict[int, _Ticks]] | None = None
        self._slow: dict[str, float | None] = {}
        self._slow_ns = 0
        self.unavailable: dict[str, str] = {}
        if self._rapl.reason:
            self.unavailable |= dict.fromkeys(("power_watts", "energy_joules"), self._rapl.reason)
        if _frequency_mhz(root, self._cores) is None:
            self.unavailable["sm_clock_mhz"] = "the kernel shows no frequency for these cores"
        if _temperature_celsius() is None:
            self.unavailable["temperature_celsius"] = "no CPU temperature sensor is visible"
        self.methods = {metric: how for metric, how in METHODS.items() if metric not in self.unavailable}

    def sample(self, time_ns: int, ticks: dict[int, _Ticks], memory_used_bytes: int, edge: bool) -> Sample:
        values: dict[str, float | None] = {"memory_used_bytes": memory_used_bytes}
        problems: dict[str, str] = {}
        self._load(ticks, values, problems)
        self._energy(time_ns, values, problems)
        if time_ns - self._slow_ns >= SLOW_READ_NS:
            self._slow_ns = time_ns
            self._slow = {
                "sm_clock_mhz": _frequency_mhz(self._root, self._cores),
                "temperature_celsius": _temperature_celsius(),
            }
        values |= self._slow
        problems |= {metric: "the kernel gave no figure" for metric, value in self._slow.items() if value is None}
        wanted = {metric: value for metric, value in values.items() if metric not in self.unavailable}
        known = {metric: problems[metric] for metric in problems if metric in wanted}
        return Sample(time_ns, self.id, wanted, known, gpm=self._by_core(time_ns, ticks) if edge else None)

    def _by_core(self, time_ns: int, ticks: dict[int, _Ticks]) -> Gpm | None:
        """How busy each core was since the last edge, where there are several: their mean hides one that waits."""
        before, self._at_edge = self._at_edge, (time_ns, ticks)
        if before is None or len(self._cores) == 1:
            return None
        start_ns, then = before
        percents = {
            f"core_{core}_utilization_percent": round(100 * (ticks[core].busy - then[core].busy) / total, 3)
            for core in self._cores
            if core in ticks and core in then and (total := ticks[core].total - then[core].total) > 0
        }
        return Gpm(start_ns=start_ns, end_ns=time_ns, values=percents)

    def _load(self, ticks: dict[int, _Ticks], values: dict[str, float | None], problems: dict[str, str]) -> None:
        """Nothing where hardly a clock tick has passed since the last sweep, as at an edge: it waits for the next."""
        if any(core not in ticks for core in self._cores):
            values |= {"utilization_percent": None, "steal_percent": None}
            problems["utilization_percent"] = "a core of this share went offline"
            return
        now, last = self._sum(ticks), self._last_ticks
        total = now.total - last.total
        if total >= FEWEST_TICKS * len(self._cores):
            self._last_ticks = now
            values["utilization_percent"] = round(100 * (now.busy - last.busy) / total, 3)
            values["steal_percent"] = round(100 * (now.stolen - last.stolen) / total, 3)

    def _energy(self, time_ns: int, values: dict[str, float | None], problems: dict[str, str]) -> None:
        if self._rapl.reason:
            return
        values |= {"energy_joules": None, "power_watts": None}
        try:
            joules = self._rapl.joules()
        except (OSError, ValueError) as error:
            problems |= dict.fromkeys(("energy_joules", "power_watts"), str(error))
            return
        values["energy_joules"] = joules
        if self._last_energy is None:
            problems["power_watts"] = "the first sweep has nothing before it"
        else:
            last_ns, last_joules = self._last_energy
            values["power_watts"] = round((joules - last_joules) / (time_ns - last_ns) * 1e9, 3)
        self._last_energy = (time_ns, joules)

    def _sum(self, ticks: dict[int, _Ticks]) -> _Ticks:
        return _Ticks(*map(sum, zip(*(ticks[core] for core in self._cores), strict=True)))


def _read_ticks(root: Path) -> dict[int, _Ticks]:
    """By core number. psutil gives the cores that are online as a list, in which an offline one shifts the rest."""
    cores = {}
    with open(f"{root}/proc/stat", "rb") as file:
        file.readline()  # of all cores together
        for line in file:
            if not line.startswith(b"cpu"):
                break  # interrupts, by the hundred
            name, *numbers = line.split(maxsplit=9)
            user, nice, system, idle, iowait, irq, softirq, steal = map(int, numbers[:8])  # guest is within user
            busy = user + nice + system + irq + softirq
            cores[int(name[3:])] = _Ticks(busy, steal, busy + idle + iowait + steal)
    return cores


def _memory_used_bytes() -> int:
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _frequency_mhz(root: Path, cores: Sequence[int]) -> float | None:
    """Mean over the cores, from cpufreq or, where that is missing, from /proc/cpuinfo."""
    try:
        paths = [root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq" for core in cores]
        mhz = [int(path.read_text()) / 1000 for path in paths]
    except (OSError, ValueError):
        mhz = _cpuinfo_mhz(root, cores)
    return round(sum(mhz) / len(mhz), 1) if mhz else None


def _cpuinfo_mhz(root: Path, cores: Sequence[int]) -> list[float]:
    mhz, core = [], -1
    try:
        lines = (root / "proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "processor":
            core = int(value)
        elif key.strip() == "cpu MHz" and core in cores:
            mhz.append(float(value))
    return mhz


def _temperature_celsius() -> float | None:
    """The hottest CPU package of the machine."""
    sensors = psutil.sensors_temperatures()
    for chip in ("coretemp", "k10temp", "zenpower", "cpu_thermal"):
        if readings := [reading.current for reading in sensors.get(chip, [])]:
            return max(readings)
    return None
