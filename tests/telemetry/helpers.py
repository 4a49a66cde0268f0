"""What the telemetry tests share: rounds, and child processes that find the fake NVML library."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpubench.spec.record import Round
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario, Setting

LONG_SECONDS = 20.0


@contextmanager
def loading(folder: Path, scenario: Scenario = nvml.DEFAULT, **settings: Setting) -> Iterator[None]:
    """Processes that are started meanwhile find the fake library, with this machine and these settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in nvml.environment(folder, scenario, **settings).items():
            patch.setenv(name, value)
        yield


def wait_until(is_so: Callable[[], object]) -> None:
    """For what takes milliseconds, on a machine that is busy with something else."""
    deadline = time.monotonic() + LONG_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def make_round(start_seconds: float, end_seconds: float, index: int = 0) -> Round:
    start_ns, end_ns = round(start_seconds * 1e9), round(end_seconds * 1e9)
    seconds = [end_seconds - start_seconds]
    return Round(
        index=index, start_ns=start_ns, end_ns=end_ns, steps=1, samples=1, rank_seconds=seconds, rank_cpu_seconds=[0.0]
    )
