"""What a case took while its rounds ran: how busy its devices were, memory, power and energy."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean, median
from typing import Any

from gpubench.spec.record import RoundTelemetry, RunRecord

_figures = attrgetter("utilization_percent", "power_watts", "energy_joules", "memory_used_bytes")
_NONE: list[list[Any]] = [[], [], [], []]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Means over the rounds of all launches; None is not measured.

    A launch whose telemetry contradicts itself is left out.
    A round counts where it is known of every device of the case: what is known of some of them is not the case's.
    `utilization_percent` is a mean over rounds and devices, with the lowest and the highest of a device in a round.
    `memory_used_bytes` is the highest of a device; `memory_of` says what was asked where it was not the device.
    `power_watts` adds up the devices. `joules_per_sample` is the median across launches.
    """

    utilization_percent: float | None = None
    utilization_percent_min: float | None = None
    utilization_percent_max: float | None = None
    memory_used_bytes: int | None = None
    memory_of: str | None = None
    power_watts: float | None = None
    joules_per_sample: float | None = None

    def without_energy(self) -> Usage:
        """Of a case whose number was taken away: energy per sample is as good as the count of samples."""
        return replace(self, joules_per_sample=None)


@dataclass(frozen=True, slots=True, eq=False)
class Used:
    """What one launch took: of each round that counts, the values of all devices, or their sum for power.

    `memory_used_bytes` is the most of a GPU, `peak_memory_bytes` the most of a process as the workers counted it.
    """

    utilization_percent: array[float]
    power_watts: array[float]
    sm_clock_mhz: array[float]  # of every round and device that has one
    memory_used_bytes: int | None
    peak_memory_bytes: int | None
    peak_memory_of: str | None
    joules_per_sample: float | None


def used_by(record: RunRecord, contradicts: bool) -> Used:
    """`contradicts`: its telemetry contradicts itself, so that nothing counts but its clocks, which are a condition."""
    clocks = [each.sm_clock_mhz for device in record.telemetry.devices for each in device.rounds]
    clock_mhz = array("d", [clock for clock in clocks if clock is not None])
    if contradicts:
        return Used(array("d"), array("d"), clock_mhz, None, None, None, None)
    of_devices = [zip(*map(_figures, rounds), strict=True) for rounds in _by_device(record)]
    # Of each figure, its values of all devices, round by round.
    busy, power, energy, used = [[*zip(*each, strict=True)] for each in zip(*of_devices, strict=True)] or _NONE
    # 0 W and 0 J, as records of earlier versions may have, are none: no device trains on no energy.
    joules = [sum(each) for each in energy if all(each)]
    on_gpu = record.case.device_kind == "gpu"
    memory = [max(each) for each in used if None not in each] if on_gpu else []
    samples = sum([each.samples for each in record.rounds])
    is_known = len(joules) == len(record.rounds)  # of the whole launch
    return Used(
        utilization_percent=array("d", [percent for each in busy if None not in each for percent in each]),
        power_watts=array("d", [sum(each) for each in power if all(each)]),
        sm_clock_mhz=clock_mhz,
        memory_used_bytes=max(memory) if memory else None,
        peak_memory_bytes=record.observed.peak_memory_bytes,
        peak_memory_of=record.observed.peak_memory_of,
        joules_per_sample=sum(joules) / samples if is_known and samples else None,
    )


def usage(launches: Sequence[Used]) -> Usage:
    busy = [value for launch in launches for value in launch.utilization_percent]
    watts = [value for launch in launches for value in launch.power_watts]
    memory, memory_of = _memory(launches)
    energies = [launch.joules_per_sample for launch in launches if launch.joules_per_sample is not None]
    return Usage(
        utilization_percent=fmean(busy) if busy else None,
        utilization_percent_min=min(busy, default=None),
        utilization_percent_max=max(busy, default=None),
        memory_used_bytes=memory,
        memory_of=memory_of,
        power_watts=fmean(watts) if watts else None,
        joules_per_sample=median(energies) if energies else None,
    )


def _memory(launches: Sequence[Used]) -> tuple[int | None, str | None]:
    """GPUs: the most in use on one device. CPU shares: the workers' own peak, as the host's memory is everybody's."""
    used = [launch.memory_used_bytes for launch in launches if launch.memory_used_bytes is not None]
    if used:
        return max(used), None
    peaks = [launch for launch in launches if launch.peak_memory_bytes is not None]
    if not peaks:
        return None, None
    highest = max(peaks, key=lambda launch: launch.peak_memory_bytes or 0)
    return highest.peak_memory_bytes, highest.peak_memory_of or "process"


def _by_device(record: RunRecord) -> list[Sequence[RoundTelemetry]]:
    """Of each device, its telemetry in the rounds that count; nothing where devices of the case are missing."""
    devices = record.telemetry.devices
    if len(devices) != record.case.n_devices:
        return []
    indices = [one.index for one in record.rounds]
    if all([[each.index for each in device.rounds] == indices for device in devices]):
        return [device.rounds for device in devices]
    found: dict[int, list[RoundTelemetry]] = defaultdict(list)
    for device in devices:
        for each in device.rounds:
            found[each.index].append(each)
    return list(zip(*[found[index] for index in indices if len(found[index]) == len(devices)], strict=True))
