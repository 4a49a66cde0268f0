"""Runs for other tools: raw and derived figures, in files of their own, under the same names in every format.

Numbers are written in full, so that reading them back gives the same ones. GPUs and CPU shares never share a file, and
a file's name says which it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench.exporting.tables import Exported, exported
from gpubench.files.store import Run, apart
from gpubench.files.writing import write_whole
from gpubench.spec.errors import UsageError

FORMATS = ("csv", "parquet", "markdown", "latex", "pytest-benchmark", "prometheus")
TABLES = ("csv", "parquet", "markdown", "latex")  # whose columns can be chosen


@dataclass(frozen=True)
class Loaded:
    runs: list[Run]

    @property
    def warnings(self) -> list[str]:
        return [warning for run in self.runs for warning in run.warnings]


def load(words: Sequence[str], results: Path) -> Loaded:
    """The runs that are named: as on the command line, also folders and bundles. A record counts once."""
    from gpubench.files import reading, store

    return Loaded(apart([read.run for word in words for read in reading.runs_of(word, results, store.load)]))


def write(loaded: Loaded, form: str, folder: Path, columns: Sequence[str] = ()) -> list[Path]:
    """Write the files of a format, one of `FORMATS`, into `folder`, and say which. Existing ones are replaced.

    With `columns`, only the tables that have all of these, in this order. UsageError where there is none.
    """
    if columns and form not in TABLES:
        raise UsageError(f"--columns is for {', '.join(TABLES)}; {form} has a form of its own.")
    runs = {run.path.stem: run.records for run in loaded.runs}
    if len(runs) < len(loaded.runs):
        raise UsageError("Two of the runs have the same file name; export them one by one, each to its own folder.")
    parts = exported(runs, {run.path.stem: run.verifications for run in loaded.runs})
    parts = [part.chosen(columns) for part in parts] if columns else parts
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in parts:
            for name, content in _contents(part, form).items():
                path = folder / name
                write_whole(path, content)
                written.append(path)
    except OSError as error:
        raise UsageError(f"Cannot write to {folder}: {error.strerror}.") from error
    return written


def _contents(part: Exported, form: str) -> dict[str, bytes]:
    """File name to content. What a format needs is imported only for it."""
    from gpubench.exporting import text

    if form == "parquet":
        from gpubench.exporting.parquet import parquet

        return {f"{table.name}-{part.noun}.parquet": parquet(table) for table in part.tables}
    if form == "pytest-benchmark":
        from gpubench.exporting.pytest_benchmark import pytest_benchmark

        return {f"{run}-{part.noun}.json": content for run, content in pytest_benchmark(part).items()}
    if form == "prometheus":
        from gpubench.exporting.prometheus import prometheus

        return {f"derived-cases-{part.noun}.prom": prometheus(part.derived)}
    if form == "csv":
        return {f"{table.name}-{part.noun}.csv": text.csv(table).encode() for table in part.tables}
    suffix, write_table = {"markdown": ("md", text.markdown), "latex": ("tex", text.latex)}[form]
    return {
        f"{table.name}-{part.noun}.{suffix}": write_table(table, part.title, part.are_chosen).encode()
        for table in part.tables
    }
