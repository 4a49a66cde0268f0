"""Records to and from `results/`; nothing else touches that folder.

A run is one journal, `results/MACHINE/0001_NAME.jsonl`, one record a line, beside pytest-benchmark's
`0001_NAME.json` of the same number; the raw series of each launch lie in `0001_NAME.series/`. Each line reaches the
disk before the next launch starts. A line that is torn or is no record is skipped with a warning and counted; the
others stay readable. Files may come from anywhere: what is said about one holds nothing that a terminal would obey,
and sizes have limits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gpubench.analysis.checks.together import losses, lost_in_words
from gpubench.files import series, verified
from gpubench.files.finding import copies, names
from gpubench.files.finding import find as find
from gpubench.files.guard import Guard, next_number, rescue
from gpubench.files.line import TOO_LARGE, encode
from gpubench.files.line import decode as decode
from gpubench.files.untrusted import LARGEST_FILE as LARGEST_FILE
from gpubench.files.untrusted import LARGEST_LINE, check_file, inert, lines, open_file, read_bytes, read_tail
from gpubench.files.writing import own_folder, write_whole
from gpubench.harness import interrupts
from gpubench.spec.errors import GpubenchError, UsageError
from gpubench.spec.invariants.ids import Known, once
from gpubench.spec.invariants.together import Launched
from gpubench.spec.invariants.whole import absent
from gpubench.spec.record import RunRecord
from gpubench.spec.verification import Verification

if TYPE_CHECKING:
    from gpubench.files.reducing import ReducedRun

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RECORD_START = b'{"schema":'  # as `to_json` writes a line
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
WARNINGS_TOLD = 20
R = TypeVar("R", bound=Known)
AnyRun = TypeVar("AnyRun", "Run", "ReducedRun")
LONGEST_WARNING = 300


@dataclass(frozen=True)
class Run:
    """One run as it was read: the records that could be, and what could not.

    `skipped_lines` counts all that could not be read; of many, only the first have their warning.
    """

    name: str
    path: Path
    records: list[RunRecord]
    warnings: list[str] = field(default_factory=list)
    skipped_lines: int = 0
    verifications: list[Verification] = field(default_factory=list)  # what was verified where it was measured


class Journal:
    """A run being written, locked against a second writer until it is closed or its process ends.

    Made with `Journal.create`, which takes the next free number, or `Journal.reopen`, which continues a run.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        """Owns `descriptor`, which is open for reading and writing."""
        self.path = path
        self.say: Callable[[str], None] = lambda text: None  # who hears of what could not be written as usual
        self.records: list[RunRecord] = []  # all that are in it: those from before, and those of this process
        self._descriptor = descriptor
        self._lost = False
        self.close = weakref.finalize(self, os.close, descriptor)
        self._lock()
        self._guard = Guard(path, descriptor)

    @classmethod
    def create(cls, results: Path, machine: str, name: str) -> Journal:
        """A new, empty journal. UsageError where the name is unfit or the folder cannot be written."""
        if not NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a run's name: use letters, digits, '.', '_' and '-' (up to 100).")
        folder = results / machine
        try:
            folder.mkdir(parents=True, exist_ok=True)
            while True:
                path = folder / f"{next_number(folder):04}_{name}.jsonl"
                # Exclusive, so that two runs at once never share a number.
                with contextlib.suppress(FileExistsError):
                    return cls(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
        except OSError as error:
            raise UsageError(
                f"Cannot write results to {folder}: {error.strerror}. Choose another folder with --results."
            ) from error

    @classmethod
    def reopen(cls, path: Path) -> Journal:
        """A journal to be continued. UsageError where it is none, cannot be written, or another process is writing it.

        What a cut-off run left of its last line is taken away: the launch that it was to tell of was not finished.
        A file that is no journal is left as it is.
        """
        look(path)
        try:
            journal = cls(path, os.open(path, os.O_RDWR | os.O_NONBLOCK))
            check_file(path, journal._descriptor)
            if not os.fstat(journal._descriptor).st_mode & 0o222:  # which does not keep root from writing
                raise PermissionError(errno.EACCES, "it is read-only")
            journal._mend()
            journal.records = _read(path).records
        except OSError as error:
            raise UsageError(f"Cannot continue {inert(str(path))}: {error.strerror}.") from error
        return journal

    @property
    def number(self) -> int:
        return int(self.path.name.split("_", 1)[0])

    def keep_plan(self, text: str) -> None:
        """Write the run's plan beside it, whole or not at all: what `--resume` goes on with."""
        path = plan_file(self.path)
        with _explained(path):
            write_whole(path, f"# `gpubench run --resume {self.path.stem}` goes on with this plan.\n{text}".encode())

    def trials(self) -> Journal:
        """The journal of the search for a batch, beside this one: no trial is ever taken for a launch of the run."""
        path = self.path.with_suffix(".trials")
        with _explained(path):
            if os.path.lexists(path) and not _is_ours(_read(path)):
                raise UsageError(f"{inert(str(path))} is no file of gpubench's trials, and is left as it is.")
            flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
            journal = Journal(path, os.open(path, flags, 0o666))
            check_file(path, journal._descriptor)
            journal._mend()
            journal.records = _read(path).records
        journal.say = self.say
        return journal

    def log_folder(self) -> Path:
        """Where the workers' logs of this run go."""
        folder = self.path.with_suffix(".logs")
        with _explained(folder):
            own_folder(folder)
        return folder

    def append(self, record: RunRecord) -> RunRecord:
        """Write one record, as `append_all` does."""
        return self.append_all([record])[0]

    def append_all(self, records: Sequence[RunRecord]) -> list[RunRecord]:
        """Write records, their series apart, and see them onto the disk; gives the records as they were written.

        Series that cannot be written apart, for whatever reason, stay in the record, which says why. GpubenchError
        where a record cannot be written, or where others have spoilt the file: what is not safe in it is then
        somewhere else, which the error names.
        """
        with interrupts.deferred():
            self.see_that_it_stands(unsaved=records)
            done: list[RunRecord] = []
            for record in records:
                name = f"{self.path.stem}.series/{record.case.id}.launch{record.launch}.{record.record_id[:8]}.parquet"
                written, line = encode(apart := self._with_series_apart(record, name))
                if written is not apart:
                    self.say(f"The series of launch {record.launch} of {record.case.id} {TOO_LARGE}.")
                try:
                    self._append(line)
                except OSError as error:
                    with contextlib.suppress(OSError):
                        (self.path.parent / name).unlink(missing_ok=True)
                    self._lost = True
                    remedy = "free some space" if error.errno in NO_SPACE else "see that the folder can be written"
                    raise GpubenchError(
                        f"Cannot write to {self.path}: {error.strerror}. The records before this one are safe; this "
                        f"one {_is_in(rescue(records[len(done) :], self.path))}. To do: {remedy}, then run again."
                    ) from error
                done.append(written)
                self.records.append(written)
        return done

    def see_that_it_stands(self, unsaved: Sequence[RunRecord] = (), at_the_end: bool = False) -> None:
        """GpubenchError where others have changed the file: all records, also the unsaved, are then in another one."""
        if self._lost:
            return  # that has been told
        damage = self._guard.damage(thorough=at_the_end)
        if damage is not None:
            self._lost = True
            every = [*self.records, *unsaved]
            raise GpubenchError(
                f"{inert(str(self.path))} {damage} by something else while this run wrote it. The run's {len(every)} "
                f"finished records {_is_in(rescue(every, self.path), 'are')}. To do: see what else writes there, then "
                "run again."
            )

    def _with_series_apart(self, record: RunRecord, name: str) -> RunRecord:
        try:
            return replace(record, telemetry=series.save(record.telemetry, self.path.parent, name))
        except Exception as error:  # a full disk, a library that no longer fits into the memory, or one of its own
            why = _in_short(error)
            if not any(one.telemetry.series_inside for one in self.records):
                self.say(f"The series could not be written to a file of their own ({why}); they stay in the records.")
            return replace(record, telemetry=replace(record.telemetry, series_inside=why))

    def _append(self, line: bytes) -> None:
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            remaining = memoryview(line)
            while remaining:
                remaining = remaining[os.write(self._descriptor, remaining) :]
            os.fsync(self._descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, end)
            raise
        self._guard.wrote(line)

    def _lock(self) -> None:
        import fcntl  # where results are only read, it need not exist

        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{inert(str(self.path))} is being written by another gpubench: let it end, or start a new run."
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise  # these say that the file system knows no locks: then the user must take care

    def _mend(self) -> None:
        """See that the file ends with a whole line. UsageError where its end is no part of a record."""
        size = os.fstat(self._descriptor).st_size
        start = max(0, size - LARGEST_LINE)
        tail = os.pread(self._descriptor, size - start, start).rpartition(b"\n")[2]
        if not tail:
            return
        if _is_json(tail):
            os.pwrite(self._descriptor, b"\n", size)  # whole but for its end; whatever it is, it stays
        elif _begins_as_a_record(tail):
            os.ftruncate(self._descriptor, size - len(tail))
        else:
            raise UsageError(f"{inert(str(self.path))} ends with what is no record: it is left as it is.")
        os.fsync(self._descriptor)
        self._guard = Guard(self.path, self._descriptor)


def _in_short(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) and error.strerror else str(error).partition("\n")[0][:200]
    return inert(f"{type(error).__name__}: {told}" if told else type(error).__name__)


def _is_in(rescued: Path | None, verb: str = "is") -> str:
    return f"{verb} in {inert(str(rescued))}" if rescued else f"{verb} lost, as no other folder took a file either"


def look(path: Path) -> list[RunRecord]:
    """The records of a run that is to be continued, each once; the file is not changed.

    UsageError where it is no journal, or two records of one id differ: no command would read what was then added.
    One without a record is a journal where its plan lies beside it: the run was ended before its first launch had.
    """
    run = _read(path)
    begun = plan_file(path).is_file() and _is_ours(run)
    if not run.records and not begun:
        why = f": {run.warnings[0]}" if run.warnings else ", and no plan lies beside it."
        raise UsageError(f"{inert(str(path))} holds no record of gpubench{why} There is nothing to continue.")
    return once(run.records)


def _is_ours(run: Run) -> bool:
    """Whether the file holds a record, or nothing but what a cut-off run left of its first one."""
    if run.records or not run.skipped_lines:
        return bool(run.records) or not read_tail(run.path, 1)
    content = read_bytes(run.path, LARGEST_LINE)
    return b"\n" not in content and not _is_json(content) and _begins_as_a_record(content)


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _begins_as_a_record(line: bytes) -> bool:
    return line[: len(RECORD_START)] == RECORD_START[: len(line)]


def plan_file(journal: Path) -> Path:
    """Where the plan of a run lies, whether it is there or not."""
    return journal.with_suffix(".plan.toml")


def machine_folder() -> str:
    """pytest-benchmark's own name for a machine's folder, so that both files of a run lie side by side."""
    import platform

    return "-".join(
        [platform.system(), platform.python_implementation(), ".".join(platform.python_version_tuple()[:2])]
        + [platform.architecture()[0]]
    )


def load(path: Path) -> Run:
    """Read a run. UsageError where the file cannot be read or holds no record at all.

    Files beside it that are copies by their names are not read, and named in a warning.
    """
    run = _read(path)
    see_that_there_is_one(path, run.records, run.warnings)
    records, told = counted_once(path, run.records)
    if lacking := losses(records, run.skipped_lines):
        records = [replace(each, checks=[*each.checks, *lacking.get(each.record_id, ())]) for each in records]
    told = [*run.warnings, *told, *told_of_copies(path), *told_of_losses(path, records, run.skipped_lines)]
    return replace(run, records=records, verifications=verified.beside(path), warnings=told)


def see_that_there_is_one(path: Path, records: Sequence[object], warnings: Sequence[str]) -> None:
    """UsageError where a file held no record at all."""
    if not records:
        why = "; ".join(warnings[:3]) or "the run was cut off before its first launch had ended."
        raise UsageError(f"{inert(str(path))} holds no readable record: {why}")


def told_of_copies(path: Path) -> list[str]:
    """A warning where files beside a run are copies of it by their names, as they are not read."""
    beside = [inert(each.name) for each in copies(path)]
    return [f"{inert(path.name)} was taken; left out as copies: {', '.join(beside)}"] if beside else []


def told_of_losses(path: Path, records: Sequence[Launched], unread: int) -> list[str]:
    """A warning where records are not in a run's file; each of the `unread` lines has its own."""
    words = lost_in_words(records, unread) if absent(records) > unread else ""
    return [inert(f"{path.name}: {words}; a launch may be among what is lost")] if words else []


def counted_once(path: Path, records: Sequence[R]) -> tuple[list[R], list[str]]:
    """Each record once, and a warning where one was there again. UsageError where two of one id differ."""
    try:
        found = once(records)
    except UsageError as error:
        raise UsageError(inert(f"{path.name}: {error}")) from error
    again = len(records) - len(found)
    told = f"{path.name}: {again} of its records {'are' if again > 1 else 'is'} there again, and count once"
    return found, [inert(told)] if again else []


def apart(runs: Sequence[AnyRun]) -> list[AnyRun]:
    """The runs without what an earlier one of them has too, and those alone that have anything else.

    UsageError where two records of one id differ.
    """
    return _apart(runs)


def _apart(runs: Sequence[Any]) -> list[Any]:
    once(record for run in runs for record in run.records)
    found = []
    seen = set[str]()
    for run in runs:
        records = [record for record in run.records if record.record_id not in seen]
        seen |= {record.record_id for record in records}
        again = len(run.records) - len(records)
        told = inert(f"{run.path.name}: {again} of its records are in an earlier run, and count once")
        if records:
            found.append(replace(run, records=records, warnings=[*run.warnings, *([told] if again else [])]))
    return found


def _read(path: Path) -> Run:
    found: list[RunRecord] = []
    warnings, skipped = read_lines(path, lambda line, place: found.append(decode(line)))
    return Run(name=names(path)[1], path=path, records=found, warnings=warnings, skipped_lines=skipped)


def read_lines(path: Path, take: Callable[[bytes, int], None]) -> tuple[list[str], int]:
    """Hand each line to `take`, with where it begins in the file. Gives the warnings, and how many lines were skipped.

    `take` raises ValueError, in a plain sentence, for a line that is no record. UsageError where the file cannot be
    read.
    """
    warnings: list[str] = []
    skipped = 0
    try:
        with open_file(path) as file:
            for number, line in lines(file):
                try:
                    take(line, file.tell() - len(line))
                except ValueError as error:
                    skipped += 1
                    cut = not line.endswith(b"\n") and len(line) <= LARGEST_LINE
                    torn = " (torn: the run was cut off here)" if cut else ""
                    if len(warnings) < WARNINGS_TOLD:
                        told = f"{path.name}, line {number}: skipped{torn}: {error}"
                        warnings.append(inert(told[:LONGEST_WARNING]))
    except OSError as error:
        raise UsageError(f"Cannot read {inert(str(path))}: {error.strerror}.") from error
    return warnings, skipped


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        remedy = "free some space" if error.errno in NO_SPACE else "see that the folder can be written"
        raise GpubenchError(
            f"Cannot write to {path}: {error.strerror}. The records before this one are safe; {remedy}, then run again."
        ) from error
