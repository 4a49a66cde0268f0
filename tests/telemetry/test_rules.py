"""What is asked of the driver, and how often. The fake driver aborts a process that asks for what may not be asked."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gpubench.telemetry
from gpubench.telemetry import nvml_ways
from gpubench.telemetry.nvml import binding
from gpubench.telemetry.sampler import Sampler
from tests.fakes import nvml
from tests.fakes.nvml import gpu
from tests.telemetry.helpers import loading, make_round, wait_until

# Those that meant the same in every release of nvidia-ml-py from 11.495 to 13.615.
STABLE = {*range(74, 80), 82, 83, 91, 94, 95, *range(138, 146), 185, 186, *range(187, 191), 197, 198, *range(201, 205)}
NOT_CALLED = {"nvmlDeviceGetPcieThroughput", "nvmlDeviceGetNumaNodeId"}  # named to say so
TELEMETRY = Path(gpubench.telemetry.__file__).parent


def test_only_fields_are_asked_for_that_never_changed_their_number():
    groups = (nvml_ways.FAST_FIELDS, nvml_ways.SLOW_FIELDS, nvml_ways.LINK_FIELDS, nvml_ways.per_link_fields(range(18)))
    assert {field.number for fields in groups for field in fields} <= STABLE


@pytest.mark.parametrize(
    "call",
    [
        *(f"nvmlDeviceGetFieldValues(handle, [{number}])" for number in (199, 200, 251, 271, 273)),
        "nvmlDeviceGetPcieThroughput(handle, 0)",
    ],
)
def test_the_fake_driver_aborts_who_asks_for_what_may_not_be_asked(fake_nvml: Path, call: str):
    code = f"from pynvml import *; nvmlInit(); handle = nvmlDeviceGetHandleByIndex(0); {call}"
    with loading(fake_nvml):
        assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == -6
        allowed = code.replace(call, "nvmlDeviceGetFieldValues(handle, [186])")
        assert subprocess.run([sys.executable, "-c", allowed], capture_output=True).returncode == 0


def test_every_function_that_the_code_calls_is_one_of_the_fake_driver():
    driver = "".join(path.read_text() for path in Path(nvml.__file__).parent.glob("*.c"))
    has = set(re.findall(r"(?:FUNCTION|NUMBER)\((nvml\w+)|Return (nvml\w+)\(|\*(nvml\w+)\(", driver))
    exported = {name for names in has for name in names if name}
    code = "".join(path.read_text() for path in TELEMETRY.glob("*.py"))
    called = {name for name in re.findall(r"\bnvml[A-Z]\w+", code) if callable(getattr(binding(), name, None))}
    called -= NOT_CALLED
    assert len(called) > 40
    for name in called:
        # The binding has several symbols in a function where it prefers the newer version of one.
        symbols = set(re.findall(r'"(nvml\w+)"', inspect.getsource(getattr(binding(), name))))
        assert not symbols or symbols & exported, name


def test_fast_slow_and_rare_calls_are_made_that_often_and_all_at_the_edges_of_a_round(fake_nvml: Path, tmp_path: Path):
    period, seconds = 0.1, 3.0
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, period) as sampler:
        wait_until(sampler.latest)
        sampler.edge()
        start = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        sampler.edge()
        (device,) = sampler.telemetry([gpu(0)], [make_round(start, end)], 0, time.monotonic_ns()).devices

    def readings(metric: str) -> int:
        """Of a counter, which has a value only where it was read."""
        series = zip(device.time_ns, device.series[metric], strict=True)
        return sum(value is not None and start <= t / 1e9 <= end for t, value in series)

    assert readings("energy_joules") == pytest.approx(seconds / period, abs=6)
    assert readings("throttle_power_ns") == readings("energy_joules")
    assert 2 <= readings("pcie_tx_bytes") <= 4  # every second
    assert readings("ecc_corrected") <= 1  # every five
    (figures,) = device.rounds
    assert figures.pcie_tx_bytes is not None
    assert figures.ecc_corrected == 0
    assert figures.gpm
