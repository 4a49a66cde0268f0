"""How a run goes on, in plain lines on standard error; on a terminal the line at work is rewritten in place."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from gpubench.harness.gang.launch import Launch
from gpubench.harness.outcomes import printable
from gpubench.spec.record import Phase, RunRecord

WORDS: dict[str, str] = {
    "start": "starting",
    "build": "building",
    "warm_up": "warming up",
    "round": "measuring",
    "stop": "stopping",
}


class LineProgress:
    """One line a launch, with what it came to and the time that the rest will take."""

    def __init__(
        self, total: int = 0, stream: TextIO | None = None, write: Callable[[str], None] | None = None
    ) -> None:
        self.total = total
        self.done = 0
        self._began = self._launch_began = time.monotonic()
        self._stream = stream or sys.stderr
        self._write = write or self._print
        self._rewrites = write is None and self._stream.isatty()

    def phase(self, launch: Launch, phase: Phase, samples_per_second: float | None = None) -> None:
        if phase == "start":
            self._launch_began = time.monotonic()
        if self._rewrites:
            rate = f", {samples_per_second:.4g} samples/s" if samples_per_second else ""
            text = f"{self._counter(self.done + 1)} {launch.case.id}: {WORDS[phase]}{rate}"
            width = shutil.get_terminal_size().columns - 1
            self._put(f"\r{text[:width]:<{width}}")

    def expect(self, more: int) -> None:
        """So many launches more are to come."""
        self.total += more

    def finished(self, record: RunRecord) -> None:
        self.done += 1
        seconds = time.monotonic() - self._launch_began
        left = (time.monotonic() - self._began) / self.done * (self.total - self.done)
        rest = f"; about {_minutes(left)} left" if self.done < self.total else ""
        self._write(f"{self._counter(self.done)} {record.case.id}: {_result(record)} ({seconds:.0f} s{rest})")

    def note(self, text: str) -> None:
        self._write(text)

    def _counter(self, number: int) -> str:
        return f"[{number:>{len(str(self.total))}}/{self.total}]"

    def _print(self, text: str) -> None:
        if self._rewrites:
            width = shutil.get_terminal_size().columns - 1
            self._put(f"\r{' ' * width}\r")
        self._put(text + "\n")

    def _put(self, text: str) -> None:
        """Nobody reading any more is no reason to stop measuring."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


class Quiet(LineProgress):
    """Says nothing but what went wrong."""

    def phase(self, launch: Launch, phase: Phase, samples_per_second: float | None = None) -> None:
        pass

    def finished(self, record: RunRecord) -> None:
        self.done += 1
        if record.outcome.status != "ok":
            self._write(f"{record.case.id}: {_result(record)}")


def _result(record: RunRecord) -> str:
    if record.outcome.status != "ok":
        return f"{record.outcome.status}: {printable(record.outcome.message)}"
    seconds = sum(one.seconds for one in record.rounds)
    rate = sum(one.samples for one in record.rounds) / seconds if seconds else 0.0
    severe = [check.name for check in record.checks if check.severity == "severe"]
    doubt = f", but: {', '.join(severe)}" if severe else ""
    where = "on CPU shares" if record.case.device_kind == "cpu" else "on GPUs"
    return f"{rate:,.1f} samples/s {where}{doubt}"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
