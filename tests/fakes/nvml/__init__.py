"""A fake `libnvidia-ml.so.1` for the real `pynvml`, and the truth about the load that its GPUs claim to have.

`build` compiles it, `environment` makes a child process load it. All times are of CLOCK_MONOTONIC, in seconds.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path

from gpubench.spec.case import Device

LOAD_SECONDS = 2.0  # busy first, then idle
WINDOW_SECONDS = 1 / 6  # of utilisation
REFRESH_SECONDS = 0.02  # of power and the energy counter
IDLE_WATTS, BUSY_WATTS = 80.0, 500.0
GIB = 2**30
COMPILER = shutil.which("gcc") or shutil.which("cc")


def build(folder: Path, *options: str) -> Path:
    """Compile the library into `folder`; `options` are the compiler's, as `-DOLD_DRIVER`."""
    assert COMPILER is not None, "the fake NVML needs a C compiler"
    library = folder / "libnvidia-ml.so.1"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
    source = Path(__file__).with_name("nvml.c")
    # The soname makes the C library take it for the real one.
    command = [COMPILER, *flags, "-Wl,-soname,libnvidia-ml.so.1", *options, "-o", str(library), str(source), "-lm"]
    subprocess.run(command, check=True)
    return folder


def environment(folder: Path, **settings: str | int) -> dict[str, str]:
    """What a process must have in its environment from its start on: environment(folder, count=8, mig=1)."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    return {"LD_LIBRARY_PATH": path} | {f"FAKE_NVML_{name.upper()}": str(value) for name, value in settings.items()}


def gpu(number: int) -> Device:
    """The GPU that has this load, whatever index NVML gives it."""
    uuid = f"GPU-{0xA0 + number:08x}-fa4e-4000-8000-{number:012d}"
    return Device(kind="gpu", id=uuid, name="Fake GPU 80GB", memory_bytes=80 * GIB)


def busy_seconds(number: int, since: float, until: float) -> float:
    return _busy(number, until) - _busy(number, since)


def energy_joules(number: int, since: float, until: float) -> float:
    return IDLE_WATTS * (until - since) + (BUSY_WATTS - IDLE_WATTS) * busy_seconds(number, since, until)


def _busy(number: int, time: float) -> float:
    busy = LOAD_SECONDS * (0.1 + 0.09 * (number % 8))
    periods = math.floor(time / LOAD_SECONDS)
    return periods * busy + min(time - periods * LOAD_SECONDS, busy)
