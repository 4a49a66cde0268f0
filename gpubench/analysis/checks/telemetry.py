"""Whether all that was to be sampled was: what is missing leaves a doubt, whatever the machine and the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

from gpubench.analysis.checks.limits import DROPPED_SHARE, FEWEST_PERIODS
from gpubench.spec.record import METRICS, Check, DeviceTelemetry, RoundTelemetry, RunRecord

REMEDY = "do not read utilisation, memory, power or energy of this launch as if of all its rounds and devices"

_figures = attrgetter(*METRICS)
_NONE = (None,) * len(METRICS)


def _incomplete(record: RunRecord) -> Iterator[Check]:
    """The sampler could not start, ended, or hung."""
    if record.telemetry.reason:
        yield Check(name="telemetry_incomplete", severity="warning", message=record.telemetry.reason, remedy=REMEDY)


def _unread(record: RunRecord) -> Iterator[Check]:
    """A device of which no reading succeeded, in any round or in all."""
    sampled = record.telemetry.devices  # one that is not among them is another check's, sampled_other_devices
    told = []
    for device in sampled:
        blind = [each.index for each in device.rounds if each.utilization_percent is None and _is_blind(each)]
        if blind:
            told.append(f"nothing was read of {device.id} in {_rounds(blind, len(device.rounds))} ({_why(device)})")
    if told:
        on_gpu = record.case.device_kind == "gpu"
        yield Check(
            name="device_unread",
            severity="warning",
            message="; ".join(told),
            remedy="see whether `nvidia-smi` still shows the device and its kernel log (`dmesg`) tells of an error"
            if on_gpu
            else "see what kept the sampler from its work: stop other work on the machine",
        )


def _is_blind(each: RoundTelemetry) -> bool:
    return bool(_figures(each) == _NONE)


def _why(device: DeviceTelemetry) -> str:
    """Why nothing was read: what a metric that this device never has is missing for, is no reason where others do."""
    if all(metric in device.unavailable for metric in METRICS):
        return device.unavailable[METRICS[0]]
    of_rounds = [each.unavailable for each in device.rounds if _is_blind(each)]
    metrics = [metric for metric in METRICS if metric not in device.unavailable]
    return next((each[m] for each in of_rounds for m in metrics if m in each), "no sample fell into it")


def _gaps(record: RunRecord) -> Iterator[Check]:
    """A metric of a device that was read in the launch, and has no figure in a round that was long enough for one."""
    if not any([each.unavailable for device in record.telemetry.devices for each in device.rounds]):
        return
    least_seconds = FEWEST_PERIODS * (record.telemetry.period_seconds or 0.0)
    long_enough = {each.index for each in record.rounds if (each.end_ns - each.start_ns) / 1e9 >= least_seconds}
    told = []
    for device in record.telemetry.devices:
        partly = [each for each in device.rounds if each.unavailable and each.index in long_enough]
        if not partly or all(map(_is_blind, device.rounds)):
            continue
        for metric in METRICS:
            lacking = [each for each in partly if metric in each.unavailable]
            if not lacking or _is_settling(device, metric):
                continue
            where = _rounds([each.index for each in lacking], len(device.rounds))
            told.append(f"{metric} of {device.id} has no figure in {where} ({lacking[0].unavailable[metric]})")
    if told:
        more = f"; and {len(told) - 4} more" if len(told) > 4 else ""
        yield Check(name="telemetry_gaps", severity="warning", message="; ".join(told[:4]) + more, remedy=REMEDY)


def _is_settling(device: DeviceTelemetry, metric: str) -> bool:
    """A power that the driver averages has no figure in short rounds, and the energy counter tells the same."""
    return metric == "power_watts" and "average" in device.methods.get(metric, "")


def _seldom(record: RunRecord) -> Iterator[Check]:
    cost, period_seconds = record.telemetry.cost, record.telemetry.period_seconds
    if cost is None or period_seconds is None or cost.dropped_ticks + cost.sweeps == 0:
        return
    dropped = cost.dropped_ticks / (cost.dropped_ticks + cost.sweeps)
    if dropped > DROPPED_SHARE:
        slowest = 1e3 * max(cost.call_seconds.values(), default=0.0)
        slow = f"; a call into the driver takes up to {slowest:.0f} ms" if slowest >= 1 else ""
        yield Check(
            name="sampled_seldom",
            severity="warning",
            message=f"{cost.dropped_ticks} of {cost.dropped_ticks + cost.sweeps} readings were not made: the devices "
            f"were read every {period_seconds:.3g} s at best{slow}",
            remedy="longer rounds have figures all the same; see whether `nvidia-smi` is as slow, and what else asks "
            "the driver",
        )


def _rounds(indices: Sequence[int], total: int) -> str:
    if len(indices) == total:
        return "any round" if total > 1 else "the round"
    return f"round{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))} of {total}"


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (_incomplete, _unread, _gaps, _seldom)
