"""What a worker prints: its beginning and its end in a file, and its last lines at hand whatever becomes of the file.

The worker prints into a pipe that a thread of the harness empties. So a worker that prints gigabytes is neither held up
nor fills the disk, and a launch goes on where no file can be made or where the disk takes no more.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from pathlib import Path

HEAD_BYTES = 8 << 20
TAIL_BYTES = 1 << 20
PIECE_BYTES = 1 << 16
LAST_WORDS_SECONDS = 0.5  # a child that a worker has left may hold the pipe open for ever


def start(thread: threading.Thread) -> None:
    """OSError, as for a process, where the system has no room for one more."""
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, "there can be no more threads") from error


class Log:
    """`writing` is the end of the pipe for a worker, to be closed once it has started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None  # why not all is in the file that should be
        self._head_left = HEAD_BYTES
        self._tail = bytearray()
        self._after_head = 0
        self._file = self._open()
        reading, self.writing = os.pipe()
        self._thread = threading.Thread(target=self._empty, args=(reading,), name=f"log {path.name}", daemon=True)
        try:
            start(self._thread)
        except OSError:
            os.close(reading)
            os.close(self.writing)
            raise

    def last(self, most: int) -> bytes:
        """The last bytes that were printed, once those of a worker that has ended have come through."""
        self._thread.join(LAST_WORDS_SECONDS)
        return bytes(self._tail[-most:])

    def close(self) -> None:
        """Write the end of what was printed behind its beginning, and how much lies between. After its worker's end."""
        self._thread.join(LAST_WORDS_SECONDS)
        file, self._file = self._file, None
        if file is None:
            return
        end = self._tail[-min(TAIL_BYTES, self._after_head) :] if self._after_head else b""
        if left_out := self._after_head - len(end):
            end = f"\n[gpubench: {left_out:,} bytes are left out here]\n".encode() + end
        self._write(file, end)
        os.close(file)

    def _open(self) -> int | None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have removed it since
            # What is there may be a link to somebody's file, or a pipe that nobody reads: it is replaced, not opened.
            self.path.unlink(missing_ok=True)
            return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except OSError as error:
            self.problem = error.strerror
            return None

    def _empty(self, reading: int) -> None:
        piece = bytearray(PIECE_BYTES)  # one for all: there may be no memory for another
        while size := os.readv(reading, [piece]):
            head = min(size, self._head_left)
            self._head_left -= head
            self._after_head += size - head
            with contextlib.suppress(MemoryError):  # the worker must not wait for it
                self._tail += memoryview(piece)[:size]
                if len(self._tail) > 2 * TAIL_BYTES:
                    del self._tail[:-TAIL_BYTES]
            if head and self._file is not None:
                self._write(self._file, memoryview(piece)[:head])
        os.close(reading)

    def _write(self, file: int, data: bytes | bytearray | memoryview) -> None:
        try:
            while data and self.problem is None:
                data = data[os.write(file, data) :]
        except OSError as error:
            self.problem = error.strerror
