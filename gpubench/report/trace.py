"""How busy each device was over one launch, with the timed rounds shaded: a small SVG to stand inside a page.

Drawn as text, without ids, colours or styles of its own: the page's style sheet gives them, dark or light.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.spec.record import DeviceTelemetry, RunRecord

WIDTH, HEIGHT = 640, 120
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 8, 22
MOST_POINTS = 600  # a curve has no more points than the plot has pixels to show
SECOND_NS = 10**9


def utilization_trace(record: RunRecord) -> str | None:
    """SVG of `utilization_percent` against seconds since the first round; None where nothing was sampled."""
    devices = traced_devices(record)
    if not devices or not record.rounds:
        return None
    zero_ns = record.rounds[0].start_ns
    first_ns = min(min(device.time_ns) for device in devices)
    last_ns = max(max(max(device.time_ns) for device in devices), record.rounds[-1].end_ns)
    first_ns = max(min(first_ns, zero_ns), zero_ns - (last_ns - zero_ns) // 3)  # a long start would squeeze the rounds
    across = (WIDTH - LEFT - RIGHT) / max(1, last_ns - first_ns)

    def x(time_ns: int) -> float:
        return round(LEFT + (time_ns - first_ns) * across, 1)

    def y(percent: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(100.0, max(0.0, percent)) / 100), 1)

    parts = [f'<svg class="trace" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Busy share over time">']
    for each in record.rounds:
        width = max(1.0, round(x(each.end_ns) - x(each.start_ns), 1))
        parts.append(f'<rect class="round" x="{x(each.start_ns)}" y="{TOP}" width="{width}" height="{y(0) - TOP}"/>')
    for percent in (0, 50, 100):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(percent)}" y2="{y(percent)}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(percent) + 4}" text-anchor="end">{percent} %</text>')
    for second in _ticks((first_ns - zero_ns) / SECOND_NS, (last_ns - zero_ns) / SECOND_NS):
        at = x(zero_ns + round(second * SECOND_NS))
        parts.append(f'<text x="{at}" y="{HEIGHT - 6}" text-anchor="middle">{second:g} s</text>')
    for index, device in enumerate(devices):
        points = [(x(time), y(value)) for time, value in _curve(device) if time >= first_ns]
        path = " ".join(f"{px},{py}" for px, py in points)
        parts.append(f'<polyline class="device device{index % 8}" points="{path}"/>')
    return "".join([*parts, "</svg>"])


def traced_devices(record: RunRecord) -> list[DeviceTelemetry]:
    """The devices that the trace has a curve for, in the order of their colours."""
    devices = record.telemetry.devices
    return [device for device in devices if any(v is not None for v in device.series.get("utilization_percent", []))]


def _curve(device: DeviceTelemetry) -> list[tuple[int, float]]:
    """Known samples, thinned by taking means of neighbours where there are more than fit."""
    values = device.series["utilization_percent"]
    known = [(time, value) for time, value in zip(device.time_ns, values, strict=False) if value is not None]
    size = -(-len(known) // MOST_POINTS)
    return [_mean(known[start : start + size]) for start in range(0, len(known), size)]


def _mean(samples: Sequence[tuple[int, float]]) -> tuple[int, float]:
    return sum(time for time, _ in samples) // len(samples), sum(value for _, value in samples) / len(samples)


def _ticks(first: float, last: float) -> list[float]:
    """Round numbers of seconds, at most about eight of them."""
    span = max(last - first, 1e-9)
    steps = [base * 10**power for power in range(-3, 7) for base in (1, 2, 5)]
    step = next((step for step in steps if span / step <= 8), span)
    count = int((last - first) / step) + 2
    start = -int(-first // step) if first > 0 else -int(-first / step)
    return [tick for i in range(count) if first <= (tick := round((start + i) * step, 6)) <= last]
