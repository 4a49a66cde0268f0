"""The sampler process: `python -m gpubench.telemetry.sampling`. Reads the devices at a fixed period, appends to a file.

It takes lines on its standard input, the first one its settings and the later ones commands, and ends when that closes
or its parent is gone. Nothing heavy is imported, and a process that dies loses what it read in its last half second.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from gpubench.spec.case import Device
from gpubench.telemetry.source import Sample, Source

GRACE_SECONDS = 2.0  # for a sweep under way; a driver that hangs longer is left hanging
PARENT_CHECK_SECONDS = 0.5
WRITE_NS = 500_000_000
STDIN = 0  # read without a buffer: select() does not see what that would hold
LARGEST_SHARE = 0.2  # of the period that a sweep may take; else the period is made longer
# Commands. An edge is a round's: everything is read. A pause is for a round without the sampler.
EDGE, PAUSE, RESUME, STOP = "edge", "pause", "resume", "stop"
Commands = queue.SimpleQueue[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What the parent asks for."""

    devices: tuple[Device, ...]
    path: str
    period_ns: int
    parent_pid: int


def settings_to_line(settings: Settings) -> str:
    return json.dumps(dataclasses.asdict(settings)) + "\n"


def settings_from_line(line: bytes) -> Settings:
    body = json.loads(line)
    devices = tuple(Device(**{**device, "cores": tuple(device["cores"])}) for device in body.pop("devices"))
    return Settings(devices=devices, **body)


def main() -> None:
    received = b""
    while b"\n" not in received:
        received += os.read(STDIN, 65536) or b"\n"
    first, _, rest = received.partition(b"\n")
    settings, commands = settings_from_line(first), Commands()
    threading.Thread(target=_listen, args=(settings.parent_pid, rest, commands), daemon=True).start()
    sources = [_make(kind, settings.devices) for kind in ("gpu", "cpu") if _of(kind, settings.devices)]
    live = [source for source in sources if source.header().reason is None]
    period_ns = fitting_period_ns(live, settings.period_ns)
    gc.freeze()  # what is there by now stays, and need not be looked through again
    with open(settings.path, "a", encoding="utf-8") as file:
        _write(file, [{"period_ns": period_ns}, *({"header": dataclasses.asdict(s.header())} for s in sources)])
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
    for _ in range(2):
        start_ns = time.monotonic_ns()
        for source in sources:
            source.sweep()
        took.append(time.monotonic_ns() - start_ns)
    return max(period_ns, round(min(took) / LARGEST_SHARE))


def run_schedule(sweep: Callable[[bool, int], None], period_ns: int, commands: Commands) -> None:
    """Sweep at t0 + k * period, and at once at an edge; `sweep` is told which, and by how many ns it is late.

    Ticks that were missed are skipped: catching up would bunch the samples.
    """
    start_ns, tick = time.monotonic_ns(), 1
    while True:
        try:
            wait_ns = start_ns + tick * period_ns - time.monotonic_ns()
            command = commands.get(timeout=max(0, wait_ns) / 1e9)
        except queue.Empty:
            sweep(False, time.monotonic_ns() - start_ns - tick * period_ns)
            tick = max(tick + 1, -((start_ns - time.monotonic_ns()) // period_ns))  # the next one that lies ahead
            continue
        if command == PAUSE:
            while command not in (RESUME, STOP):
                command = commands.get()
        if command == STOP:
            return
        if command == EDGE:
            sweep(True, 0)
        tick = max(tick, -((start_ns - time.monotonic_ns()) // period_ns))


def _listen(parent_pid: int, rest: bytes, commands: Commands) -> None:
    """Pass commands on; end with the parent, and also where a call into the driver never returns.

    A signal on the parent's death (prctl) would come too early if the thread that started us ended, and would not
    let a sweep finish; killing a process within the driver has been seen to hang a GPU.
    """
    while os.getppid() == parent_pid:
        *whole, rest = rest.split(b"\n")
        for line in whole:
            commands.put(line.decode())
        if select.select([STDIN], [], [], PARENT_CHECK_SECONDS)[0]:
            received = os.read(STDIN, 65536)
            if not received:
                break
            rest += received
    commands.put(STOP)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def _of(kind: str, devices: Sequence[Device]) -> list[Device]:
    return [device for device in devices if device.kind == kind]


def _make(kind: str, devices: Sequence[Device]) -> Source:
    if kind == "gpu":
        from gpubench.telemetry.nvml_source import NvmlSource

        return NvmlSource(_of(kind, devices))
    from gpubench.telemetry.cpu import CpuSource

    return CpuSource(_of(kind, devices))


class Sweeps:
    """Sweeps over all sources, on their way to the file."""

    def __init__(self, file: TextIO, sources: Sequence[Source]) -> None:
        self._file, self._sources = file, sources
        self._waiting: list[dict[str, Any]] = []
        self._written_ns = 0

    def take(self, edge: bool, late_ns: int) -> None:
        start_ns = time.monotonic_ns()
        samples = [sample for source in self._sources for sample in source.sweep(edge)]
        took_ns = time.monotonic_ns() - start_ns
        cost = {"time_ns": start_ns, "took_ns": took_ns, "late_ns": late_ns, "cpu_ns": time.process_time_ns()}
        self._waiting.append({"samples": [_body(sample) for sample in samples], "sweep": cost})
        if edge or start_ns - self._written_ns >= WRITE_NS:
            self._written_ns = start_ns
            self.write()

    def write(self) -> None:
        _write(self._file, self._waiting)
        self._waiting = []


def _body(sample: Sample) -> dict[str, Any]:
    body: dict[str, Any] = {"time_ns": sample.time_ns, "id": sample.id, "values": sample.values}
    if sample.problems:
        body["problems"] = sample.problems
    if sample.history:
        body["history"] = sample.history
    if sample.gpm:
        body["gpm"] = dataclasses.asdict(sample.gpm)
    if sample.xids:
        body["xids"] = sample.xids
    return body


def _write(file: TextIO, bodies: Sequence[dict[str, Any]]) -> None:
    file.write("".join([_ENCODE(body) + "\n" for body in bodies]))
    file.flush()


_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


if __name__ == "__main__":
    main()
