"""Runs of any length for a table, a comparison or a report: read line by line, each record reduced as it comes.

What is not kept is read again from the journal when it is asked for.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpubench.analysis.checks.together import losses
from gpubench.analysis.reduced import MOST_TRACES, Reduced, reduced
from gpubench.files import series, verified
from gpubench.files.finding import names
from gpubench.files.line import Reader, decode
from gpubench.files.store import (
    LONGEST_WARNING,
    counted_once,
    read_lines,
    see_that_there_is_one,
    told_of_copies,
    told_of_losses,
)
from gpubench.files.untrusted import inert, open_file
from gpubench.files.validation import validate
from gpubench.spec.case import Case
from gpubench.spec.errors import GpubenchError
from gpubench.spec.identity import Identity
from gpubench.spec.record import RunRecord
from gpubench.spec.verification import Verification

_BEGINNING = 80  # bytes of a line, which hold the record's id


@dataclass(frozen=True)
class ReducedRun:
    """A run as `store.Run` is, with its records reduced."""

    name: str
    path: Path
    records: list[Reduced]
    warnings: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    verifications: list[Verification] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Line:
    """Where a record stands."""

    path: Path
    place: int
    length: int

    def read(self) -> bytes:
        """OSError or UsageError where the journal is gone."""
        with open_file(self.path) as file:
            file.seek(self.place)
            return file.read(self.length)

    def __call__(self) -> RunRecord:
        """The record, read again. GpubenchError where the journal has been changed meanwhile, or is gone."""
        try:
            return decode(self.read())
        except (OSError, ValueError) as error:
            raise GpubenchError(
                f"{inert(str(self.path))} was changed while it was read ({error}): try again."
            ) from error


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without Python's collector, which would look again and again for cycles among records that have none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def load(path: Path) -> ReducedRun:
    """As `store.load`, with records reduced."""
    reader = Reader()
    found: list[Reduced] = []
    by_beginning: dict[bytes, tuple[_Line, Reduced]] = {}

    def take(line: bytes, place: int) -> None:
        """A line that is there again is not made a record again: it is the same one."""
        known = by_beginning.get(line[:_BEGINNING])
        if known is not None and known[0].length == len(line) and known[0].read() == line:
            found.append(known[1])
            return
        record, here = reader.read(line), _Line(path, place, len(line))
        made = reduced(record, here, reader.identity(record.machine))
        by_beginning[line[:_BEGINNING]] = here, made
        found.append(made)

    with _uncollected():
        warnings, skipped = read_lines(path, take)
    see_that_there_is_one(path, found, warnings)
    records, again = counted_once(path, found)
    if lacking := losses(records, skipped):
        records = [replace(each, checks=(*each.checks, *lacking.get(each.record_id, ()))) for each in records]
    told = [*warnings, *again, *told_of_copies(path), *told_of_losses(path, records, skipped)]
    return ReducedRun(names(path)[1], path, records, told, skipped, verified.beside(path))


def with_traces(run: ReducedRun) -> ReducedRun:
    """The run with the series of each case's first launch that has some: what a report draws.

    A file that is gone, or is not that launch's, leaves it without. There is one warning, with the first reason: where
    a journal was moved without its folder, all files are gone. No more are read after one that took too much, nor when
    all together are as large as one may be.
    """
    records, warnings, left = list(run.records), [], series.MOST_VALUES
    seen = set[tuple[Case, Identity]]()
    for index, record in enumerate(run.records):
        if (record.case, record.identity) in seen or not record.may_have_trace:
            continue
        if len(seen) == MOST_TRACES:
            break
        records[index] = replace(record, may_have_trace=False)
        try:
            whole = record.whole()
            restored = replace(whole, telemetry=series.restore(whole.telemetry, run.path.parent))
            validate(restored)
            _see_that_it_fits(restored)
        except (GpubenchError, ValueError) as error:
            warnings.append(f"{record.case.id}, launch {record.launch}: no trace: {error}")
            if isinstance(error, series.TooMuchError):
                break
            continue
        left -= sum(len(device.time_ns) * (1 + len(device.series)) for device in restored.telemetry.devices)
        if left < 0:
            warnings.append(f"{record.case.id}, launch {record.launch}: no trace: the earlier ones fill the memory")
            break
        if any(device.time_ns for device in restored.telemetry.devices):
            records[index] = replace(record, whole=partial(_itself, restored))
            seen.add((record.case, record.identity))
    more = f" (so it is with {len(warnings) - 1} more)" if len(warnings) > 1 else ""
    told = [inert(warning[:LONGEST_WARNING]) + more for warning in warnings[:1]]
    return replace(run, records=records, warnings=[*run.warnings, *told])


def _itself(record: RunRecord) -> RunRecord:
    return record


def _see_that_it_fits(record: RunRecord) -> None:
    """ValueError where no reading is from the time of the rounds: then it is another launch's file, or of no use."""
    if not record.rounds or record.telemetry.series_file is None:
        return
    first_ns, last_ns = min(one.start_ns for one in record.rounds), max(one.end_ns for one in record.rounds)
    if not any(first_ns <= time_ns <= last_ns for device in record.telemetry.devices for time_ns in device.time_ns):
        raise ValueError(f"{record.telemetry.series_file} has no reading from the time of its rounds")
