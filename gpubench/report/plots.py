"""Scaling plots: throughput against devices with the ideal line, and scaling efficiency with its intervals.

One figure for each machine, workload, precision and kind of scaling. Points are measurements, joined only within a
series; nothing is fitted. Two batches are two series, with marks and dashes of their own. The thin dotted lines are
each framework's `single` on one device, times devices.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from textwrap import fill

from gpubench.report.canvas import sns, style  # isort: skip  (before any part of matplotlib: see there)
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from gpubench.analysis.scaling import CaseSummary
from gpubench.report.curves import MARKERS, Curve, curves_of, short, value
from gpubench.report.words import clean, device_noun, figure, known, title

__all__ = [
    "MARKERS",
    "Form",
    "drawn_of",
    "figures_of",
    "image_bytes",
    "scaling_figure",
    "short",
    "style",
    "svg",
    "write_plots",
]

LONGEST_MACHINE = 60  # characters of a machine's label in a file's name
LOG_FROM = 8  # devices; up to there a linear axis shows more
SUFFIXES = ("png", "svg", "pdf")
STACKED_BELOW = 6.0  # inches; in a narrower figure one panel stands above the other
SMALL_BELOW = 9.0  # inches; a narrower figure is printed at its size, in a paper's small type
MOST_TICKS = 9
MOST_FIGURES = 16  # of one report: each takes half a second, as picture, vectors and part of the page


@dataclass(frozen=True)
class Form:
    """How plots are written: as which of SUFFIXES, how wide, and with which title instead of the case's own."""

    suffixes: Sequence[str] = ("png", "svg")
    width_inches: float = 10.5
    heading: str = ""

    @property
    def is_stacked(self) -> bool:
        return self.width_inches < STACKED_BELOW

    @property
    def points(self) -> float:
        """Size of most of the text."""
        return 7.0 if self.width_inches < SMALL_BELOW else 9.0

    def letters(self, points: float) -> int:
        """How many fit on a line: a letter is about half as wide as it is high."""
        return max(20, int(self.width_inches * 72 / (0.56 * points)))


USUAL = Form()


def write_plots(summaries: Sequence[CaseSummary], folder: Path, form: Form = USUAL) -> list[Path]:
    """The report's figures in `folder`, in each of the form's formats; names say whether of CPU shares or GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, members in drawn_of(summaries).items():
        drawn = scaling_figure(members, title(members, summaries), form)
        for suffix in form.suffixes:
            path = folder / f"{name}.{suffix}"
            path.unlink(missing_ok=True)  # a link is replaced, not followed
            path.write_bytes(image_bytes(drawn, suffix))
            written.append(path)
    return written


def figures_of(summaries: Sequence[CaseSummary]) -> dict[str, list[CaseSummary]]:
    """File name to the cases of that figure: 'resnet20-fp32-weak-cpu-shares', with the machine where there are several.

    No figure where no case has a number.
    """
    figures: dict[tuple[str, tuple[str, ...]], list[CaseSummary]] = {}
    several = len({summary.machine_label for summary in summaries}) > 1
    for summary in summaries:
        case = summary.case
        devices = "cpu-shares" if case.device_kind == "cpu" else "gpu"
        words = [case.workload, case.precision, case.scaling, devices]
        words += [summary.machine_label[:LONGEST_MACHINE]] if several else []
        figures.setdefault((summary.machine_label, tuple(words)), []).append(summary)
    named: dict[str, list[CaseSummary]] = {}
    for (_, named_by), cases in figures.items():
        name = stem = re.sub(r"[^A-Za-z0-9_-]+", "_", "-".join(named_by)).rstrip("_")
        while name in named:  # 'a b' and 'a/b' come to the same file name
            name = f"{stem}-{len(named)}"
        if any(known(case.samples_per_second) for case in cases):
            named[name] = cases
    return named


def drawn_of(summaries: Sequence[CaseSummary]) -> dict[str, list[CaseSummary]]:
    """The first of the figures, as many as a report draws."""
    return dict(islice(figures_of(summaries).items(), MOST_FIGURES))


def scaling_figure(summaries: Sequence[CaseSummary], measured_on: str | None = None, form: Form = USUAL) -> Figure:
    """Two panels for cases of one machine, workload, precision, kind of scaling and kind of device.

    `measured_on` is the title's second line, by default the devices: no title replaces it.
    """
    measured_on = title(summaries) if measured_on is None else measured_on
    missing = [summary for summary in summaries if known(summary.samples_per_second) is None]
    summaries = [summary for summary in summaries if known(summary.samples_per_second) is not None]
    curves = curves_of(summaries)
    with style(form.points):
        drawn = Figure(layout="constrained")
        FigureCanvasAgg(drawn)
        left, right, beside = _panels(drawn, form, len(curves) + 1)
        _throughput(left, curves, summaries)
        _efficiency(right, curves)
        for axes in (left, right):
            _device_axis(axes, summaries, form)
            sns.despine(ax=axes)
        case = summaries[0].case
        heading = clean(form.heading) or f"{short(case.workload)}, {short(case.precision)}, {case.scaling} scaling"
        lines = [fill(line, form.letters(form.points + 2)) for line in (heading, measured_on)]
        drawn.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=form.points + 2)
        if missing:
            several = len({summary.series[-1] for summary in [*summaries, *missing]}) > 1
            told = "Without a number: " + "; ".join(_reason(summary, several) for summary in missing)
            drawn.supxlabel(fill(told, form.letters(form.points - 1)), x=0.01, ha="left", fontsize=form.points - 1)
        ideal = Line2D([], [], color="0.5", linewidth=1, linestyle=":", label="ideal, from single")
        handles = [*(curve.handle() for curve in curves), ideal]
        if beside is None:
            drawn.legend(handles=handles, loc="outside right upper", frameon=False)
        else:
            beside.axis("off")
            columns = _legend_columns(curves)
            beside.legend(handles=handles, loc="upper left", borderaxespad=0, frameon=False, ncols=columns)
    return drawn


def _panels(drawn: Figure, form: Form, entries: int) -> tuple[Axes, Axes, Axes | None]:
    """Throughput, efficiency, and the place for the legend where it does not stand at the figure's side."""
    width, line = form.width_inches, 1.6 * form.points / 72
    if form.is_stacked:
        panel, legend = 0.66 * width, entries * line
        drawn.set_size_inches(width, 2 * panel + legend + 4 * line)
        first, second, third = drawn.subplots(3, 1, height_ratios=(panel, panel, legend))
        return first, second, third
    drawn.set_size_inches(width, max(0.42 * width, entries * line + 4 * line))
    first, second = drawn.subplots(1, 2)
    return first, second, None


def svg(drawn: Figure) -> str:
    """The same text for the same figure, whenever and wherever it is drawn."""
    return image_bytes(drawn, "svg").decode()


def image_bytes(drawn: Figure, suffix: str) -> bytes:
    out = io.BytesIO()
    metadata = {"svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None}}[suffix]
    dots = 150 if drawn.get_figwidth() >= SMALL_BELOW else 300
    with style():
        drawn.savefig(out, format=suffix, dpi=dots, metadata=metadata)
    return out.getvalue()


def _reason(summary: CaseSummary, several_batches: bool) -> str:
    case = summary.case
    name = short(f"{case.framework} {case.strategy}")
    batch = f", batch {summary.series[-1]:,}" if several_batches else ""
    return f"{name} on {case.n_devices}{batch}: {short(summary.no_number.name) if summary.no_number else ''}"


def _throughput(axes: Axes, curves: Sequence[Curve], summaries: Sequence[CaseSummary]) -> None:
    most = max(summary.case.n_devices for summary in summaries)
    for curve in curves:
        for base in (summary for summary in curve.cases if summary.is_baseline):
            rate = value(base.samples_per_second)
            axes.plot([1, most], [rate, rate * most], color=curve.color, linewidth=1, linestyle=":", zorder=1)
    for curve in curves:
        ys = [value(summary.samples_per_second) for summary in curve.cases]
        curve.draw(axes, [summary.case.n_devices for summary in curve.cases], ys)
    axes.set(title="Throughput", ylabel="samples/s")
    if most >= LOG_FROM:
        low, high = axes.dataLim.intervaly
        axes.set_ylim(low / 1.25, high * 1.25)  # also where all are alike
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.05 * axes.dataLim.ymax)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: figure(number)))


def _efficiency(axes: Axes, curves: Sequence[Curve]) -> None:
    """Series stand a little beside one another, so that their error bars can be told apart.

    The baselines are left out: they are 1 by definition.
    """
    axes.set(title="Scaling efficiency, 95 % intervals", ylabel="efficiency (1 is ideal)", ylim=(0, 1.1))
    axes.axhline(1.0, color="0.5", linewidth=1, linestyle=":", zorder=1)
    shown = [(curve, [one for one in curve.cases if _has_efficiency(one)]) for curve in curves]
    shown = [(curve, cases) for curve, cases in shown if cases]
    if not shown:
        axes.text(0.5, 0.5, "nothing to compare with\nsingle on one device", ha="center", transform=axes.transAxes)
        return
    most = max(summary.case.n_devices for curve in curves for summary in curve.cases)
    step = (0.25 if most >= LOG_FROM else 0.04 * most) / max(1, len(shown) - 1)
    tops = [1.05]
    for index, (curve, cases) in enumerate(shown):
        shift = (index - (len(shown) - 1) / 2) * step
        xs = [one.case.n_devices * 2**shift if most >= LOG_FROM else one.case.n_devices + shift for one in cases]
        for x, summary in zip(xs, cases, strict=True):
            interval = summary.scaling_efficiency_interval
            if interval is not None and None not in (known(interval.low), known(interval.high)):
                axes.vlines(x, interval.low, interval.high, color=curve.color, linewidth=2, alpha=0.7)
                tops.append(interval.high)
        ys = [value(summary.scaling_efficiency) for summary in cases]
        curve.draw(axes, xs, ys)
        tops += ys
    axes.set_ylim(0, max(tops) * 1.04)


def _has_efficiency(summary: CaseSummary) -> bool:
    return not summary.is_baseline and known(summary.scaling_efficiency) is not None


def _device_axis(axes: Axes, summaries: Sequence[CaseSummary], form: Form) -> None:
    counts = sorted({summary.case.n_devices for summary in summaries})
    kind = summaries[0].case.device_kind
    if counts[-1] >= LOG_FROM:
        axes.set_xscale("log", base=2)
        axes.set_xlim(2**-0.25, counts[-1] * 2**0.25)
    else:
        axes.set_xlim(1 - 0.12 * counts[-1], counts[-1] * 1.12)
    ticks = counts if len(counts) <= MOST_TICKS else [n for n in counts if n & (n - 1) == 0 or n == counts[-1]]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([str(count) for count in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    cores = sorted({summary.case.cores_per_device for summary in summaries})
    each = f" of {cores[0]} core{'s' if cores[0] != 1 else ''}" if kind == "cpu" and len(cores) == 1 else ""
    axes.set_xlabel(device_noun(kind) + each)


def _legend_columns(curves: Sequence[Curve]) -> int:
    """Two where the names leave room for it."""
    return 2 if max(len(curve.label) for curve in curves) <= 20 else 1
