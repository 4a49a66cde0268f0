"""Whether a file that is being written still is what was written to it, and where records go if it is not."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpubench.files.finding import NUMBERED
from gpubench.files.line import encode
from gpubench.spec.record import RunRecord

CHUNK = 1 << 20


class Guard:
    """Remembers what was written to an open file, so that what others do to it is noticed.

    The name, the size and the time of the last change are looked at before every record; the content only where that
    time has moved, and at the end.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self.remember()

    def remember(self) -> None:
        """Take what is in the file for what was written, and read all of it for that."""
        self._digest = self._read()
        self._see()

    def wrote(self, line: bytes) -> None:
        """One more line was written to the end of the file."""
        self._digest.update(line)
        self._see()

    def damage(self, thorough: bool = False) -> str | None:
        """What others have done to the file, as the end of a sentence; None where it stands as it was written."""
        mine = os.fstat(self._descriptor)
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            return "was deleted or moved"
        if (named.st_dev, named.st_ino) != (mine.st_dev, mine.st_ino):
            return "was replaced"
        if mine.st_size != self._size:
            return "was cut off" if mine.st_size < self._size else "was written to"
        if (thorough or mine.st_mtime_ns != self._changed_ns) and self._read().digest() != self._digest.digest():
            return "was changed"
        return None

    def _see(self) -> None:
        status = os.fstat(self._descriptor)
        self._size, self._changed_ns = status.st_size, status.st_mtime_ns

    def _read(self) -> hashlib._Hash:
        digest, place = hashlib.sha256(), 0
        while chunk := os.pread(self._descriptor, CHUNK, place):
            digest.update(chunk)
            place += len(chunk)
        return digest


def next_number(folder: Path) -> int:
    """One more than the highest number in use, by either kind of file."""
    numbers = [int(match[1]) for path in folder.iterdir() if (match := NUMBERED.fullmatch(path.name))]
    return max(numbers, default=0) + 1


def rescue(records: Sequence[RunRecord], journal: Path) -> Path | None:
    """Write records to a new run beside the journal, else in the temporary folder; None where neither takes them."""
    name = journal.name.partition("_")[2]
    with contextlib.suppress(OSError):
        journal.parent.mkdir(parents=True, exist_ok=True)
        return _written(records, journal.parent / f"{next_number(journal.parent):04}_{name}")
    with contextlib.suppress(OSError):
        return _written(records, Path(tempfile.mkdtemp(prefix="gpubench-rescued-")) / f"0001_{name}")
    return None


def _written(records: Sequence[RunRecord], path: Path) -> Path:
    with path.open("xb") as file:
        try:
            file.writelines(encode(record)[1] for record in records)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            path.unlink()
            raise
    return path
