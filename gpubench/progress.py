"""How a run goes on, on standard error: a line for each launch, and on a terminal what the devices are doing now."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

from gpubench.harness.gang.launch import Launch
from gpubench.harness.outcomes import printable
from gpubench.spec.case import Device
from gpubench.spec.record import Phase, RunRecord

if TYPE_CHECKING:
    from rich.console import RenderableType

WORDS: dict[str, str] = {
    "start": "starting",
    "build": "building",
    "warm_up": "warming up",
    "round": "measuring",
    "stop": "stopping",
}
TIMED = ("warm_up", "round")
REDRAW_SECONDS = 1.0
GIB = 2**30
GAP = 2  # between columns
NARROWEST_NAME = 12  # of a device, where the terminal is narrow

Values = Mapping[str, float | None]  # of a device, by metric
Readings = Callable[[], Mapping[str, Values]]  # the sampler's newest, by device id


class LineProgress:
    """One line a launch, with what it came to and the time that the rest will take. A context manager."""

    def __init__(
        self, total: int = 0, stream: TextIO | None = None, write: Callable[[str], None] | None = None
    ) -> None:
        self.total = total
        self.done = 0
        self._began = self._launch_began = self._finished = time.monotonic()
        self._stream = stream or sys.stderr or io.StringIO()  # None where the shell has closed it
        self._write = write or self._print

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def phase(self, launch: Launch, phase: Phase, samples_per_second: float | None = None) -> None:
        if phase == "start":
            self._launch_began = time.monotonic()

    def expect(self, more: int) -> None:
        """So many launches more are to come."""
        self.total += more

    def finished(self, record: RunRecord) -> None:
        self.done += 1
        self._finished = time.monotonic()
        seconds = self._finished - self._launch_began
        left = self._seconds_left()
        rest = "" if not left else f"; about {_minutes(left)} left"
        told = f"{_result(record)}{_waited(record)}"
        self._write(f"{self._counter(self.done)} {record.case.id}: {told} ({seconds:.0f} s{rest})")

    def note(self, text: str) -> None:
        self._write(text)

    def waiting(self, text: str) -> None:
        """A launch waits for something, which `text` says."""
        self._write(text)

    def forecast(self, text: str) -> None:
        """How long the run will take, as far as it is known by now."""
        self._write(text)

    def _seconds_left(self) -> float | None:
        """As long as the launches so far have taken on average, for each that is to come; None before the first."""
        if not self.done:
            return None
        whole = (self._finished - self._began) / self.done * (self.total - self.done)
        return max(0.0, whole - (time.monotonic() - self._finished))

    def _counter(self, number: int) -> str:
        return f"[{number:>{len(str(self.total))}}/{self.total}]"

    def _print(self, text: str) -> None:
        """Nobody reading any more is no reason to stop measuring."""
        with contextlib.suppress(OSError):
            self._stream.write(text + "\n")
            self._stream.flush()


class Quiet(LineProgress):
    """Says nothing but what went wrong."""

    def finished(self, record: RunRecord) -> None:
        self.done += 1
        began_unquiet = record.schedule is not None and record.schedule.quiet is False
        if record.outcome.status != "ok" or began_unquiet:
            self._write(f"{record.case.id}: {_result(record)}{_waited(record)}")

    def waiting(self, text: str) -> None:
        pass

    def forecast(self, text: str) -> None:
        pass


class LiveProgress(LineProgress):
    """Below the lines, the case at work, its samples/s, and a line for each of its devices, for a terminal.

    `readings` gives the devices' newest values. Drawn between rounds, and every second where nothing is timed: while
    steps are, the screen stands still, as drawing takes time on the cores that a CPU share may be made of.
    """

    def __init__(self, stream: TextIO | None = None, readings: Readings = dict) -> None:
        from rich.live import Live

        from gpubench.report import terminal

        super().__init__(stream=stream, write=self._print_above)
        self.readings = readings
        self._launch: Launch | None = None
        self._phase: Phase = "start"
        self._rate: float | None = None
        self._ended = threading.Event()
        self._live = Live(
            console=terminal.console(self._stream, force_terminal=True),
            get_renderable=self._screen,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._ticking = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._live.start()
            self._live.console.show_cursor()  # a run that is stopped (Ctrl-Z) or killed leaves the terminal as it was
        self._ticking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._ticking.join()
        with contextlib.suppress(OSError):
            self._live.stop()

    def phase(self, launch: Launch, phase: Phase, samples_per_second: float | None = None) -> None:
        super().phase(launch, phase, samples_per_second)
        self._launch, self._phase, self._rate = launch, phase, samples_per_second
        self._draw()

    def finished(self, record: RunRecord) -> None:
        self._launch = None
        super().finished(record)

    def _tick(self) -> None:
        while not self._ended.wait(REDRAW_SECONDS):
            if self._phase not in TIMED:
                self._draw()

    def _draw(self) -> None:
        with contextlib.suppress(OSError):
            self._live.refresh()

    def _print_above(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._live.console.print(text, markup=False, emoji=False, soft_wrap=True)
            self._live.refresh()

    def _screen(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        if self._launch is None:
            return ""
        case = self._launch.case
        where = "on CPU shares" if case.device_kind == "cpu" else "on GPUs"
        rate = f", {self._rate:,.1f} samples/s {where}" if self._rate else ""
        left = self._seconds_left()
        rest = f"; about {_minutes(left)} left" if left else ""
        head = f"{self._counter(self.done + 1)} {case.id}: {WORDS[self._phase]}{rate}"
        seconds = time.monotonic() - self._launch_began
        return Group(
            Text(f"{head} ({seconds:.0f} s{rest})", no_wrap=True, overflow="ellipsis"),
            device_table(self._launch.devices, self.readings(), self._live.console.width),
        )


def device_table(devices: Sequence[Device], newest: Mapping[str, Values], width: int) -> RenderableType:
    """A line for each device, with the columns that fit; what it does not tell, or has not yet told, is a dash."""
    from rich.table import Table
    from rich.text import Text

    rows = [("device", "busy", "memory", "power", "temp.", "clock")]
    for device in devices:
        values = newest.get(device.id, {})
        rows.append(
            (
                printable(f"{device.id} {device.name}" if device.kind == "cpu" else f"{device.id[:12]} {device.name}"),
                _shown(values, "utilization_percent", lambda percent: f"{percent:.0f} %"),
                _shown(values, "memory_used_bytes", _gib_of(device.memory_bytes)),
                _shown(values, "power_watts", lambda watts: f"{watts:.0f} W"),
                _shown(values, "temperature_celsius", lambda celsius: f"{celsius:.0f} °C"),
                _shown(values, "sm_clock_mhz", lambda mhz: f"{mhz:.0f} MHz"),
            )
        )
    widths = [max(map(len, column)) + GAP for column in zip(*rows, strict=True)]
    fitting = [*accumulate([min(widths[0], NARROWEST_NAME + GAP), *widths[1:]])]
    n = max(1, sum(end <= width + GAP for end in fitting))
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for name in rows[0][:n]:
        table.add_column(
            name,
            justify="left" if name == "device" else "right",
            no_wrap=True,
            header_style="dim",
            max_width=width - sum(widths[1:n]) if name == "device" else None,
        )
    for row in rows[1:]:
        table.add_row(*map(Text, row[:n]))  # no markup: a name may hold anything
    return table


def for_terminal(stream: TextIO | None) -> bool:
    """Whether lines can be rewritten there; where the shell has closed it (2>&-), it is None."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _shown(values: Values, metric: str, words: Callable[[float], str]) -> str:
    value = values.get(metric)
    return "-" if value is None else words(value)


def _gib_of(all_bytes: int | None) -> Callable[[float], str]:
    return lambda used: f"{used / GIB:.1f}" + (f" of {all_bytes / GIB:.0f} GiB" if all_bytes else " GiB")


def _result(record: RunRecord) -> str:
    if record.outcome.status != "ok":
        return f"{record.outcome.status}: {printable(record.outcome.message)}"
    seconds = sum(one.seconds for one in record.rounds)
    rate = sum(one.samples for one in record.rounds) / seconds if seconds else 0.0
    severe = [check.name for check in record.checks if check.severity == "severe"]
    doubt = f", but: {', '.join(severe)}" if severe else ""
    where = "on CPU shares" if record.case.device_kind == "cpu" else "on GPUs"
    return f"{rate:,.1f} samples/s {where}{doubt}"


def _waited(record: RunRecord) -> str:
    """How long the launch waited for quiet devices, and whether they became so; nothing where it did not wait."""
    if record.schedule is None or record.schedule.waited_for_quiet_seconds is None:
        return ""
    seconds = f"{record.schedule.waited_for_quiet_seconds:.1f} s"
    if record.schedule.quiet is None:
        return f"; waited {seconds}, and whether the devices were quiet cannot be read"
    return f"; waited {seconds} until quiet" if record.schedule.quiet else f"; began after {seconds} without quiet"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
