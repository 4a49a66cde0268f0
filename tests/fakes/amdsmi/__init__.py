"""A fake `libamd_smi.so` for AMD's own `amdsmi` package, and the truth about the load that its GPUs claim to have."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpubench.spec.case import Device

GIB = 2**30
LOAD_SECONDS = 2.0  # busy first, then idle
IDLE_WATTS, BUSY_WATTS = 90.0, 600.0
COMPILER = shutil.which("gcc") or shutil.which("cc")


def build(folder: Path) -> Path:
    """Compile the library into `folder`/lib, with a stub for each symbol that the package looks up when imported."""
    assert COMPILER is not None, "the fake library needs a C compiler"
    package = find_spec("amdsmi")
    assert package is not None
    assert package.origin is not None
    wrapper = Path(package.origin).with_name("amdsmi_wrapper.py").read_text()
    symbols = sorted(set(re.findall(r"_libraries\['libamd_smi\.so'\]\.(\w+)", wrapper)))
    stubs = folder / "stubs.c"
    stubs.write_text("".join(f"__attribute__((weak)) int {name}(void) {{ return 2; }}\n" for name in symbols))
    library = folder / "lib" / "libamd_smi.so"
    library.parent.mkdir()
    flags = ["-std=gnu11", "-O1", "-Wall", "-Werror", "-fPIC", "-shared"]
    sources = [str(stubs), str(Path(__file__).with_name("fake.c"))]
    subprocess.run([COMPILER, *flags, "-o", str(library), *sources, "-lm"], check=True)
    return folder


@contextmanager
def loading(folder: Path, **settings: str | int) -> Iterator[None]:
    """Processes that are started meanwhile find the library, with these settings; fake.c has them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROCM_HOME", str(folder))
        patch.setenv("FAKE_AMDSMI", ";".join(f"{key}={value}" for key, value in settings.items()))
        yield


def gpu(number: int) -> Device:
    return Device(
        kind="gpu",
        vendor="amd",
        id=f"GPU-a{number:05x}fa4e{number:06x}",
        name="Fake Instinct 192GB",
        memory_bytes=192 * GIB,
    )


def busy_share(number: int) -> float:
    return 0.1 + 0.09 * number


def busy_seconds(number: int, since: float, until: float) -> float:
    """Between two times of CLOCK_MONOTONIC."""
    return _busy(number, until) - _busy(number, since)


def energy_joules(number: int, since: float, until: float) -> float:
    return IDLE_WATTS * (until - since) + (BUSY_WATTS - IDLE_WATTS) * busy_seconds(number, since, until)


def _busy(number: int, time: float) -> float:
    periods = math.floor(time / LOAD_SECONDS)
    each = LOAD_SECONDS * busy_share(number)
    return periods * each + min(time - periods * LOAD_SECONDS, each)
