"""Through the whole sampler: counters that are reset or wrap in the middle of a round, and a load by schedule."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpubench.spec.record import RoundTelemetry
from gpubench.telemetry.sampler import Sampler
from tests.fakes.nvml import DEFAULT, gpu
from tests.fakes.nvml.scenario import Scenario, Setting
from tests.telemetry.helpers import loading, make_round, wait_until

SECONDS = 2.0


def one_round(
    library: Path, folder: Path, start: float, scenario: Scenario = DEFAULT, **settings: Setting
) -> RoundTelemetry:
    """What GPU 0 did from `start` on."""
    with loading(library, scenario, **settings), Sampler([gpu(0)], folder, 0.05) as sampler:
        wait_until(sampler.latest)
        assert time.monotonic() < start, "the sampler has begun in time"
        time.sleep(start - 0.03 - time.monotonic())
        sampler.edge()  # a round's first edge is asked for before it starts
        time.sleep(start + SECONDS - time.monotonic())
        sampler.edge()
        figures = sampler.telemetry([gpu(0)], [make_round(start, start + SECONDS)], 0, time.monotonic_ns())
    return figures.devices[0].rounds[0]


def test_an_energy_counter_that_is_reset_gives_way_to_power(fake_nvml: Path, tmp_path: Path):
    start = time.monotonic() + 5
    figures = one_round(fake_nvml, tmp_path, start, reset_at=start + SECONDS / 2)
    assert figures.energy_source == "integrated power"
    assert figures.energy_problem == "the counter fell: the driver was loaded again"
    assert figures.energy_joules == pytest.approx(DEFAULT.energy_joules(0, start, start + SECONDS), rel=0.2)


def test_a_byte_counter_that_wraps_has_no_figure(fake_nvml: Path, tmp_path: Path):
    start = time.monotonic() + 5
    # 200 MB are sent within the round, and it wraps after the first 100 MB of them.
    wrap = round(1e9 * DEFAULT.busy_seconds(0, 0, start)) + 10**8
    figures = one_round(fake_nvml, tmp_path, start, counter_wrap=wrap)
    assert figures.pcie_tx_bytes is None
    assert figures.energy_source == "counter"


def test_a_load_by_schedule_is_what_is_measured(fake_nvml: Path, tmp_path: Path):
    start = time.monotonic() + 5
    scenario = DEFAULT.but_each("schedule", [f"{start + 0.5:.6f},{start + 1.5:.6f}"])
    figures = one_round(fake_nvml, tmp_path, start, scenario)
    assert scenario.busy_seconds(0, start, start + SECONDS) == pytest.approx(1)
    assert figures.utilization_percent == pytest.approx(50, abs=2)
    assert figures.energy_joules == pytest.approx(80 * 2 + 420 * 1, abs=figures.energy_error_joules)
    assert figures.pcie_tx_bytes == pytest.approx(1e9, rel=0.02)
