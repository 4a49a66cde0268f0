"""The sampler process: `python -m gpubench.telemetry.sampling`. Reads the devices at a fixed period, appends to a file.

It takes lines on its standard input, the first one its settings and the later ones commands, and ends when that closes
or its parent is gone. Nothing heavy is imported, and a process that dies loses its last second and a half.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import msgspec

from gpubench.spec.case import Device
from gpubench.telemetry.calls import LARGEST_SHARE
from gpubench.telemetry.source import Source, source_of

GRACE_SECONDS = 2.0  # for a sweep under way; a driver that hangs longer is left hanging
PARENT_CHECK_SECONDS = 1.0
WRITE_NS = 500_000_000
STDIN = 0
# Commands. An edge is a round's: everything is read. A pause is for a round without the sampler.
EDGE, PAUSE, RESUME, STOP = "edge", "pause", "resume", "stop"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What the parent asks for."""

    devices: tuple[Device, ...]
    path: str
    period_ns: int
    parent_pid: int


def settings_to_line(settings: Settings) -> str:
    return json.dumps(dataclasses.asdict(settings)) + "\n"


def settings_from_line(line: str) -> Settings:
    body = json.loads(line)
    devices = tuple(Device(**{**device, "cores": tuple(device["cores"])}) for device in body.pop("devices"))
    return Settings(devices=devices, **body)


class Commands:
    """Lines from a descriptor, read without a buffer: poll() does not see what that would hold."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._rest = descriptor, b""
        self._poll = select.poll()  # a third less of a wake-up than select() takes
        self._poll.register(descriptor, select.POLLIN)

    def next(self, timeout_seconds: float | None = None) -> str | None:
        """None where none comes in time; STOP where none will come any more."""
        while b"\n" not in self._rest:
            if not self._poll.poll(None if timeout_seconds is None else timeout_seconds * 1e3):
                return None
            received = os.read(self._descriptor, 65536)
            if not received:
                return STOP
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()


def main() -> None:
    commands = Commands(STDIN)
    settings = settings_from_line(commands.next() or "")
    threading.Thread(target=_watch, args=(settings.parent_pid,), daemon=True).start()
    sources = [make_source(name, settings.devices) for name in dict.fromkeys(map(source_of, settings.devices))]
    live = [source for source in sources if source.header().reason is None]
    period_ns = max(fitting_period_ns(live, settings.period_ns), *(s.header().period_ns for s in sources))
    edge_ns = _edge_ns(live)  # which also leaves none of these sweeps for the series
    gc.freeze()  # what is there by now stays
    gc.set_threshold(50_000)  # only errors leave cycles; to look for them at every second's samples is dear
    with open(settings.path, "ab") as file:
        for body in [
            {"period_ns": period_ns, "edge_ns": edge_ns},
            *({"header": dataclasses.asdict(s.header())} for s in sources),
        ]:
            file.write(json.dumps(body).encode() + b"\n")
        file.flush()
        if live:
            sweeps = Sweeps(file, live)
            sweeps.take(True, 0)  # the first sample has everything
            run_schedule(sweeps.take, period_ns, commands)
            sweeps.write()
    for source in live:
        source.close()


def fitting_period_ns(sources: Sequence[Source], period_ns: int) -> int:
    """The period, or a longer one where a sweep would take too much of it."""
    took = []
    for _ in range(3):  # one of which has only what is read at every tick
        start_ns = time.monotonic_ns()
        for source in sources:
            source.sweep()
        took.append(time.monotonic_ns() - start_ns)
    return max(period_ns, round(min(took) / LARGEST_SHARE))


def _edge_ns(sources: Sequence[Source]) -> int:
    """How long it takes to read everything."""
    start_ns = time.monotonic_ns()
    for source in sources:
        source.sweep(edge=True)
    return time.monotonic_ns() - start_ns


def run_schedule(sweep: Callable[[bool, int], None], period_ns: int, commands: Commands) -> None:
    """Sweep at t0 + k * period, and at once at an edge; `sweep` is told which, and by how many ns it is late.

    Ticks that were missed are skipped: catching up would bunch the samples.
    """
    start_ns, tick = time.monotonic_ns(), 1
    while True:
        wait_ns = start_ns + tick * period_ns - time.monotonic_ns()
        if wait_ns > period_ns:  # the clock has stepped back: the next tick would be that far away
            start_ns, tick, wait_ns = time.monotonic_ns(), 1, period_ns
        command = commands.next(max(0, wait_ns) / 1e9)
        if command is None:
            sweep(False, time.monotonic_ns() - start_ns - tick * period_ns)
            tick = max(tick + 1, -((start_ns - time.monotonic_ns()) // period_ns))  # the next one that lies ahead
            continue
        if command == PAUSE:
            while command not in (RESUME, STOP):
                command = commands.next(PARENT_CHECK_SECONDS)
        if command == STOP:
            return
        if command == EDGE:
            sweep(True, 0)
        tick = max(tick, -((start_ns - time.monotonic_ns()) // period_ns))


def _watch(parent_pid: int) -> None:
    """End with the parent, and also where a call into the driver never returns.

    A signal on the parent's death (prctl) would come too early if the thread that started us ended, and would not
    let a sweep finish; killing a process within the driver has been seen to hang a GPU.
    """
    closed = select.poll()
    closed.register(STDIN, 0)  # of no event but its end
    while os.getppid() == parent_pid and not closed.poll(PARENT_CHECK_SECONDS * 1e3):
        pass
    os.dup2(os.open(os.devnull, os.O_RDONLY), STDIN)  # its end also where another process holds on to the pipe
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def make_source(name: str, devices: Sequence[Device]) -> Source:
    """The source of that name, for those of the devices that it reads."""
    own = [device for device in devices if source_of(device) == name]
    if name == "nvml":
        from gpubench.telemetry.nvml_source import NvmlSource

        return NvmlSource(own)
    if name == "amdsmi":
        from gpubench.telemetry.amd_source import AmdSource

        return AmdSource(own)
    from gpubench.telemetry.cpu import CpuSource

    return CpuSource(own)


class Sweeps:
    """Sweeps over all sources, on their way to the file."""

    def __init__(self, file: BinaryIO, sources: Sequence[Source]) -> None:
        self._file, self._sources = file, sources
        self._waiting: list[dict[str, Any]] = []
        self._encode = msgspec.json.Encoder().encode_lines  # a sample is a list, in the order of its fields
        self._written_ns = 0

    def take(self, edge: bool, late_ns: int) -> None:
        start_ns = time.monotonic_ns()
        samples = [sample for source in self._sources for sample in source.sweep(edge)]
        took_ns = time.monotonic_ns() - start_ns
        cost = {"time_ns": start_ns, "took_ns": took_ns, "late_ns": late_ns}
        if samples:  # else it is one of the many sweeps that only ask
            cost["cpu_ns"] = time.process_time_ns()
        self._waiting.append({"samples": samples, "sweep": cost})
        if edge or (samples and start_ns - self._written_ns >= WRITE_NS):
            self._written_ns = start_ns
            self.write()

    def write(self) -> None:
        self._file.write(self._encode(self._waiting))
        self._file.flush()
        self._waiting = []


if __name__ == "__main__":
    main()
