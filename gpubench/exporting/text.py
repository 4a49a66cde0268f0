"""CSV, Markdown and LaTeX of a table. An empty cell (CSV) or a dash is not measured; every number is there in full."""

from __future__ import annotations

import pandas as pd

from gpubench.exporting.tables import Table, Value
from gpubench.report.tables import escaped, inert
from gpubench.report.words import DASH, clean

LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedblright{}"}
LATEX |= {char: f"\\{char}" for char in "&%$#_{}"}
LATEX |= {char: f"{{{char}}}" for char in "[]*"}  # after \\ or \midrule they would be its option


def csv(table: Table) -> str:
    """Names in the first line. What it was measured on, the file's name says."""
    cells = [[_plain(inert(row[name])) for name in table.columns] for row in table.rows]
    return str(pd.DataFrame(cells, columns=list(table.columns), dtype=object).to_csv(index=False, lineterminator="\n"))


def markdown(table: Table, title: str, are_chosen: bool = False) -> str:
    """A titled GitHub table; columns without a single value are left out unless they were chosen."""
    columns = table.columns if are_chosen else _known(table)
    lines = [f"**{escaped(title)}**", ""]
    lines += [_row([f"`{name}`" for name in columns]), _row(["---"] * len(columns))]
    lines += [_row([escaped(clean(_plain(row[name]) or DASH)) for name in columns]) for row in table.rows]
    return "\n".join(lines) + "\n"


def latex(table: Table, title: str, are_chosen: bool = False) -> str:
    """For siunitx and booktabs, which round what is printed: \\sisetup{round-mode = figures, round-precision = 3}.

    Columns without a single value are left out unless they were chosen.
    """
    columns = table.columns if are_chosen else _known(table)
    lines = [
        "% needs \\usepackage{booktabs, siunitx}, and lualatex where a name is not ASCII; rounded in print by",
        "% \\sisetup{round-mode = figures, round-precision = 3}",
        f"% {clean(title)}",
        f"\\begin{{tabular}}{{{'l' * len(columns)}}}",
        f"\\multicolumn{{{max(1, len(columns))}}}{{l}}{{{_latex_text(title)}}} \\\\",
        "\\toprule",
        " & ".join(_latex_text(name) for name in columns) + " \\\\",
        "\\midrule",
        *(" & ".join(_latex(row[name]) for name in columns) + " \\\\" for row in table.rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _known(table: Table) -> tuple[str, ...]:
    return tuple(name for name in table.columns if any(row[name] is not None for row in table.rows))


def _plain(value: Value) -> str:
    """The shortest text that reads back as the same number."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _latex(value: Value) -> str:
    if value is None:
        return "--"
    if isinstance(value, (bool, str)):
        return _latex_text(_plain(value))
    return f"\\num{{{_plain(value)}}}"


def _latex_text(text: str) -> str:
    return "".join(LATEX.get(char, char) for char in clean(text))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
