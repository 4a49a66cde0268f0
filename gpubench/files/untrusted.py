"""Opening files that may come from anywhere: nothing waits for ever, fills the memory, or commands a terminal."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpubench.spec.errors import UsageError

LARGEST_LINE = 64 << 20
LARGEST_FILE = 2 << 30  # more than a day of eight GPUs' series
MOST_LINES = 1_000_000


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """For reading. UsageError where it is no regular file or too large; OSError where it cannot be opened."""
    with open(path, "rb", opener=_without_waiting) as file:
        check_file(path, file.fileno())
        yield file


def check_file(path: Path, descriptor: int) -> None:
    """UsageError unless it is a file that lies still and fits into memory."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{inert(str(path))} is no regular file, and nothing else is read.")
    if status.st_size > LARGEST_FILE:
        mib = f"{status.st_size / 2**20:,.0f} MiB"
        raise UsageError(f"{inert(str(path))} has {mib}; files of up to {LARGEST_FILE >> 20} MiB are read.")


def lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, with their numbers; of one that is too long, one byte more than is allowed."""
    for number in range(1, MOST_LINES + 1):
        line = rest = file.readline(LARGEST_LINE + 1)
        while len(rest) > LARGEST_LINE and not rest.endswith(b"\n"):
            rest = file.readline(LARGEST_LINE + 1)
        if not line:
            return
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark that some editors write
        if line.strip():
            yield number, line
    if file.read(1):
        raise UsageError(f"{inert(str(file.name))} has over {MOST_LINES:,} lines: it is not a run of gpubench.")


def inert(text: str) -> str:
    """Text of a file, or a file's name, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _without_waiting(path: str, flags: int) -> int:
    """A pipe with nobody at its other end would keep us for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def may_write(path: Path, endings: tuple[str, ...]) -> None:
    """UsageError where something else than such a file would be replaced: a run's records, say, or a device."""
    if path.exists() and (not path.is_file() or path.suffix.lower() not in endings):
        raise UsageError(
            f"{inert(str(path))} is there and is no {' or '.join(endings)} file, so it is not replaced; "
            "choose another name."
        )
