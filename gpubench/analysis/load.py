"""Who else was on the cores of a case's CPU shares. Standard library only, as the harness asks while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpubench.spec.record import DeviceTelemetry, Round, RunRecord


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
    devices = [sampled.get(device.id) for device in record.devices]
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


def _foreign(one: Round, devices: Sequence[DeviceTelemetry | None], n_cores: Sequence[int]) -> float | None:
    seconds = (one.end_ns - one.start_ns) / 1e9
    if seconds <= 0 or not devices or not all(n_cores):
        return None
    busy = [
        None if percent is None else percent / 100 * cores * seconds
        for percent, cores in zip((_utilization(device, one.index) for device in devices), n_cores, strict=True)
    ]
    known = [value for value in busy if value is not None]
    if len(known) < len(busy):
        return None
    ours = one.rank_cpu_seconds
    if len(ours) == len(known):
        shares = [(b - o) / (c * seconds) for b, o, c in zip(known, ours, n_cores, strict=True)]
        return max(0.0, *shares)
    if len(ours) == 1:
        return max(0.0, (sum(known) - ours[0]) / (sum(n_cores) * seconds))
    return None


def _utilization(device: DeviceTelemetry | None, index: int) -> float | None:
    if device is None:
        return None
    return next((each.utilization_percent for each in device.rounds if each.index == index), None)


def _stolen(one: Round, devices: Sequence[DeviceTelemetry | None]) -> float | None:
    percents = [_steal_percent(device, one) for device in devices if device is not None]
    known = [percent for percent in percents if percent is not None]
    return max(known) / 100 if known and len(known) == len(devices) else None


def _steal_percent(device: DeviceTelemetry, one: Round) -> float | None:
    """The round's own figure, or the mean of the samples that lie in it."""
    figure = next((each.steal_percent for each in device.rounds if each.index == one.index), None)
    if figure is not None:
        return figure
    samples = zip(device.time_ns, device.series.get("steal_percent", []), strict=False)
    inside = [value for time_ns, value in samples if value is not None and one.start_ns < time_ns <= one.end_ns]
    return sum(inside) / len(inside) if inside else None
