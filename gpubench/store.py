"""Records to and from `results/`; nothing else touches that folder.

A run is one journal, `results/MACHINE/0001_NAME.jsonl`, one record a line, beside pytest-benchmark's
`0001_NAME.json` of the same number. Each line reaches the disk before the next launch starts. A line that is torn or
is no record is skipped with a warning and counted; the others stay readable.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gpubench.spec.errors import GpubenchError, UsageError, nearest
from gpubench.spec.record import SCHEMA, RunRecord, to_json

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NUMBERED = re.compile(r"(\d{4,})_(.+)\.jsonl?")
LARGEST_LINE = 64 << 20


@dataclass(frozen=True)
class Run:
    """One run as it was read: the records that could be, and what could not."""

    name: str
    path: Path
    records: list[RunRecord]
    warnings: list[str] = field(default_factory=list)


class Journal:
    """A run being written. Made with `Journal.create`, which takes the next free number."""

    def __init__(self, path: Path) -> None:
        self.path = path

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
                    _reserve(path)
                    return cls(path)
        except OSError as error:
            raise UsageError(
                f"Cannot write results to {folder}: {error.strerror}. Choose another folder with --results."
            ) from error

    @property
    def number(self) -> int:
        return int(self.path.name.split("_", 1)[0])

    def log_folder(self) -> Path:
        """Where the workers' logs of this run go."""
        folder = self.path.with_suffix(".logs")
        folder.mkdir(exist_ok=True)
        return folder

    def append(self, record: RunRecord) -> None:
        """Write one record and see it onto the disk. GpubenchError, and an intact journal, where that fails."""
        line = (to_json(record) + "\n").encode()
        with _explained(self.path), self.path.open("r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                remaining = memoryview(line)
                while remaining:
                    remaining = remaining[file.write(remaining) :]
                os.fsync(file.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(end)
                raise


def machine_folder() -> str:
    """pytest-benchmark's own name for a machine's folder, so that both files of a run lie side by side."""
    import platform

    return "-".join(
        [platform.system(), platform.python_implementation(), ".".join(platform.python_version_tuple()[:2])]
        + [platform.architecture()[0]]
    )


def next_number(folder: Path) -> int:
    """One more than the highest number in use, by either kind of file."""
    numbers = [int(match[1]) for path in folder.iterdir() if (match := NUMBERED.fullmatch(path.name))]
    return max(numbers, default=0) + 1


def find(word: str, results: Path) -> Path:
    """The journal that a user means: a path, a number (`3`, `0003`), a name, or `last`; the newest where several fit.

    UsageError, naming the nearest, where there is none.
    """
    path = Path(word)
    if path.suffix == ".jsonl" and path.is_file():
        return path
    if path.is_dir():
        inside = sorted(path.rglob("*.jsonl"), key=_written)
        if inside:
            return inside[-1]
        raise UsageError(f"There is no run (*.jsonl) in {path}.")
    runs = sorted(results.rglob("*.jsonl"), key=_written) if results.is_dir() else []
    if not runs:
        raise UsageError(f"There is no run in {results}. Make one with `gpubench run --save NAME`.")
    fitting = [run for run in runs if word == "last" or word in _names(run)]
    if fitting:
        return fitting[-1]
    raise UsageError(f"There is no run {word!r} in {results}; {nearest(word, sorted(_names(r)[1] for r in runs))}")


def load(path: Path) -> Run:
    """Read a run. UsageError where the file cannot be read or holds no record at all."""
    records: list[RunRecord] = []
    warnings: list[str] = []
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LARGEST_LINE):
                number += 1
                if not line.strip():
                    continue
                try:
                    records.append(decode(line))
                except ValueError as error:
                    torn = " (torn: the run was cut off here)" if not line.endswith(b"\n") else ""
                    warnings.append(f"{path.name}, line {number}: skipped{torn}: {error}")
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    if not records and warnings:
        raise UsageError(f"{path} holds no readable record. " + "; ".join(warnings[:3]))
    return Run(name=_names(path)[1], path=path, records=records, warnings=warnings)


def decode(line: bytes | str) -> RunRecord:
    """The record of a line; ValueError with one plain sentence where it is none."""
    try:
        schema = msgspec.json.decode(line, type=_Header).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a record ({error})") from None
    if schema > SCHEMA:
        raise ValueError(f"schema {schema} is newer than this gpubench reads ({SCHEMA}): upgrade gpubench")
    try:
        return msgspec.json.decode(line, type=RunRecord)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a record of schema {schema} ({error})") from None


class _Header(msgspec.Struct):
    schema: int


def _names(path: Path) -> list[str]:
    """What a run answers to: its file name without ending, its name, its number with and without zeros."""
    match = NUMBERED.fullmatch(path.name)
    if not match:
        return [path.stem, path.stem]
    return [path.stem, match[2], match[1], str(int(match[1]))]


def _written(path: Path) -> tuple[int, str]:
    match = NUMBERED.fullmatch(path.name)
    return int(match[1]) if match else 0, path.name


def _reserve(path: Path) -> None:
    with path.open("xb"):
        pass


@contextlib.contextmanager
def _explained(path: Path):  # type: ignore[no-untyped-def]
    try:
        yield
    except OSError as error:
        remedy = "free some space" if error.errno == errno.ENOSPC else "see that the folder can be written"
        raise GpubenchError(
            f"Cannot write to {path}: {error.strerror}. The records before this one are safe; {remedy}, then run again."
        ) from error
