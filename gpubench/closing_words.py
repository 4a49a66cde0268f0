"""What a pytest session over training cases shows at its end: the table, the files, then the page and the plots.

The measurement is over and saved by then, so nothing that goes wrong here ends in a traceback or changes the exit code:
a line says what could not be made, and how to make it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from gpubench.files.store import Journal
    from gpubench.spec.record import RunRecord


def show_session(reporter: pytest.TerminalReporter, records: Sequence[RunRecord], journal: Journal | None) -> None:
    """Tables first: they are what the session was for. `journal` is None where the session was not saved."""
    reporter.section("throughput and scaling")
    try:
        reporter.write_line(_table(records, journal, reporter._tw.fullwidth if reporter.isatty else None))
    except Exception as error:
        later = f" Show it again: gpubench show {journal.path}" if journal else ""
        reporter.write_line(f"The table could not be shown ({_told(error)}).{later}")
    if journal is None:
        return
    reporter.write_line("")
    _write_names(reporter, {"run": [journal.path], "pytest-benchmark": [journal.path.with_suffix(".json")]})
    try:
        page, plots = _draw(journal.path)
    except Exception as error:
        later = f"Make it later: gpubench report {journal.path}"
        reporter.write_line(f"The report could not be drawn ({_told(error)}). {later}")
    else:
        _write_names(reporter, {"report": [page], "plot": plots})


def _table(records: Sequence[RunRecord], journal: Journal | None, width: int | None) -> str:
    """For a terminal of `width` columns; None is none, a file or a CI log, which gets all of the table."""
    from gpubench.analysis.scaling import summarize
    from gpubench.files.verified import beside
    from gpubench.report import tables, terminal

    summaries = summarize(records, beside(journal.path) if journal else [])
    return terminal.text(lambda room: tables.to_rich(summaries, room), width)


def _draw(path: Path) -> tuple[Path, list[Path]]:
    """The page and the plots beside a journal."""
    from gpubench.analysis.scaling import summarize_runs
    from gpubench.files.reducing import load, with_traces
    from gpubench.report.html import write_html
    from gpubench.report.plots import write_plots

    page = path.with_suffix(".html")
    loaded = with_traces(load(path))
    drawn = summarize_runs([loaded])
    write_html([loaded], page, drawn)
    return page, write_plots(drawn, path.with_suffix(".plots"))


def _write_names(reporter: pytest.TerminalReporter, files: dict[str, list[Path]]) -> None:
    for word, paths in files.items():
        for path in paths:
            if path.exists():
                reporter.write_line(f"{word:<17}{_relative(path)}")


def _told(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
