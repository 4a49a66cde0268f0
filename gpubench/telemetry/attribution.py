"""What a device did during one round, from its sampled series. Pure arithmetic on the node's monotonic clock.

A figure is None unless at least two of its samples lie in the round and they leave no long hole in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from gpubench.spec.record import Round, RoundTelemetry

Point = tuple[int, float]  # time in ns, value

HOLE_PERIODS = 5  # a hole this long in a short round is still usual on a busy machine
HOLE_SHARE = 0.1  # of the round: more than this not seen, and a mean would be a guess
STUCK_SECONDS = 1.0  # no device runs that long on no energy: its counter stands still
SETTLING = 1.2  # in lengths of the average: a power that is an average must leave the time before the round behind


def attribute(
    round: Round,
    time_ns: Sequence[int],
    series: Mapping[str, Sequence[float | None]],
    period_ns: int,
    power_average_seconds: float = 0.0,
) -> RoundTelemetry:
    """One device over one round. The series should reach over both edges of the round, for the energy counter."""
    start_ns, end_ns = round.start_ns, round.end_ns
    points = {
        metric: [(t, v) for t, v in zip(time_ns, values, strict=True) if v is not None]
        for metric, values in series.items()
    }

    def seen(metric: str, start_ns: int = start_ns) -> list[Point]:
        of_metric = points.get(metric, [])
        return of_metric if is_covered(of_metric, start_ns, end_ns, period_ns) else []

    inside = [t for t in time_ns if start_ns <= t <= end_ns]
    memory_bytes = highest(seen("memory_used_bytes"), start_ns, end_ns)
    power_start_ns = start_ns + int(SETTLING * power_average_seconds * 1e9)
    power_watts = linear_mean(seen("power_watts", power_start_ns), power_start_ns, end_ns)
    energy_joules = counter_growth(seen("energy_joules"), start_ns, end_ns)
    energy_source = "counter" if energy_joules is not None else None
    if energy_joules is None and power_watts is not None:
        energy_joules, energy_source = power_watts * (end_ns - start_ns) / 1e9, "integrated power"
    return RoundTelemetry(
        index=round.index,
        samples=len(inside),
        utilization_percent=held_mean(seen("utilization_percent"), start_ns, end_ns),
        memory_used_bytes=None if memory_bytes is None else int(memory_bytes),
        power_watts=power_watts,
        energy_joules=energy_joules,
        energy_source=energy_source,
        sm_clock_mhz=linear_mean(seen("sm_clock_mhz"), start_ns, end_ns),
        temperature_celsius=highest(seen("temperature_celsius"), start_ns, end_ns),
    )


def is_covered(points: Sequence[Point], start_ns: int, end_ns: int, period_ns: int) -> bool:
    """Whether the samples tell about the whole of the time: two or more of them in it, and no long hole."""
    inside = [t for t, _ in points if start_ns <= t <= end_ns]
    longest_ns = max(HOLE_PERIODS * period_ns, HOLE_SHARE * (end_ns - start_ns))
    return len(inside) >= 2 and all(b - a <= longest_ns for a, b in pairwise([start_ns, *inside, end_ns]))


def held_mean(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """The mean over time of values that each tell about the time since the one before, as utilisation does.

    Before the first point its value is taken, after the last point its.
    """
    if not points:
        return None
    stamps = [start_ns, *(min(max(t, start_ns), end_ns) for t, _ in points), end_ns]
    values = [v for _, v in points] + [points[-1][1]]
    return sum(v * (b - a) for v, (a, b) in zip(values, pairwise(stamps), strict=True)) / (end_ns - start_ns)


def linear_mean(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """The mean over time of momentary values, joined by straight lines (trapezoids), held beyond both ends."""
    if not points:
        return None
    inside = [(t, v) for t, v in points if start_ns < t < end_ns]
    line = [(start_ns, _at(points, start_ns)), *inside, (end_ns, _at(points, end_ns))]
    return sum((v + w) / 2 * (b - a) for (a, v), (b, w) in pairwise(line)) / (end_ns - start_ns)


def counter_growth(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """By how much a counter grew, interpolated at both edges.

    None unless the counter was read on both sides of each edge, or where it fell (the driver was reloaded) or stood
    still for so long that it cannot be right.
    """
    if not points or points[0][0] > start_ns or points[-1][0] < end_ns:
        return None
    if any(w < v for (a, v), (b, w) in pairwise(points) if b >= start_ns and a <= end_ns):
        return None
    growth = _at(points, end_ns) - _at(points, start_ns)
    stuck = growth == 0 and end_ns - start_ns >= STUCK_SECONDS * 1e9
    return None if stuck else growth


def highest(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    return max((v for t, v in points if start_ns <= t <= end_ns), default=None)


def _at(points: Sequence[Point], time_ns: int) -> float:
    """The value on the straight line through the neighbours; beyond the ends, the end's."""
    before = next((p for p in reversed(points) if p[0] <= time_ns), points[0])
    after = next((p for p in points if p[0] >= time_ns), points[-1])
    if after[0] == before[0]:
        return after[1]
    share = (time_ns - before[0]) / (after[0] - before[0])
    return before[1] + share * (after[1] - before[1])
