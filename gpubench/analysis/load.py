"""Who else was on the cores of a case's CPU shares. Standard library only, as the harness asks while it runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from gpubench.spec.record import DeviceTelemetry, Round, RoundTelemetry, RunRecord


@dataclass(frozen=True, kw_only=True)
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
    devices = [_Sampled.of(sampled.get(device.id)) for device in record.devices]
    n_cores = [len(device.cores) or record.case.cores_per_device for device in record.devices]
    return [
        RoundLoad(
            index=one.index,
            seconds=(one.end_ns - one.start_ns) / 1e9,
            foreign=_foreign(one, devices, n_cores),
            stolen=_stolen(one, devices),
        )
        for one in record.rounds
    ]


def mean_load(loads: Sequence[RoundLoad], what: str) -> float | None:
    """The mean of "foreign" or "stolen" over the time of all rounds; None where a round's is not known."""
    values = [getattr(load, what) for load in loads]
    seconds = sum(load.seconds for load in loads)
    if not values or None in values or seconds <= 0:
        return None
    mean: float = sum(value * load.seconds for value, load in zip(values, loads, strict=True)) / seconds
    return mean


@dataclass(frozen=True)
class _Sampled:
    """A device's rounds by index, and its readings of stolen time in the order of their time."""

    rounds: dict[int, RoundTelemetry]
    steal: list[tuple[int, float]]  # of a device that has a round without a figure of its own

    @staticmethod
    def of(device: DeviceTelemetry | None) -> _Sampled:
        """Of a device that was not sampled: nothing."""
        if device is None:
            return _Sampled({}, [])
        rounds = {each.index: each for each in reversed(device.rounds)}  # of two for one round, the first
        series = device.series.get("steal_percent", [])
        readings = zip(device.time_ns, series, strict=False)
        return _Sampled(rounds, sorted((time_ns, value) for time_ns, value in readings if value is not None))

    def utilization_percent(self, index: int) -> float | None:
        found = self.rounds.get(index)
        return found.utilization_percent if found else None

    def steal_percent(self, one: Round) -> float | None:
        """The round's own figure, or the mean of the readings that lie in it."""
        found = self.rounds.get(one.index)
        if found is not None and found.steal_percent is not None:
            return found.steal_percent
        first, last = (bisect_right(self.steal, time_ns, key=itemgetter(0)) for time_ns in (one.start_ns, one.end_ns))
        inside = [value for _, value in self.steal[first:last]]
        return sum(inside) / len(inside) if inside else None


def _foreign(one: Round, devices: Sequence[_Sampled], n_cores: Sequence[int]) -> float | None:
    seconds = (one.end_ns - one.start_ns) / 1e9
    if seconds <= 0 or not devices or not all(n_cores):
        return None
    percents = [device.utilization_percent(one.index) for device in devices]
    busy = [
        percent / 100 * cores * seconds for percent, cores in zip(percents, n_cores, strict=True) if percent is not None
    ]
    if len(busy) < len(devices):
        return None
    ours = one.rank_cpu_seconds
    if len(ours) == len(busy):
        shares = [(b - o) / (c * seconds) for b, o, c in zip(busy, ours, n_cores, strict=True)]
        return max(0.0, *shares)
    if len(ours) == 1:
        return max(0.0, (sum(busy) - ours[0]) / (sum(n_cores) * seconds))
    return None


def _stolen(one: Round, devices: Sequence[_Sampled]) -> float | None:
    known = [percent for device in devices if (percent := device.steal_percent(one)) is not None]
    return max(known) / 100 if known and len(known) == len(devices) else None
