"""The series of a scaling plot: the points of each, and a look that no other series of the plot has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpubench.report.canvas import sns  # isort: skip  (before any part of matplotlib: see there)
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from gpubench.analysis.scaling import CaseSummary
from gpubench.report.words import clean, known

MARKERS = ("o", "s", "^", "D", "v", "<", ">", "p", "h", "*")
DASHES: tuple[tuple[float, ...], ...] = (
    *((), (5, 1.5), (1.5, 1.5), (5, 1.5, 1.5, 1.5), (8, 2)),
    *((3, 1), (1, 2), (6, 1, 1, 1, 1, 1), (2, 3)),
)


@dataclass(frozen=True)
class Curve:
    """One series in the order of its device counts. `label` names it as shortly as tells it from the others."""

    label: str
    cases: tuple[CaseSummary, ...]
    color: Any
    marker: Any  # of matplotlib
    dashes: tuple[float, ...]

    def draw(self, axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Points, joined. Those without a value are left out, and what lies around one is not joined across it."""
        axes.plot(xs, ys, **self._look(), linestyle=self._line)

    def handle(self) -> Line2D:
        """As it stands in the legend: a line only where points are joined."""
        return Line2D([], [], label=self.label, **self._look(), linestyle=self._line if len(self.cases) > 1 else "none")

    @property
    def _line(self) -> Any:
        return (0, self.dashes) if self.dashes else "-"

    def _look(self) -> dict[str, Any]:
        return {"color": self.color, "marker": self.marker, "markeredgecolor": "white"}


def curves_of(summaries: Sequence[CaseSummary]) -> list[Curve]:
    """Colour by framework; marker and dashes by strategy and batch, the same for every framework; `single` first."""
    series: dict[object, list[CaseSummary]] = {}
    for summary in summaries:
        series.setdefault(summary.series, []).append(summary)
    ordered = sorted(series.values(), key=lambda cases: _order(cases[0]))
    frameworks = sorted({summary.case.framework for summary in summaries})
    palette = dict(zip(frameworks, sns.color_palette("colorblind", len(frameworks)), strict=True))
    kinds = sorted({_kind(cases[0]) for cases in ordered})
    label = _labels([cases[0] for cases in ordered])
    made = []
    for cases in ordered:
        first = cases[0]
        index = kinds.index(_kind(first))
        made.append(
            Curve(
                label=label[first.series],
                cases=tuple(sorted(cases, key=lambda one: one.case.n_devices)),
                color=palette[first.case.framework],
                marker=_marker(index),
                dashes=DASHES[index % len(DASHES)],
            )
        )
    return made


def value(number: float | None) -> float:
    """For matplotlib, to which NaN means that there is no point."""
    found = known(number)
    return float("nan") if found is None else found


def short(text: str, most: int = 36) -> str:
    """A name that leaves room for the plot."""
    text = clean(text)
    return text if len(text) <= most else text[: most - 1] + "\u2026"


def _marker(index: int) -> str | tuple[int, int, int]:
    """A marker that no other index has: once the named ones are used, stars of more and more points."""
    return MARKERS[index] if index < len(MARKERS) else (6 + index - len(MARKERS), 1, 0)


def _kind(summary: CaseSummary) -> tuple[bool, str, int, int]:
    """What a marker stands for."""
    case = summary.case
    return case.strategy != "single", case.strategy, summary.series[-1], case.cores_per_device


def _order(summary: CaseSummary) -> tuple[object, ...]:
    return summary.case.framework, _kind(summary), str(summary.series)


def _labels(firsts: Sequence[CaseSummary]) -> dict[object, str]:
    """By series. What is the same in all of them is left out; a number tells apart what a long name would hide."""
    sizes = {summary.series[-1] for summary in firsts}
    cores = {summary.case.cores_per_device for summary in firsts}
    found: dict[object, str] = {}
    for summary in firsts:
        case = summary.case
        told = [f"batch {summary.series[-1]:,}"] if len(sizes) > 1 else []
        told += [f"{case.cores_per_device} cores each"] if len(cores) > 1 else []
        name = short(f"{case.framework} {case.strategy}", 36 - sum(len(each) + 2 for each in told))
        label = ", ".join([name, *told])
        same = sum(each.partition(" #")[0] == label for each in found.values())
        found[summary.series] = f"{label} #{same + 1}" if same else label
    return found
