"""The sampler process: `python -m gpubench.telemetry.sampling`. Reads the devices at a fixed period, appends to a file.

It takes one line of JSON on its standard input and ends when that closes or its parent is gone. Nothing heavy is
imported, and the file is flushed after each sweep: a process that dies in between loses nothing.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from gpubench.spec.case import Device
from gpubench.telemetry.source import Sample, Source

GRACE_SECONDS = 2.0  # for a sweep under way; a driver that hangs longer is left hanging
PARENT_CHECK_SECONDS = 0.5


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


def main() -> None:
    settings = settings_from_line(sys.stdin.readline())
    stop = threading.Event()
    threading.Thread(target=_watch, args=(settings.parent_pid, stop), daemon=True).start()
    sources = [_make(kind, settings.devices) for kind in ("gpu", "cpu") if _of(kind, settings.devices)]
    with open(settings.path, "a", encoding="utf-8") as file:
        _write(file, [{"header": dataclasses.asdict(source.header())} for source in sources])
        live = [source for source in sources if source.header().reason is None]
        if live:
            run_schedule(lambda: _sweep(file, live), settings.period_ns, stop)
    for source in live:
        source.close()


def run_schedule(sweep: Callable[[], None], period_ns: int, stop: threading.Event) -> None:
    """Sweep at t0 + k * period. Ticks that were missed are skipped: catching up would bunch the samples."""
    start_ns, tick = time.monotonic_ns(), 1
    while not stop.wait((start_ns + tick * period_ns - time.monotonic_ns()) / 1e9):
        sweep()
        tick = max(tick + 1, -((start_ns - time.monotonic_ns()) // period_ns))  # the next one that lies ahead


def _watch(parent_pid: int, stop: threading.Event) -> None:
    """End with the parent, and also where a call into the driver never returns.

    A signal on the parent's death (prctl) would come too early if the thread that started us ended, and would not
    let a sweep finish; killing a process within the driver has been seen to hang a GPU.
    """
    while os.getppid() == parent_pid and not select.select([sys.stdin], [], [], PARENT_CHECK_SECONDS)[0]:
        pass
    stop.set()
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


def _sweep(file: TextIO, sources: Sequence[Source]) -> None:
    _write(file, [_body(sample) for source in sources for sample in source.sweep()])


def _body(sample: Sample) -> dict[str, Any]:
    return {"time_ns": sample.time_ns, "id": sample.id, "values": sample.values, "problems": sample.problems}


def _write(file: TextIO, bodies: Sequence[dict[str, Any]]) -> None:
    file.write("".join(json.dumps(body, separators=(",", ":")) + "\n" for body in bodies))
    file.flush()


if __name__ == "__main__":
    main()
