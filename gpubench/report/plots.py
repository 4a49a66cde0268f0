"""Scaling plots: throughput against devices with the ideal line, and scaling efficiency with its intervals.

One figure for each machine, workload, precision and kind of scaling. Points are measurements, joined only within a
series; nothing is fitted. Two batches are two series, with marks and dashes of their own. The thin dotted lines are
each framework's `single` on one device, times devices.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd

from gpubench.report.canvas import sns, style  # isort: skip  (before any part of matplotlib: see there)
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from gpubench.analysis.scaling import CaseSummary
from gpubench.report.words import clean, device_noun, figure, title

LONGEST_MACHINE = 60  # characters of a machine's label in a file's name
LOG_FROM = 8  # devices; up to there a linear axis shows more
MARKERS = ("o", "s", "^", "D", "v", "<", ">", "p", "h", "*")
_DASHES = ("", (5, 1.5), (1.5, 1.5), (5, 1.5, 1.5, 1.5), (8, 2), (3, 1), (1, 2), (6, 1, 1, 1, 1, 1), (2, 3), (4, 4))


def write_plots(summaries: Sequence[CaseSummary], folder: Path) -> list[Path]:
    """PNG and SVG of every figure, in `folder`; names say whether of CPU shares or GPUs."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, members in figures_of(summaries).items():
        drawn = scaling_figure(members, title(members, summaries))
        for suffix in ("png", "svg"):
            path = folder / f"{name}.{suffix}"
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
        if any(case.samples_per_second for case in cases):
            named[name] = cases
    return named


def scaling_figure(summaries: Sequence[CaseSummary], measured_on: str | None = None) -> Figure:
    """Two panels for cases of one machine, workload, precision, kind of scaling and kind of device.

    `measured_on` is the title's second line, by default the devices.
    """
    measured_on = title(summaries) if measured_on is None else measured_on
    missing = [summary for summary in summaries if summary.samples_per_second is None]
    summaries = [summary for summary in summaries if summary.samples_per_second is not None]
    with style():
        drawn = Figure(figsize=(10.5, 4.4), layout="constrained")
        FigureCanvasAgg(drawn)
        left, right = drawn.subplots(1, 2)
        points = _points(summaries)
        looks = _Looks(points)
        _throughput(left, points, summaries, looks)
        _efficiency(right, points, looks)
        for axes in (left, right):
            _device_axis(axes, summaries)
            sns.despine(ax=axes)
        case = summaries[0].case
        heading = f"{short(case.workload)}, {short(case.precision)}, {case.scaling} scaling"
        drawn.suptitle(f"{heading}\n{measured_on}", x=0.01, ha="left", fontsize=11)
        if missing:
            several = len({summary.series[-1] for summary in [*summaries, *missing]}) > 1
            told = "Without a number: " + "; ".join(_reason(summary, several) for summary in missing)
            drawn.supxlabel(fill(told, 150), x=0.01, ha="left", fontsize=8)
        drawn.legend(handles=looks.legend(points), loc="outside right upper", frameon=False, fontsize=9)
    return drawn


def svg(drawn: Figure) -> str:
    """The same text for the same figure, whenever and wherever it is drawn."""
    return image_bytes(drawn, "svg").decode()


def image_bytes(drawn: Figure, suffix: str) -> bytes:
    out = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {"Software": None}
    with style():
        drawn.savefig(out, format=suffix, dpi=150, metadata=metadata)
    return out.getvalue()


def _reason(summary: CaseSummary, several_batches: bool) -> str:
    case = summary.case
    name = short(f"{case.framework} {case.strategy}")
    batch = f", batch {summary.series[-1]}" if several_batches else ""
    return f"{name} on {case.n_devices}{batch}: {short(summary.no_number.name) if summary.no_number else ''}"


def short(text: str, most: int = 36) -> str:
    """A name that leaves room for the plot."""
    text = clean(text)
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _points(summaries: Sequence[CaseSummary]) -> pd.DataFrame:
    """One row a case. `label` names its series as shortly as tells it from the others."""
    sizes = {summary.series[-1] for summary in summaries}
    rows = []
    for summary in summaries:
        case, interval = summary.case, summary.scaling_efficiency_interval
        batch = [f"batch {summary.series[-1]}"] if len(sizes) > 1 else []
        words = [case.framework, case.strategy, *batch]
        rows.append(
            {
                "framework": case.framework,
                "look": " ".join([case.strategy, *batch]),
                "order": (case.strategy != "single", case.strategy, summary.series[-1]),
                "label": short(" ".join(words)),
                "series": str(summary.series),
                "is_baseline": summary.is_baseline,
                "devices": case.n_devices,
                "throughput": summary.samples_per_second,
                "efficiency": summary.scaling_efficiency,
                "low": None if interval is None else interval.low,
                "high": None if interval is None else interval.high,
            }
        )
    columns = {"efficiency": float, "low": float, "high": float}
    return pd.DataFrame(rows).astype(columns).sort_values(["framework", "order", "devices"])


def _marker(index: int) -> str | tuple[int, int, int]:
    """A marker that no other index has: once the named ones are used, stars of more and more points."""
    return MARKERS[index] if index < len(MARKERS) else (6 + index - len(MARKERS), 1, 0)


class _Looks:
    """Colour by framework, marker and dashes by strategy and batch: the same in both panels and in the legend."""

    def __init__(self, points: pd.DataFrame) -> None:
        frameworks = sorted(points["framework"].unique())
        looks = list(points.sort_values("order")["look"].unique())
        colors = sns.color_palette("colorblind", len(frameworks))
        self.palette = dict(zip(frameworks, colors, strict=True))
        self.markers = {name: _marker(i) for i, name in enumerate(looks)}
        self.dashes = {name: _DASHES[i % len(_DASHES)] for i, name in enumerate(looks)}

    def draw(self, axes: Axes, points: pd.DataFrame, y: str) -> None:
        sns.lineplot(
            points,
            x="devices",
            y=y,
            hue="framework",
            style="look",
            units="series",
            estimator=None,
            palette=self.palette,
            markers=self.markers,
            dashes=self.dashes,
            legend=False,
            markersize=7,
            ax=axes,
        )

    def legend(self, points: pd.DataFrame) -> list[Line2D]:
        handles = []
        for (_, label), rows in points.groupby(["series", "label"], sort=False):
            framework, look = rows["framework"].iloc[0], rows["look"].iloc[0]
            dashes = self.dashes[look]
            drawn = {"color": self.palette[framework], "marker": self.markers[look], "markeredgecolor": "white"}
            line: Any = (0, dashes) if dashes else "-"
            line = line if len(rows) > 1 else "none"
            handles.append(Line2D([], [], label=label, linestyle=line, markersize=7, **drawn))
        ideal = Line2D([], [], color="0.5", linewidth=1, linestyle=":", label="ideal, from single")
        return [*handles, ideal]


def _throughput(axes: Axes, points: pd.DataFrame, summaries: Sequence[CaseSummary], looks: _Looks) -> None:
    most = max(summary.case.n_devices for summary in summaries)
    for base in (summary for summary in summaries if summary.is_baseline):
        rate = base.samples_per_second or 0.0
        color = looks.palette[base.case.framework]
        axes.plot([1, most], [rate, rate * most], color=color, linewidth=1, linestyle=":", zorder=1)
    looks.draw(axes, points, "throughput")
    axes.set(title="Throughput", ylabel="samples/s")
    if most >= LOG_FROM:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, 1.05 * axes.dataLim.ymax)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: figure(value)))


def _efficiency(axes: Axes, points: pd.DataFrame, looks: _Looks) -> None:
    """Series stand a little beside one another, so that their error bars can be told apart.

    The baselines are left out: they are 1 by definition.
    """
    axes.set(title="Scaling efficiency, 95 % intervals", ylabel="efficiency (1 is ideal)", ylim=(0, 1.1))
    axes.axhline(1.0, color="0.5", linewidth=1, linestyle=":", zorder=1)
    known = points[~points["is_baseline"]].dropna(subset=["efficiency"]).astype({"devices": float})
    if known.empty:
        axes.text(0.5, 0.5, "nothing to compare with\nsingle on one device", ha="center", transform=axes.transAxes)
        return
    names = list(dict.fromkeys(known["series"]))
    most = int(points["devices"].max())
    step = (0.25 if most >= LOG_FROM else 0.04 * most) / max(1, len(names) - 1)
    for index, name in enumerate(names):
        mine, shift = known["series"] == name, (index - (len(names) - 1) / 2) * step
        devices = known.loc[mine, "devices"]
        known.loc[mine, "devices"] = devices * 2**shift if most >= LOG_FROM else devices + shift
    for _, row in known.dropna(subset=["low"]).iterrows():
        color = looks.palette[row["framework"]]
        axes.vlines(row["devices"], row["low"], row["high"], color=color, linewidth=2, alpha=0.7)
    looks.draw(axes, known, "efficiency")
    top = max([1.05, *known["efficiency"], *known["high"].dropna()])
    axes.set_ylim(0, top * 1.04)


def _device_axis(axes: Axes, summaries: Sequence[CaseSummary]) -> None:
    counts = sorted({summary.case.n_devices for summary in summaries})
    kind = summaries[0].case.device_kind
    if counts[-1] >= LOG_FROM:
        axes.set_xscale("log", base=2)
        axes.set_xlim(2**-0.25, counts[-1] * 2**0.25)
    else:
        axes.set_xlim(1 - 0.12 * counts[-1], counts[-1] * 1.12)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_major_formatter(FixedFormatter([str(count) for count in counts]))
    axes.xaxis.set_minor_locator(NullLocator())
    cores = sorted({summary.case.cores_per_device for summary in summaries})
    each = f" of {cores[0]} core{'s' if cores[0] != 1 else ''}" if kind == "cpu" and len(cores) == 1 else ""
    axes.set_xlabel(device_noun(kind) + each)
