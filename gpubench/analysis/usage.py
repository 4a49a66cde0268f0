"""What a case took while its rounds ran: how busy its devices were, memory, power and energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from gpubench.spec.invariants import OF_TELEMETRY, broken
from gpubench.spec.record import RoundTelemetry, RunRecord


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


def usage_of(records: Sequence[RunRecord]) -> Usage:
    records = [record for record in records if not broken(OF_TELEMETRY, record)]
    busy = [
        value for record in records for of_all in _known(record, lambda e: e.utilization_percent) for value in of_all
    ]
    memory, memory_of = _memory(records)
    energies = [_joules_per_sample(record) for record in records]
    known_energies = [energy for energy in energies if energy is not None]
    return Usage(
        utilization_percent=fmean(busy) if busy else None,
        utilization_percent_min=min(busy, default=None),
        utilization_percent_max=max(busy, default=None),
        memory_used_bytes=memory,
        memory_of=memory_of,
        power_watts=_power_watts(records),
        joules_per_sample=median(known_energies) if known_energies else None,
    )


def _memory(records: Sequence[RunRecord]) -> tuple[int | None, str | None]:
    """GPUs: the most in use on one device. CPU shares: the workers' own peak, as the host's memory is everybody's."""
    if records and records[0].case.device_kind == "gpu":
        used = [
            value for record in records for of_all in _known(record, lambda e: e.memory_used_bytes) for value in of_all
        ]
        if used:
            return int(max(used)), None
    peaks = [r.observed for r in records if r.observed.peak_memory_bytes is not None]
    if not peaks:
        return None, None
    highest = max(peaks, key=lambda observed: observed.peak_memory_bytes or 0)
    return highest.peak_memory_bytes, highest.peak_memory_of or "process"


def _power_watts(records: Sequence[RunRecord]) -> float | None:
    sums = [sum(of_all) for record in records for of_all in _known(record, lambda each: each.power_watts or None)]
    return fmean(sums) if sums else None


def _joules_per_sample(record: RunRecord) -> float | None:
    """Energy of all devices over the timed rounds, over the samples of these rounds; None if any part is unknown."""
    energies = [sum(of_all) for of_all in _known(record, lambda each: each.energy_joules or None)]
    samples = sum(each.samples for each in record.rounds)
    if not samples or len(energies) != len(record.rounds):
        return None
    return sum(energies) / samples


def _known(record: RunRecord, value: Callable[[RoundTelemetry], float | None]) -> list[list[float]]:
    """By round, the values of all devices of the case; without the rounds in which one of them has none.

    0 W and 0 J, as records of earlier versions may have, are none: no device trains on no energy.
    """
    devices = record.telemetry.devices
    if len(devices) != record.case.n_devices:
        return []
    found = []
    for index in (each.index for each in record.rounds):
        values = [value(each) for device in devices for each in device.rounds if each.index == index]
        known = [one for one in values if one is not None]
        if len(known) == len(devices):
            found.append(known)
    return found
