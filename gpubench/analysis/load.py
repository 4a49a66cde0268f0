"""Who else was on the cores of a case's CPU shares. Standard library only, as the harness asks while it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from gpubench.spec.record import DeviceTelemetry, Round, RoundTelemetry, RunRecord


@dataclass(slots=True)
class RoundLoad:
    """Shares (0 to 1) of the cores' time in one round that were not ours; None is not known.

    `foreign` went to other processes: busy core-seconds of the cores less CPU seconds of the ranks, over cores times
    wall time. `stolen` went to other guests of the host. Of the worst device, as the slowest sets the pace; where one
    process drives all devices, `foreign` is of all of them together.
    """

    index: int
    seconds: float
    foreign: float | None
    stolen: float | None


def round_loads(record: RunRecord) -> list[RoundLoad]:
    """One for each round of a case on CPU shares; nothing for GPUs."""
    if record.case.device_kind != "cpu":
        return []
    sampled = {device.id: device for device in record.telemetry.devices}
    devices = [_Sampled(sampled.get(device.id)) for device in record.devices]
    n_cores = [len(device.cores) or record.case.cores_per_device for device in record.devices]
    loads = []
    for one in record.rounds:
        seconds = (one.end_ns - one.start_ns) / 1e9
        found = [device.rounds.get(one.index) for device in devices]
        foreign = _foreign(found, n_cores, seconds, one.rank_cpu_seconds)
        steal = [each.steal_percent for each in found if each is not None and each.steal_percent is not None]
        stolen = max(steal) / 100 if steal and len(steal) == len(devices) else _stolen(one, devices)
        loads.append(RoundLoad(one.index, seconds, foreign, stolen))
    return loads


def mean_load(loads: Sequence[RoundLoad], what: str) -> float | None:
    """The mean of "foreign" or "stolen" over the time of all rounds; None where a round's is not known."""
    values = [getattr(load, what) for load in loads]
    seconds = sum(load.seconds for load in loads)
    if not values or None in values or seconds <= 0:
        return None
    mean: float = sum(value * load.seconds for value, load in zip(values, loads, strict=True)) / seconds
    return mean


class _Sampled:
    """A device's rounds by index, and its readings of stolen time in the order of their time."""

    def __init__(self, device: DeviceTelemetry | None) -> None:
        """Of a device that was not sampled: nothing."""
        self._device = device
        rounds = device.rounds if device else []
        self.rounds: dict[int, RoundTelemetry] = {each.index: each for each in reversed(rounds)}  # of two, the first
        self._steal: tuple[list[int], list[float | None]] | None = None

    def steal_percent(self, one: Round) -> float | None:
        """The round's own figure, or the mean of the readings that lie in it."""
        found = self.rounds.get(one.index)
        if found is not None and found.steal_percent is not None:
            return found.steal_percent
        times_ns, values = self._readings()
        inside = [
            value
            for value in values[bisect_right(times_ns, one.start_ns) : bisect_right(times_ns, one.end_ns)]
            if value is not None
        ]
        return sum(inside) / len(inside) if inside else None

    def _readings(self) -> tuple[list[int], list[float | None]]:
        """Times and values; worked out where a round has no figure of its own."""
        if self._steal is None:
            times_ns = self._device.time_ns if self._device else []
            values = self._device.series.get("steal_percent", []) if self._device else []
            if times_ns != (in_order := sorted(times_ns)):
                values = [value for _, value in sorted(zip(times_ns, values, strict=False), key=itemgetter(0))]
            self._steal = in_order, values
        return self._steal


def _foreign(
    sampled: Sequence[RoundTelemetry | None], n_cores: Sequence[int], seconds: float, ours: Sequence[float]
) -> float | None:
    """Of one round, from what was sampled of each device, its cores, and the CPU seconds of each rank."""
    if seconds <= 0 or not sampled or not all(n_cores):
        return None
    busy = []
    for each, cores in zip(sampled, n_cores, strict=True):
        if each is None or each.utilization_percent is None:
            return None
        busy.append(each.utilization_percent / 100 * cores * seconds)
    if len(ours) == len(busy):
        worst = 0.0
        for seen, own, cores in zip(busy, ours, n_cores, strict=True):
            worst = max(worst, (seen - own) / (cores * seconds))
        return worst
    if len(ours) == 1:
        return max(0.0, (sum(busy) - ours[0]) / (sum(n_cores) * seconds))
    return None


def _stolen(one: Round, devices: Sequence[_Sampled]) -> float | None:
    highest: float | None = None
    for device in devices:
        percent = device.steal_percent(one)
        if percent is None:
            return None
        highest = percent if highest is None or percent > highest else highest
    return None if highest is None else highest / 100
