"""Parquet of series decoded in another process, whose memory and time have limits (see `series_decoder`)."""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from gpubench.spec.errors import GpubenchError

SECONDS = 6.0  # for one file; the largest that is read takes one on a machine with nothing else to do
_PROGRAM = Path(__file__).with_name("series_decoder.py")


class TooMuchError(GpubenchError):
    """A file takes more memory or time than any that gpubench has written. Whoever gets it reads no more of them."""


class Decoder:
    """One process for all files, started with the first of them; it ends with this process or with `close`.

    `most_values` is how many rows times columns a file may have. Safe to use from several threads.
    """

    def __init__(self, most_values: int) -> None:
        self._most_values = most_values
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def table(self, content: bytes) -> Any:
        """The table in a file's content; ValueError with the reason where there is none, TooMuchError at a limit."""
        import pyarrow as arrow

        with self._lock:
            answer = self._ask(content)
        if answer[:1] != b"+":
            raise ValueError(answer[1:].decode(errors="replace"))
        return arrow.ipc.open_stream(arrow.py_buffer(memoryview(answer)[1:])).read_all()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _ask(self, content: bytes) -> bytes:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        deadline = threading.Timer(SECONDS, give_up)
        deadline.start()
        try:
            process.stdin.write(len(content).to_bytes(8, "little"))
            process.stdin.write(content)
            process.stdin.flush()
            length = int.from_bytes(process.stdout.read(8), "little")
            answer = process.stdout.read(length)
        except BrokenPipeError:
            length, answer = 0, b""
        except BaseException:
            self.close()  # what it still has to say belongs to no question
            raise
        finally:
            deadline.cancel()
            deadline.join()
        whole = bool(answer) and len(answer) == length
        if late.is_set() or not whole:
            self.close()
        if not whole:
            raise TooMuchError("it takes more memory or time than the series of any launch")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        # By its path and with -P: no module that lies in the folder of a stranger's files is imported.
        command = [sys.executable, "-P", str(_PROGRAM), str(self._most_values)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self._process
