"""What is made of the columns: a terminal table, Markdown, CSV, plain rows.

The terminal and Markdown leave out columns that are empty throughout; CSV and rows have all of them under the export
names, with the unit in the name.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpubench.analysis.scaling import CaseSummary
from gpubench.report.columns import COLUMNS, Column, Value, by_machine, shown
from gpubench.report.grid import Grid
from gpubench.report.notes import footnotes
from gpubench.report.words import DASH, clean, known, title
from gpubench.spec.errors import UsageError, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType

# Left out in this order where a terminal is too narrow; the notes stand in full below the table anyway.
DROPPED_FIRST = (
    *("own efficiency", "memory", "power", "global batch", "notes", "launches", "energy", "speed-up", "busy"),
    "per device",
)

# What a row of an export has beside the columns, so that it can be told from any other row.
IDENTITY: Mapping[str, Callable[[CaseSummary], Value]] = {
    "case": lambda s: s.case.id,
    "machine": lambda s: s.machine_label,
    "device_kind": lambda s: s.case.device_kind,
    "cores_per_device": lambda s: s.case.cores_per_device or None,
    "n_nodes": lambda s: s.case.n_nodes,
    "seed": lambda s: s.case.seed,
    "first_started_at": lambda s: min(record.started_at for record in s.records),
    "last_started_at": lambda s: max(record.started_at for record in s.records),
}


def rows(summaries: Sequence[CaseSummary], columns: Sequence[str] = ()) -> list[dict[str, Value]]:
    """One dict a case, under the export names, unrounded; None is not measured. Of `columns`, where some are named."""
    getters = _getters()
    wanted = _known(columns) or list(getters)
    return [{name: known(getters[name](summary)) for name in wanted} for summary in summaries]


def to_csv(summaries: Sequence[CaseSummary], columns: Sequence[str] = ()) -> str:
    """All columns; an empty cell is not measured. A text that a spreadsheet would run as a formula gets a quote."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _known(columns) or list(_getters()), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    for row in rows(summaries, columns):
        writer.writerow({name: inert(value) for name, value in row.items()})
    return out.getvalue()


def to_markdown(summaries: Sequence[CaseSummary], columns: Sequence[str] = ()) -> str:
    """A titled GitHub table with its notes below it; two machines, or GPUs and CPU shares, never share one."""
    return "\n".join(_markdown(part, title(part, summaries), columns) for part in by_machine(summaries))


def to_rich(summaries: Sequence[CaseSummary], width: int, columns: Sequence[str] = ()) -> RenderableType:
    """The table for a terminal of `width` columns, with what is the same in all rows above it and the notes below.

    Where it does not fit, columns are left out and named, unless `columns` were chosen; a cell is never cut.
    """
    from rich.console import Group

    return Group(*(_rich(part, title(part, summaries), width, columns) for part in by_machine(summaries)))


def _getters() -> dict[str, Callable[[CaseSummary], Value]]:
    return {**IDENTITY, **{name: get for column in COLUMNS for name, get in column.exports.items()}}


def _known(columns: Sequence[str]) -> list[str]:
    """The names, as they were given. UsageError where one is no export's name."""
    names = list(_getters())
    for name in columns:
        if name not in names:
            raise UsageError(f"No column is called {clean(name)!r}; {nearest(name, names)}")
    return list(columns)


def _chosen(columns: Sequence[str]) -> list[Column]:
    """The columns that show these exports, each once: an interval's end is shown beside what it is of."""
    by_export = {name: column for column in COLUMNS for name in column.exports}
    by_export |= {name: _identity(name) for name in IDENTITY}
    return list({by_export[name].name: by_export[name] for name in _known(columns)}.values())


def _identity(name: str) -> Column:
    get = IDENTITY[name]
    is_number = name in ("cores_per_device", "n_nodes", "seed")
    return Column(
        name.replace("_", " "),
        lambda s: DASH if get(s) is None else clean(str(get(s))),
        {name: get},
        is_number=is_number,
    )


def _markdown(summaries: Sequence[CaseSummary], heading: str, chosen: Sequence[str]) -> str:
    columns, folded = (_chosen(chosen), "") if chosen else shown(summaries)
    lines = [f"**{escaped(heading)}**", "", *([escaped(folded), ""] if folded else [])]
    heads = [f"{column.name} ({column.unit})" if column.unit else column.name for column in columns]
    lines.append(_markdown_row(heads))
    lines.append(_markdown_row(["---:" if column.is_number else "---" for column in columns]))
    lines += [_markdown_row([escaped(column.text(summary)) for column in columns]) for summary in summaries]
    told = footnotes(summaries)
    items = [f"{'  ' if note.startswith('  ') else ''}- {escaped(note.strip())}" for note in told]
    return "\n".join([*lines, "", *items]).rstrip() + "\n"


def _rich(summaries: Sequence[CaseSummary], heading: str, width: int, chosen: Sequence[str]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    columns, folded = (_chosen(chosen), "") if chosen else shown(summaries)
    grid = _grid(columns, summaries)
    dropped = []
    for name in () if chosen else DROPPED_FIRST:
        if grid.width <= width:
            break
        dropped += [column.name for column in columns if column.name == name]
        columns = [column for column in columns if column.name != name]
        grid = _grid(columns, summaries)
    hidden = [Text(f"Too narrow here for: {', '.join(dropped)}.", style="dim")] if dropped else []
    told = [Text(note, style="dim") for note in footnotes(summaries)]
    heads = [Text(heading, style="bold"), *([Text(folded)] if folded else [])]
    return Group(*heads, grid, *hidden, *told)


def _grid(columns: Sequence[Column], summaries: Sequence[CaseSummary]) -> Grid:
    return Grid(
        heads=["\n".join([*column.name.split(" "), *([column.unit] if column.unit else [])]) for column in columns],
        rows=[[column.text(summary) for column in columns] for summary in summaries],
        are_numbers=[column.is_number for column in columns],
        dim={index for index, summary in enumerate(summaries) if summary.samples_per_second is None},
        may_fold=False,
    )


def inert(value: Value) -> Value:
    """The value as a spreadsheet shows it and does not run it (OWASP, CSV injection); a number cell is left alone.

    Some spreadsheets take a full-width sign for the sign itself, hence the normal form.
    """
    if isinstance(value, str):
        value = clean(value)
        first = unicodedata.normalize("NFKC", value.lstrip()[:1])
        return "'" + value if first.startswith(tuple("=+-@|%")) else value
    return value


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is: no table cell ended, no link, no HTML."""
    return "".join("\\" + char if char in "\\`*<>|" else char for char in text).replace("](", "]\\(")
