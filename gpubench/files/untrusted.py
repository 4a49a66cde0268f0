"""Opening files that may come from anywhere: nothing waits for ever, fills the memory, or commands a terminal.

All files that gpubench did not just write itself are opened here, each kind with a size that suits it;
tests/test_layers.py lists the few other places, with their reasons.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpubench.spec.errors import UsageError

# The largest record that a run may ask for has 20,000 rounds times devices (`harness/plan.py`), with up to 1.3 KB of
# telemetry each: 26 MB. Another 1 MB is what 64 GPUs are and how they are linked. Logs add 5 KB, and series lie apart.
LARGEST_LINE = 32 << 20
LARGEST_FILE = 2 << 30  # of a journal
MOST_LINES = 1_000_000


@contextmanager
def open_file(path: Path, largest: int = LARGEST_FILE) -> Iterator[BinaryIO]:
    """For reading. UsageError where it is no regular file or has over `largest` bytes; OSError where it cannot be."""
    with open(path, "rb", opener=_without_waiting) as file:
        check_file(path, file.fileno(), largest)
        yield file


def read_bytes(path: Path, largest: int) -> bytes:
    """All of a file. UsageError where it is no regular file or has over `largest` bytes; OSError where it cannot be."""
    with open_file(path, largest) as file:
        content = file.read(largest + 1)
    if content is None:  # some files of the kernel's answer so
        raise BlockingIOError(errno.EAGAIN, "It has nothing to read now")
    if len(content) > largest:  # it has grown, or is one of those that do not say how large they are
        raise _too_large(path, largest)
    return content


def read_tail(path: Path, most: int) -> bytes:
    """At most the last `most` bytes of a file of any size, as logs are. UsageError and OSError as of `open_file`."""
    with open_file(path, sys.maxsize) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most) or b""


def check_file(path: Path, descriptor: int, largest: int = LARGEST_FILE) -> None:
    """UsageError unless it is a file that lies still and has at most `largest` bytes."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{inert(str(path))} is no regular file, and nothing else is read.")
    if status.st_size > largest:
        raise _too_large(path, largest)


def _too_large(path: Path, largest: int) -> UsageError:
    limit = f"{largest >> 20} MiB" if largest >= 1 << 20 else f"{largest >> 10} KiB"
    return UsageError(f"{inert(str(path))} is larger than {limit}, which no such file needs.")


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
        if line and not line.isspace():
            yield number, line
    if file.read(1):
        raise UsageError(f"{inert(str(file.name))} has over {MOST_LINES:,} lines: it is not a run of gpubench.")


def inert(text: str) -> str:
    """Text of a file, or a file's name, without what a terminal would obey."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _without_waiting(path: str, flags: int) -> int:
    """A pipe with nobody at its other end would keep us for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
