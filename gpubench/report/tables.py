"""The one definition of the results' columns, and what is made of it: a terminal table, Markdown, CSV, plain rows.

The terminal and Markdown leave out columns that are empty throughout; CSV and rows have all of them under the export
names, with the unit in the name.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import Interval
from gpubench.report.notes import footnotes, note_names, notes
from gpubench.report.words import DASH, clean, figure, fixed, gib, title, with_interval

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

Value = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column as people read it, and the exports behind it.

    `text` gives a cell, DASH for what was not measured. `exports` maps export names to getters; the first is the one
    that the column sorts by.
    """

    name: str
    text: Callable[[CaseSummary], str]
    exports: Mapping[str, Callable[[CaseSummary], Value]]
    unit: str = ""
    is_number: bool = True
    may_fold: bool = False  # said once above the table where it is the same in every row

    @property
    def key(self) -> str:
        return next(iter(self.exports))

    def sort_value(self, summary: CaseSummary) -> Value:
        """What the column sorts by."""
        return self.exports[self.key](summary)


def _case(name: str, key: str, is_number: bool = False, may_fold: bool = False) -> Column:
    """A column of the case itself."""
    exports = {key: lambda s: getattr(s.case, key)}
    return Column(name, lambda s: clean(str(getattr(s.case, key))), exports, is_number=is_number, may_fold=may_fold)


# Left out in this order where a terminal is too narrow; the notes stand in full below the table anyway.
DROPPED_FIRST = ("own efficiency", "memory", "power", "global batch", "notes", "launches", "energy", "speed-up", "busy")

# What a row of an export has beside the columns, so that it can be told from any other row.
IDENTITY: Mapping[str, Callable[[CaseSummary], Value]] = {
    "case": lambda s: s.case.id,
    "machine": lambda s: s.machine.name,
    "device_kind": lambda s: s.case.device_kind,
    "cores_per_device": lambda s: s.case.cores_per_device or None,
    "n_nodes": lambda s: s.case.n_nodes,
}


def _low(interval: Interval | None) -> float | None:
    return None if interval is None else interval.low


def _high(interval: Interval | None) -> float | None:
    return None if interval is None else interval.high


COLUMNS: tuple[Column, ...] = (
    _case("workload", "workload", may_fold=True),
    _case("framework", "framework"),
    _case("strategy", "strategy"),
    _case("devices", "n_devices", is_number=True),
    _case("batch per device", "per_device_batch", is_number=True, may_fold=True),
    _case("global batch", "global_batch", is_number=True),
    Column(
        "scaling",
        lambda s: f"{s.case.scaling} {clean(s.case.precision)}",
        {"scaling": lambda s: s.case.scaling, "precision": lambda s: s.case.precision},
        is_number=False,
        may_fold=True,
    ),
    Column(
        "samples/s",
        lambda s: clean(s.no_number.name) if s.no_number else figure(s.samples_per_second),
        {
            "samples_per_second": lambda s: s.samples_per_second,
            "samples_per_second_low": lambda s: _low(s.samples_per_second_interval),
            "samples_per_second_high": lambda s: _high(s.samples_per_second_interval),
        },
    ),
    Column(
        "per device",
        lambda s: figure(s.samples_per_second_per_device),
        {"samples_per_second_per_device": lambda s: s.samples_per_second_per_device},
        "samples/s",
    ),
    Column(
        "speed-up",
        lambda s: fixed(s.speedup),
        {
            "speedup": lambda s: s.speedup,
            "speedup_low": lambda s: _low(s.speedup_interval),
            "speedup_high": lambda s: _high(s.speedup_interval),
        },
    ),
    Column(
        "efficiency",
        lambda s: with_interval(s.scaling_efficiency, s.scaling_efficiency_interval),
        {
            "scaling_efficiency": lambda s: s.scaling_efficiency,
            "scaling_efficiency_low": lambda s: _low(s.scaling_efficiency_interval),
            "scaling_efficiency_high": lambda s: _high(s.scaling_efficiency_interval),
        },
        "95 % interval",
    ),
    Column(
        "own efficiency",
        lambda s: fixed(s.own_scaling_efficiency),
        {
            "own_scaling_efficiency": lambda s: s.own_scaling_efficiency,
            "own_scaling_efficiency_low": lambda s: _low(s.own_scaling_efficiency_interval),
            "own_scaling_efficiency_high": lambda s: _high(s.own_scaling_efficiency_interval),
        },
    ),
    Column(
        "busy",
        lambda s: figure(s.usage.utilization_percent, 2),
        {
            "utilization_percent": lambda s: s.usage.utilization_percent,
            "utilization_percent_min": lambda s: s.usage.utilization_percent_min,
            "utilization_percent_max": lambda s: s.usage.utilization_percent_max,
        },
        "%",
    ),
    Column(
        "memory",
        lambda s: gib(s.usage.memory_used_bytes),
        {
            "memory_used_bytes": lambda s: s.usage.memory_used_bytes,
            "memory_of": lambda s: s.usage.memory_of,
        },
        "GiB",
    ),
    Column(
        "power",
        lambda s: figure(s.usage.power_watts),
        {"power_watts": lambda s: s.usage.power_watts},
        "W",
    ),
    Column(
        "energy",
        lambda s: figure(s.joules_per_sample),
        {"joules_per_sample": lambda s: s.joules_per_sample},
        "J/sample",
    ),
    Column(
        "launches",
        lambda s: str(len(s.launches)),
        {"launches": lambda s: len(s.launches), "launches_lost": lambda s: len(s.lost)},
        may_fold=True,
    ),
    Column(
        "notes",
        lambda s: ", ".join(note_names(s)) or DASH,
        {"notes": lambda s: "; ".join(notes(s))},
        is_number=False,
    ),
)


def rows(summaries: Sequence[CaseSummary]) -> list[dict[str, Value]]:
    """One dict a case, under the export names, unrounded; None is not measured."""
    getters = {**IDENTITY, **{name: get for column in COLUMNS for name, get in column.exports.items()}}
    return [{name: get(summary) for name, get in getters.items()} for summary in summaries]


def to_csv(summaries: Sequence[CaseSummary]) -> str:
    """All columns; an empty cell is not measured. A text that a spreadsheet would run as a formula gets a quote."""
    out = io.StringIO()
    names = [*IDENTITY, *(name for column in COLUMNS for name in column.exports)]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in rows(summaries):
        writer.writerow({name: _inert(value) for name, value in row.items()})
    return out.getvalue()


def to_markdown(summaries: Sequence[CaseSummary]) -> str:
    """A titled GitHub table with its notes below it."""
    columns, folded = shown(summaries)
    lines = [f"**{_escaped(title(summaries))}**", "", *([_escaped(folded), ""] if folded else [])]
    heads = [f"{column.name} ({column.unit})" if column.unit else column.name for column in columns]
    lines.append(_markdown_row(heads))
    lines.append(_markdown_row(["---:" if column.is_number else "---" for column in columns]))
    lines += [_markdown_row([_escaped(column.text(summary)) for column in columns]) for summary in summaries]
    told = footnotes(summaries)
    return "\n".join([*lines, "", *(f"- {_escaped(note)}" for note in told)]).rstrip() + "\n"


def to_rich(summaries: Sequence[CaseSummary], width: int | None = None) -> RenderableType:
    """The table for a terminal of `width` columns, with what is the same in all rows above it and the notes below."""
    from rich.console import Console, Group
    from rich.text import Text

    columns, folded = shown(summaries)
    width = width or Console().width
    paper = Console(width=10_000, file=io.StringIO())  # to measure on
    dropped = []
    for name in DROPPED_FIRST:
        if paper.measure(_rich_table(columns, summaries)).maximum <= width:
            break
        dropped += [column.name for column in columns if column.name == name]
        columns = [column for column in columns if column.name != name]
    table = _rich_table(columns, summaries)
    hidden = [Text(f"Too narrow here for: {', '.join(dropped)}.", style="dim")] if dropped else []
    told = [Text(note, style="dim") for note in footnotes(summaries)]
    heads = [Text(title(summaries), style="bold"), *([Text(folded)] if folded else [])]
    return Group(*heads, table, *hidden, *told)


def shown(summaries: Sequence[CaseSummary]) -> tuple[list[Column], str]:
    """The columns with something in them, and a line that says what is the same in every row."""
    columns, folded = [], []
    for column in COLUMNS:
        texts = {column.text(summary) for summary in summaries}
        if texts <= {DASH}:
            continue
        if column.may_fold and len(texts) == 1:
            folded.append(f"{column.name} {texts.pop()}")
        else:
            columns.append(column)
    return columns, ", ".join(folded)


def _rich_table(columns: Sequence[Column], summaries: Sequence[CaseSummary]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        head = Text("\n".join([*column.name.split(" "), *([column.unit] if column.unit else [])]))
        table.add_column(head, justify="right" if column.is_number else "left", no_wrap=True, vertical="bottom")
    for summary in summaries:
        style = "" if summary.samples_per_second is not None else "dim"
        table.add_row(*(Text(column.text(summary)) for column in columns), style=style)
    return table


def _inert(value: Value) -> Value:
    """Spreadsheets run a cell that starts with one of these (OWASP, CSV injection); a number cell is left alone."""
    if isinstance(value, str):
        value = clean(value)
        return "'" + value if value.startswith(("=", "+", "-", "@")) else value
    return value


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: no table cell ended, no link, no HTML."""
    return "".join("\\" + char if char in "\\`*_[]<>|#" else char for char in text)
