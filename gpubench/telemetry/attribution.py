"""What a device did during one round, from its sampled series. Pure arithmetic on the node's monotonic clock.

A figure is None unless at least two of its samples lie in the round and they leave no long hole in it. Every metric
that was to be read and has no figure has its reason in `RoundTelemetry.unavailable`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from gpubench.spec.record import EVENT_REASONS, Round, RoundTelemetry
from gpubench.telemetry.energy import energy_of
from gpubench.telemetry.means import (
    Point,
    growth_by_work,
    held_mean,
    highest,
    is_bracketed,
    is_covered,
    linear_mean,
    pairs,
    why_no_growth,
)
from gpubench.telemetry.source import Gpm

SETTLING = 1.2  # in lengths of the average: a power that is an average must leave the time before the round behind
LONGEST_WINDOW_NS = 1_200_000_000  # of the driver's utilisation: up to 1 s, by product (nvml.h)
SPARSE = "too few samples in the round, or a long time without one"
NOTHING = "nothing was read of it in the round"
NO_MEMORY = "it read 0 while the device was in use, which cannot be"
SHORT = "the round is too short for a power that is an average, and holds the time before it"
EDGE_SLACK = 0.02  # of the round, by which what was read at its edges may lie beside them
THROTTLES = ("power", "thermal", "sync_boost", "board_limit", "reliability")


def attribute(
    round: Round,
    time_ns: Sequence[int],
    series: Mapping[str, Sequence[float | None]],
    period_ns: int,
    power_average_seconds: float = 0.0,
    power_limit_watts: float | None = None,
    history: Sequence[Point] = (),
    gpm: Sequence[Gpm] = (),
    xids: Sequence[tuple[int, int]] = (),
    promised: Collection[str] = (),
    problems: Mapping[str, str] = {},
) -> RoundTelemetry:
    """One device over one round. The series should reach over both edges of the round, for the counters.

    `promised` are the metrics that were to be read of the device; `problems` has, by metric, why readings within the
    round failed.
    """
    start_ns, end_ns = round.start_ns, round.end_ns
    unavailable: dict[str, str] = {}

    def lacks(metric: str, why: str) -> None:
        unavailable[metric] = f"{why}: {problems[metric]}" if metric in problems else why

    def seen(metric: str, start_ns: int = start_ns) -> list[Point]:
        of_metric = pairs(time_ns, series.get(metric, ()))
        if is_covered(of_metric, start_ns, end_ns, period_ns):
            return of_metric
        if of_metric or metric in promised:
            lacks(metric, SPARSE if any(start_ns <= t <= end_ns for t, _ in of_metric) else NOTHING)
        return []

    def whole(value: float | None) -> int | None:
        return None if value is None else int(value)

    def grown(metric: str) -> int | None:
        of_metric = pairs(time_ns, series.get(metric, ()))
        value = growth_by_work(of_metric, start_ns, end_ns, EDGE_SLACK * (end_ns - start_ns))
        if value is None and (of_metric or metric in promised):
            lacks(metric, why_no_growth(of_metric))
        return whole(value)

    def mean_power(metric: str, average_seconds: float) -> float | None:
        settled_ns = start_ns + int(SETTLING * average_seconds * 1e9)
        mean = linear_mean(seen(metric, settled_ns), settled_ns, end_ns)
        if metric in unavailable and settled_ns >= end_ns:
            unavailable[metric] = SHORT
        return mean

    power_watts = mean_power("power_watts", power_average_seconds)
    powers = seen("power_watts")
    counter = pairs(time_ns, series.get("energy_joules", ()))
    if not is_bracketed(counter, start_ns, end_ns, EDGE_SLACK * (end_ns - start_ns)):
        counter = seen("energy_joules")
    energy = energy_of(counter, powers, power_watts, start_ns, end_ns, power_limit_watts)
    utilization = _utilization(history, seen("utilization_percent"), start_ns, end_ns)
    memory_used_bytes = whole(highest(seen("memory_used_bytes"), start_ns, end_ns)) or None
    if memory_used_bytes is None and "memory_used_bytes" not in unavailable and "memory_used_bytes" in series:
        lacks("memory_used_bytes", NO_MEMORY)
    throttled = {cause: grown(f"throttle_{cause}_ns") for cause in THROTTLES}
    means = _gpm(gpm, start_ns, end_ns)
    if (gpm or "gpm" in promised) and not means:
        lacks("gpm", "the edges of the round were read too early or too late" if gpm else NOTHING)
    if "xids" in promised and (not time_ns or time_ns[-1] < end_ns):
        lacks("xids", "the sampler was gone, or did not answer, before the round ended")
    found = RoundTelemetry(
        index=round.index,
        samples=sum(start_ns <= t <= end_ns for t in time_ns),
        utilization_percent=utilization[0],
        utilization_source=utilization[1],
        memory_used_bytes=memory_used_bytes,
        memory_reserved_bytes=whole(highest(seen("memory_reserved_bytes"), start_ns, end_ns)),
        power_watts=power_watts,
        power_average_watts=mean_power("power_average_watts", 1.0),
        energy_joules=energy.joules,
        energy_source=energy.source,
        energy_error_joules=energy.error_joules,
        energy_integrated_joules=energy.integrated_joules,
        energy_problem=energy.problem,
        sm_clock_mhz=linear_mean(seen("sm_clock_mhz"), start_ns, end_ns),
        memory_clock_mhz=linear_mean(seen("memory_clock_mhz"), start_ns, end_ns),
        temperature_celsius=highest(seen("temperature_celsius"), start_ns, end_ns),
        memory_temperature_celsius=highest(seen("memory_temperature_celsius"), start_ns, end_ns),
        throttle_ns={cause: ns for cause, ns in throttled.items() if ns is not None},
        clock_event_reasons=_reasons(seen("clock_event_reasons"), start_ns, end_ns),
        pcie_tx_bytes=grown("pcie_tx_bytes"),
        pcie_rx_bytes=grown("pcie_rx_bytes"),
        pcie_replays=grown("pcie_replays"),
        pcie_link_generation=whole(highest(seen("pcie_link_generation"), start_ns, end_ns)),
        pcie_link_width=whole(highest(seen("pcie_link_width"), start_ns, end_ns)),
        nvlink_tx_bytes=grown("nvlink_tx_bytes"),
        nvlink_rx_bytes=grown("nvlink_rx_bytes"),
        ecc_corrected=grown("ecc_corrected"),
        ecc_uncorrected=grown("ecc_uncorrected"),
        remapped_rows=grown("remapped_rows"),
        processes=whole(_most_at_once(seen("processes"), start_ns, end_ns)),
        xids=[code for t, code in xids if start_ns <= t <= end_ns],
        gpm=means,
        steal_percent=held_mean(seen("steal_percent"), start_ns, end_ns),
    )
    # What was found another way is known all the same: utilisation by the driver's buffer, energy by power.
    reasons = {metric: why for metric, why in unavailable.items() if getattr(found, metric, None) in (None, {}, [])}
    if found.energy_joules is None and "energy_joules" in promised:
        reasons["energy_joules"] = energy.problem or unavailable.get("energy_joules", NOTHING)
    return replace(found, unavailable=reasons)


def _utilization(
    history: Sequence[Point], snapshots: Sequence[Point], start_ns: int, end_ns: int
) -> tuple[float | None, str | None]:
    """From the driver's buffer, where it tells about all of the round; else from what was polled."""
    inside = [t for t, _ in history if start_ns <= t <= end_ns]
    if len(inside) >= 2 and all(b - a <= LONGEST_WINDOW_NS for a, b in pairwise([start_ns, *inside, end_ns])):
        return held_mean(history, start_ns, end_ns), "driver's buffer"
    mean = held_mean(snapshots, start_ns, end_ns)
    return mean, None if mean is None else "snapshots"


def _most_at_once(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """Of what is read every few seconds and at edges: who was there just behind the round came within it."""
    behind_ns = next((t for t, _ in points if t >= end_ns), end_ns)
    return highest(points, start_ns, behind_ns)


def _reasons(points: Sequence[Point], start_ns: int, end_ns: int) -> list[str]:
    seen = 0
    for t, bits in points:
        if start_ns <= t <= end_ns:
            seen |= int(bits)
    return event_reasons(seen)


def event_reasons(bits: int) -> list[str]:
    """What holds a clock down, by NVML's bits; being idle is none."""
    return [name for bit, name in EVENT_REASONS.items() if bits & bit]


def _gpm(gpm: Sequence[Gpm], start_ns: int, end_ns: int) -> dict[str, float]:
    """The means whose edges are those of the round, or nearly so."""
    slack_ns = EDGE_SLACK * (end_ns - start_ns)
    for one in gpm:
        if abs(one.start_ns - start_ns) <= slack_ns and abs(one.end_ns - end_ns) <= slack_ns:
            return dict(one.values)
    return {}
