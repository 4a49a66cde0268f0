"""What the sampler itself took."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gpubench.spec.record import SamplerCost
from gpubench.telemetry.readings import Readings
from gpubench.telemetry.source import Header


def cost_of(
    readings: Readings,
    headers: Sequence[Header],
    since_ns: int,
    until_ns: int,
    period_ns: int,
    pauses: Sequence[tuple[int, int]] = (),
) -> SamplerCost | None:
    """Of the sweeps between two times; None where there was none. In `pauses` none was due.

    `period_ns` is the one that was asked for: a tick of it without a sweep was dropped, be it that the driver is too
    slow for it, that it hung for a while, or that the sampler ended.
    """
    sweeps = [sweep for sweep in list(readings.sweeps) if since_ns <= sweep.time_ns <= until_ns]
    if not sweeps:
        return None
    steps = [
        (a, b) for a, b in pairwise(sweeps) if not any(a.time_ns < end and start < b.time_ns for start, end in pauses)
    ]
    # A tick was dropped where the next sweep on schedule came two periods later, or more.
    gaps = [(b.time_ns - b.late_ns) - (a.time_ns - a.late_ns) for a, b in steps]
    if not any(start < until_ns and sweeps[-1].time_ns < end for start, end in pauses):
        gaps.append(until_ns - sweeps[-1].time_ns)
    looked = [(sweep.time_ns, sweep.cpu_ns) for sweep in sweeps if sweep.cpu_ns is not None] or [(since_ns, 0)]
    (first_ns, before_ns), (last_ns, after_ns) = looked[0], looked[-1]
    paused_ns = sum(max(0, min(end, last_ns) - max(start, first_ns)) for start, end in pauses)
    return SamplerCost(
        cpu_seconds=(after_ns - before_ns) / 1e9,
        seconds=(last_ns - first_ns - paused_ns) / 1e9,
        sweeps=len(sweeps),
        sweep_seconds_p50=_quantile([sweep.took_ns for sweep in sweeps], 0.5),
        sweep_seconds_p99=_quantile([sweep.took_ns for sweep in sweeps], 0.99),
        late_seconds_p99=_quantile([max(0, sweep.late_ns) for sweep in sweeps], 0.99),
        dropped_ticks=sum(max(0, round(gap / period_ns) - 1) for gap in gaps),
        call_seconds={name: seconds for header in headers for name, seconds in header.call_seconds.items()},
        slowed_calls=[name for header in headers for name in header.slowed_calls],
    )


def _quantile(values_ns: Sequence[int], share: float) -> float:
    """In seconds; the nearest value, not below."""
    ordered = sorted(values_ns)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1e9
