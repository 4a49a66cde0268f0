"""A fake `libnvidia-ml.so.1` for the real `pynvml`, and the truth about the load that its GPUs claim to have.

`build` compiles it, `environment` makes a child process load it. All times are of CLOCK_MONOTONIC, in seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from gpubench.spec.case import Device
from tests.fakes.nvml.scenario import Scenario, Setting

GIB = 2**30
DEFAULT = Scenario({"gpu": {"nvlinks": 12}})
LOAD_SECONDS = 2.0  # busy first, then idle
REFRESH_SECONDS = 0.02  # of power and the energy counter
IDLE_WATTS, BUSY_WATTS = 80.0, 500.0
COMPILER = shutil.which("gcc") or shutil.which("cc")
# What drivers before R510 lacked.
OLD_DRIVER_LACKS = ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetFieldValues")


def build(folder: Path, missing: Sequence[str] = ()) -> Path:
    """Compile the library into `folder`, without the symbols that are `missing`."""
    assert COMPILER is not None, "the fake NVML needs a C compiler"
    here = Path(__file__).parent
    folder.mkdir(parents=True, exist_ok=True)
    # A symbol that is named goes before the pattern that fits it.
    hidden = "".join(f" {symbol};" for symbol in ["none", *missing])
    (folder / "symbols.map").write_text(f"{{ global: nvml*; local:{hidden} }};\n")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
    # The soname makes the C library take it for the real one.
    link = ["-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={folder / 'symbols.map'}"]
    sources = [str(here / name) for name in ("load.c", "machine.c", "gauges.c")]
    command = [COMPILER, *flags, *link, "-o", str(folder / "libnvidia-ml.so.1"), *sources, "-lm"]
    subprocess.run(command, check=True)
    return folder


def environment(folder: Path, scenario: Scenario = DEFAULT, **settings: Setting) -> dict[str, str]:
    """What a process must have in its environment from its start on: environment(folder, count=8, mig=1)."""
    path = folder / f"{uuid.uuid4().hex}.settings"
    path.write_bytes(os.fsencode(scenario.but(**settings).flat()))
    libraries = os.pathsep.join(filter(None, [str(folder), os.environ.get("LD_LIBRARY_PATH")]))
    return {"LD_LIBRARY_PATH": libraries, "FAKE_NVML_SETTINGS": str(path)}


def gpu(number: int) -> Device:
    """The GPU of the default machine that has this load, whatever index NVML gives it."""
    return DEFAULT.device(number)


def busy_seconds(number: int, since: float, until: float) -> float:
    return DEFAULT.busy_seconds(number, since, until)


def energy_joules(number: int, since: float, until: float) -> float:
    return DEFAULT.energy_joules(number, since, until)
