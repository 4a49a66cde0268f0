"""Plots of a comparison: every ratio with its interval, and throughput against what a sample costs and takes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from gpubench.report.canvas import sns, style  # isort: skip  (before any part of matplotlib: see there)
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.study import Row, Study
from gpubench.analysis.verdict import MARGIN
from gpubench.report.plots import MARKERS, image_bytes, short
from gpubench.report.units import scale_of
from gpubench.report.words import figure, title

LOG_FROM = 3.0  # where the largest ratio is so many times the smallest


def figures_of(study: Study) -> dict[str, Figure]:
    """File name to plot: 'ratios-cpu-shares', 'costs-mlp-cpu-shares'. One that has nothing to show is not there."""
    on_cpu = any(summary.case.device_kind == "cpu" for summary in study.summaries)
    noun = "cpu-shares" if on_cpu else "gpu"
    drawn = {f"ratios-{noun}": ratio_figure(study)}
    for workload in dict.fromkeys(summary.case.workload for summary in study.summaries):
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", workload)
        drawn[f"costs-{name}-{noun}"] = pareto_figure(study, workload)
    return {name: each for name, each in drawn.items() if each is not None}


def write_plots(study: Study, folder: Path) -> list[Path]:
    """PNG and SVG of every plot, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, drawn in figures_of(study).items():
        for suffix in ("png", "svg"):
            path = folder / f"{name}.{suffix}"
            path.unlink(missing_ok=True)  # a link is replaced, not followed
            path.write_bytes(image_bytes(drawn, suffix))
            written.append(path)
    return written


def ratio_figure(study: Study) -> Figure | None:
    """A line for each case and side: the ratio, its interval, and the band that counts as the same.

    Hollow where the work differs too. None where there is no ratio.
    """
    rows = [row for group in study.groups for row in group if row.pair and row.pair.ratio is not None]
    if not rows:
        return None
    looks = _looks(study)
    with style():
        drawn = Figure(figsize=(9.0, 1.7 + 0.34 * len(rows)), layout="constrained")
        FigureCanvasAgg(drawn)
        axes = drawn.subplots()
        axes.axvspan(1 / (1 + MARGIN), 1 + MARGIN, color="0.85", zorder=0)
        axes.axvline(1, color="0.4", linewidth=1, zorder=1)
        for y, row in enumerate(reversed(rows)):
            _ratio(axes, y, row, looks[row.side.name])
        axes.set_yticks(range(len(rows)), [short(row.summary.case.id, 48) for row in reversed(rows)])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.grid(visible=False, axis="y")
        _ratio_axis(axes, [row.pair.ratio or 1.0 for row in rows if row.pair])
        reference = short(study.comparison.reference.name, 60)
        axes.set_xlabel(f"throughput over that of {reference}; bars are 95 % intervals, the grey band is “the same”")
        sns.despine(ax=axes, left=True)
        drawn.suptitle(_heading("How many times as fast", study), x=0.01, ha="left", fontsize=11)
        names = [side.name for side in study.comparison.sides[1:]]
        handles: list[Any] = [_handle(name, looks) for name in names]
        if any(row.pair and row.pair.unlike for row in rows):
            handles.append(Line2D([], [], marker="o", color="0.3", markerfacecolor="white", linestyle="none"))
            names.append("hollow: the work differs too")
        drawn.legend(handles, [short(name) for name in names], loc="outside right upper", frameon=False, fontsize=9)
    return drawn


def pareto_figure(study: Study, workload: str) -> Figure | None:
    """Throughput against cost (the cheaper way of paying) and energy; None where no case has these on two sides.

    Up and to the left is better. A thin line joins the sides of one case, and nothing else.
    """
    panels: list[tuple[str, Callable[[Row], Estimate]]] = []
    groups = [group for group in study.groups if group[0].summary.case.workload == workload]
    ways = {_way(row) for group in groups for row in group} - {""}
    if _comparable(groups, _cost):
        scale = scale_of(_cost(row) for group in groups for row in group)
        label = f"{study.currency} per {scale.name} samples, {ways_in_words(ways)}"
        panels.append((label, lambda row: combined(lambda cost: cost * scale.per_million, _cost(row))))
    if _comparable(groups, lambda row: row.joules_per_sample):
        panels.append(("joules per sample", lambda row: row.joules_per_sample))
    if not panels:
        return None
    looks = _looks(study)
    with style():
        drawn = Figure(figsize=(9.0, 3.6), layout="constrained")
        FigureCanvasAgg(drawn)
        for axes, (label, value) in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            for group in groups:
                _pareto(axes, group, value, looks, hollow=len(ways) > 1 and label.startswith(f"{study.currency} per"))
            axes.set(xlabel=label, ylabel="samples/s")
            _log_axes(axes)
            sns.despine(ax=axes)
        what = f"{short(workload)}: throughput against cost; up and to the left is better"
        heading = _heading(what, study)
        drawn.suptitle(heading, x=0.01, ha="left", fontsize=11)
        handles = [_handle(side.name, looks) for side in study.comparison.sides]
        labels = [short(side.name) for side in study.comparison.sides]
        drawn.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    return drawn


def _ratio(axes: Axes, y: int, row: Row, look: dict[str, Any]) -> None:
    pair = row.pair
    assert pair is not None
    assert pair.ratio is not None
    if pair.interval is not None:
        axes.hlines(y, pair.interval.low, pair.interval.high, color=look["color"], linewidth=2.5, alpha=0.75)
    face = "white" if pair.unlike else look["color"]
    axes.plot([pair.ratio], [y], **look, markersize=7, markerfacecolor=face, linestyle="none")


def _pareto(
    axes: Axes, group: Sequence[Row], value: Callable[[Row], Estimate], looks: dict[str, Any], *, hollow: bool
) -> None:
    """`hollow` is whether rented machines are drawn so."""
    points: list[tuple[float, float]] = []
    for row in group:
        x, y, look = value(row).value, row.summary.samples_per_second, looks[row.side.name]
        if not x or y is None:  # nothing to pay has no place on a logarithmic axis
            continue
        interval, rate = value(row).interval, row.summary.samples_per_second_interval
        if interval is not None:
            axes.hlines(y, interval.low, interval.high, color=look["color"], linewidth=1.5)
        if rate is not None:
            axes.vlines(x, rate.low, rate.high, color=look["color"], linewidth=1.5)
        is_hollow = hollow and _way(row) == "rented"
        face: dict[str, Any] = {"markerfacecolor": "white"} if is_hollow else {"markeredgecolor": "white"}
        axes.plot([x], [y], **look, markersize=7, **face, linestyle="none")
        points.append((x, y))
    if points:
        axes.plot(*zip(*points, strict=True), color="0.6", linewidth=0.8, zorder=1)
        below = (math.sqrt(min(points)[0] * max(points)[0]), min(y for _, y in points))
        text: dict[str, Any] = {"textcoords": "offset points", "xytext": (0, -15), "fontsize": 8, "color": "0.3"}
        axes.annotate(short(group[0].summary.case.id, 40), below, ha="center", **text)


def _comparable(groups: Sequence[Sequence[Row]], value: Callable[[Row], Estimate]) -> bool:
    """A panel takes two sides of one case; a single point compares nothing."""
    return any(sum(value(row).value is not None for row in group) > 1 for group in groups)


def _cost(row: Row) -> Estimate:
    known = [each for each in (row.bought_per_million, row.rented_per_million) if each.value is not None]
    return min(known, key=lambda each: each.value or 0.0, default=row.bought_per_million)


def _way(row: Row) -> str:
    """Which of the two the cost of a row is: the cheaper; nothing where it has none."""
    cost = _cost(row)
    if cost.value is None:
        return ""
    return "bought" if cost is row.bought_per_million else "rented"


def ways_in_words(ways: set[str]) -> str:
    """How the machines of a plot are paid for, for its axis."""
    if ways == {"rented"}:
        return "rented"
    if ways == {"bought"}:
        return "bought at the stated use"
    return "hollow: rented,\nfilled: bought at the stated use (of the two, the cheaper)"


def _looks(study: Study) -> dict[str, dict[str, Any]]:
    """Colour and marker of each side, the same in all plots."""
    names = [side.name for side in study.comparison.sides]
    colors = sns.color_palette("colorblind", len(names))
    return {name: {"color": colors[i], "marker": MARKERS[i % len(MARKERS)]} for i, name in enumerate(names)}


def _handle(name: str, looks: dict[str, dict[str, Any]]) -> Line2D:
    return Line2D([], [], linestyle="none", markersize=7, **looks[name])


def _heading(what: str, study: Study) -> str:
    return f"{what}\n{fill(title(study.summaries), 110)}"


def _ratio_axis(axes: Axes, ratios: Sequence[float]) -> None:
    lowest, highest = min([1.0, *ratios]), max([1.0, *ratios])
    if highest / lowest >= LOG_FROM:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: figure(value)))


def _log_axes(axes: Axes) -> None:
    """Machines differ by factors, so both axes are logarithmic, with plain numbers on them."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(0.25)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        steps = (1, 1.5, 2, 3, 5, 7) if high / low < 10 else (1, 2, 5) if high / low < 100 else (1,)
        axis.set_major_locator(LogLocator(subs=steps))
        axis.set_major_formatter(FuncFormatter(lambda value, _: figure(value, 2)))
        axis.set_minor_formatter(NullFormatter())
