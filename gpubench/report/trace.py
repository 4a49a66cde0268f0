"""What the devices did over one launch: utilisation, power and clock on one time axis, as small SVGs inside a page.

Drawn as text made of numbers and fixed words, without ids, colours or styles of its own: the page's style sheet gives
them, dark or light. A plot is ACROSS by UP units that stretch to any width; the labels around it do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from markupsafe import Markup

from gpubench.report.marks import Mark, held_marks, held_notes, joined, known, load_notes, round_marks
from gpubench.report.words import clean, short
from gpubench.spec.record import DeviceTelemetry, Round, RunRecord

ACROSS, UP = 1000, 100
PLOT_PIXELS, LABEL_PIXELS, EDGE_PIXELS = 60, 18, 6
MOST_POINTS = 400  # of a curve; a page may have hundreds
MOST_OVERLAID = 4  # curves that can still be told apart in one plot
MOST_PANELS = 16
MOST_ROUNDS = 200  # that are shaded one by one
MOST_TICKS = 6
HOLE = 5  # usual gaps between readings, from which on a curve is interrupted
SECOND_NS = 10**9

Point = tuple[float, float]  # units across, value


@dataclass(frozen=True)
class Panel:
    title: str
    svg: Markup


@dataclass(frozen=True)
class Trace:
    """One launch. `devices` are in the order of their colours; `panels` show them one by one where they are many.

    `marks` are the kinds that occur; `notes` say what was marked, in words; `missing` says of a metric that no
    device could tell why not.
    """

    devices: list[str]
    panels: list[Panel]
    rows: list[Panel]
    marks: set[str]
    notes: list[str]
    missing: dict[str, str]


def trace(record: RunRecord) -> Trace | None:
    """None where nothing was sampled, or nothing timed."""
    titles = _titles(record)
    metrics = [metric for metric in titles if any(_has(device, metric) for device in record.telemetry.devices)]
    devices = [device for device in record.telemetry.devices if any(_has(device, metric) for metric in metrics)]
    if not devices or not record.rounds:
        return None
    control = record.telemetry.control
    held = {device.id: held_marks(device, record.rounds, control) for device in devices}
    rounds = round_marks(record)
    plot = _Plot(_Window.of(record.rounds, control, devices), rounds, control)
    many = len(devices) > MOST_OVERLAID
    panels = []
    if many and "utilization_percent" in metrics:
        panels = [
            Panel(short(device.id), plot.draw([device], "utilization_percent", held[device.id], ticks=MOST_TICKS // 2))
            for device in devices[:MOST_PANELS]
        ]
        metrics.remove("utilization_percent")
    everywhere = [mark for marks in held.values() for mark in marks]
    rows = [
        Panel(
            titles[metric],
            plot.draw(
                devices,
                metric,
                everywhere if metric == metrics[-1] else [],
                ticks=MOST_TICKS if metric == metrics[-1] else 0,
                as_band=many,
            ),
        )
        for metric in metrics
    ]
    return Trace(
        devices=[short(device.id) for device in devices],
        panels=panels,
        rows=rows,
        marks={mark.kind for mark in [*rounds, *everywhere]},
        notes=[
            *([f"The first {MOST_PANELS} of {len(devices)} devices."] if len(devices) > len(panels) > 0 else []),
            *held_notes(held, record.rounds),
            *load_notes(record),
        ],
        missing={
            title.partition(",")[0]: clean(reason)
            for metric, title in titles.items()
            if not any(_has(device, metric) for device in devices) and (reason := devices[0].unavailable.get(metric))
        },
    )


def why_not(record: RunRecord) -> str:
    """Why a launch that `trace` has nothing of could not be drawn."""
    telemetry = record.telemetry
    if telemetry.series_file and not any(device.time_ns for device in telemetry.devices):
        return f"its readings are in {clean(telemetry.series_file)}, which was not there to be read"
    if not telemetry.devices:
        return clean(telemetry.reason or "no device was sampled")
    reasons = {device.unavailable.get("utilization_percent") for device in telemetry.devices} - {None}
    return (
        clean("; ".join(sorted(filter(None, reasons)))) or "the record has no readings of utilisation, power or clock"
    )


@dataclass(frozen=True)
class _Window:
    """The time that a trace shows; `zero_ns` is the start of the first round."""

    first_ns: int
    last_ns: int
    zero_ns: int

    @staticmethod
    def of(rounds: Sequence[Round], control: Round | None, devices: Sequence[DeviceTelemetry]) -> _Window:
        """A long start or end would squeeze the rounds, so at most a third of their time is shown of either."""
        shown = [*rounds, *([control] if control else [])]
        zero_ns, end_ns = min(each.start_ns for each in rounds), max(each.end_ns for each in shown)
        start_ns = min(each.start_ns for each in shown)
        margin_ns = (end_ns - start_ns) // 3
        times = [time for device in devices for time in device.time_ns]
        return _Window(
            max(min([start_ns, *times]), start_ns - margin_ns),
            min(max([end_ns, *times]), end_ns + margin_ns),
            zero_ns,
        )

    def x(self, time_ns: float) -> float:
        """Units across; held at the edges."""
        share = (time_ns - self.first_ns) / max(1, self.last_ns - self.first_ns)
        return ACROSS * min(1.0, max(0.0, share))

    def ticks(self, most: int) -> list[float]:
        """Round numbers of seconds, about `most` of them."""
        first, last = ((time - self.zero_ns) / SECOND_NS for time in (self.first_ns, self.last_ns))
        step = _round_number((last - first) / most)
        return [step * i for i in range(math.ceil(first / step), math.floor(last / step) + 1)]


@dataclass(frozen=True)
class _Plot:
    """Draws metrics over the same time, with the same rounds behind them."""

    window: _Window
    rounds: Sequence[Mark]
    control: Round | None

    def draw(
        self,
        devices: Sequence[DeviceTelemetry],
        metric: str,
        held: Sequence[Mark],
        *,
        ticks: int,
        as_band: bool = False,
    ) -> Markup:
        curves = [self._curve(device, metric) for device in devices]
        highest = max((value for curve in curves for piece in curve for _, value in piece), default=0.0)
        top = 100.0 if metric == "utilization_percent" else _round_number(highest, (1, 2, 4, 6, 8))
        drawn = _band(curves, top) if as_band else _lines(curves, top)
        height = EDGE_PIXELS + PLOT_PIXELS + (LABEL_PIXELS if ticks else EDGE_PIXELS)
        return Markup("").join(
            [
                Markup('<svg class="plot" height="{}" role="img" aria-label="{} over time">').format(
                    height, metric.replace("_", " ")
                ),
                Markup('<svg y="{}" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">').format(
                    EDGE_PIXELS, PLOT_PIXELS, ACROSS, UP
                ),
                *self._shades(self.rounds, 1),
                *(Markup('<line class="grid" x2="{0}" y1="{1}" y2="{1}"/>').format(ACROSS, y) for y in (0, 50, 100)),
                *self._shades(held, 2),
                *drawn,
                Markup("</svg>"),
                *(
                    Markup('<text class="level" x="-6" y="{}">{}</text>').format(
                        EDGE_PIXELS + 4 + round(PLOT_PIXELS * (1 - share)), f"{top * share:,g}"
                    )
                    for share in (0, 0.5, 1)
                ),
                *(self._seconds(ticks, height) if ticks else []),
                Markup("</svg>"),
            ]
        )

    def _curve(self, device: DeviceTelemetry, metric: str) -> list[list[Point]]:
        """Unbroken pieces; thinned by taking means of neighbours where there are more than can be seen."""
        window, control = self.window, self.control
        inside = [(time, value) for time, value in known(device, metric) if window.first_ns <= time <= window.last_ns]
        size = -(-len(inside) // MOST_POINTS)
        parts = [inside]
        if control is not None:  # nothing was read there, and what lies around it must not be joined across it
            parts = [[p for p in inside if p[0] < control.end_ns], [p for p in inside if p[0] >= control.end_ns]]
        means = [[_mean(part[i : i + size]) for i in range(0, len(part), size)] for part in parts if part]
        return [[(window.x(time), value) for time, value in piece] for part in means for piece in _unbroken(part)]

    def _shades(self, marks: Sequence[Mark], least: float) -> Iterable[Markup]:
        """One rectangle each; those of a kind that are too many or too close to be told apart become one."""
        for kind in dict.fromkeys(mark.kind for mark in marks):
            spans = [(mark.start_ns, mark.end_ns) for mark in marks if mark.kind == kind]
            if kind in ("held", "capped") or len(spans) > MOST_ROUNDS:
                spans = joined(spans, (self.window.last_ns - self.window.first_ns) // MOST_ROUNDS)
            for start_ns, end_ns in spans:
                x = self.window.x(start_ns)
                width = max(least, self.window.x(end_ns) - x)
                # What is usual is a thin bar at the bottom, what is not covers all.
                y, height = (UP - 6, 6) if kind == "capped" else (0, UP)
                yield Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>').format(
                    kind, x, y, width, height
                )

    def _seconds(self, ticks: int, height: int) -> Iterable[Markup]:
        for second in self.window.ticks(ticks):
            share = self.window.x(self.window.zero_ns + second * SECOND_NS) / ACROSS
            yield Markup('<text class="second" x="{:.2f}%" y="{}">{:g} s</text>').format(
                100 * share, height - 4, second
            )


def _titles(record: RunRecord) -> dict[str, str]:
    clock = "SM clock" if record.case.device_kind == "gpu" else "Frequency of the cores"
    return {"utilization_percent": "Utilisation, %", "power_watts": "Power, W", "sm_clock_mhz": f"{clock}, MHz"}


def _has(device: DeviceTelemetry, metric: str) -> bool:
    return any(value is not None for value in device.series.get(metric, []))


def _lines(curves: Sequence[list[list[Point]]], top: float) -> Iterable[Markup]:
    for index, curve in enumerate(curves):
        for piece in curve:
            yield Markup('<polyline class="device device{}" points="{}"/>').format(index % 8, _points(piece, top))


def _band(curves: Sequence[list[list[Point]]], top: float) -> Iterable[Markup]:
    """The median over the devices, and from the lowest to the highest, at the times of the first one."""
    whole = [np.array([point for piece in curve for point in piece]) for curve in curves if curve]
    for piece in next((curve for curve in curves if curve), []):
        xs = [x for x, _ in piece]
        values = np.array([np.interp(xs, curve[:, 0], curve[:, 1]) for curve in whole])
        low, middle, high = (
            list(zip(xs, row.tolist(), strict=True)) for row in np.quantile(values, (0, 0.5, 1), axis=0)
        )
        yield Markup('<polygon class="band" points="{} {}"/>').format(_points(high, top), _points(low[::-1], top))
        yield Markup('<polyline class="middle" points="{}"/>').format(_points(middle, top))


def _points(points: Sequence[Point], top: float) -> str:
    """A lone reading is drawn as a dot, which is a line to itself."""
    drawn = [f"{x:.1f},{UP * (1 - min(1.0, max(0.0, value / top))):.1f}" for x, value in points]
    return " ".join(drawn * 2 if len(drawn) == 1 else drawn)


def _unbroken(points: Sequence[Point]) -> list[list[Point]]:
    """Cut at gaps that are far longer than is usual."""
    gaps = [after - before for (before, _), (after, _) in pairwise(points)]
    longest = HOLE * median(gaps) if gaps else 0
    pieces = [[points[0]]]
    for point, gap in zip(points[1:], gaps, strict=True):
        if gap > longest:
            pieces.append([])
        pieces[-1].append(point)
    return pieces


def _mean(samples: Sequence[tuple[int, float]]) -> Point:
    return sum(time for time, _ in samples) / len(samples), sum(value for _, value in samples) / len(samples)


def _round_number(least: float, bases: Sequence[int] = (1, 2, 5)) -> float:
    """One of `bases` times a power of ten, not below `least`."""
    if least < 1e-9:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(least))
    return next((base * power for base in bases if base * power >= least), 10 * power)
