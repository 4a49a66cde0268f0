"""Through the whole sampler: what hardware and drivers do wrong, and what others do to a GPU, while rounds run.

`test_sampler_process.py` has what ends or hangs the sampler itself, and a GPU that falls off the bus.
"""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest

from gpubench.spec.record import RoundTelemetry, Telemetry
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
    assert figures.unavailable["pcie_tx_bytes"] == "the counter fell: it wrapped, or was reset"
    assert figures.energy_source == "counter"


def test_a_load_by_schedule_is_what_is_measured(fake_nvml: Path, tmp_path: Path):
    start = time.monotonic() + 5
    scenario = DEFAULT.but_each("schedule", [f"{start + 0.5:.6f},{start + 1.5:.6f}"])
    figures = one_round(fake_nvml, tmp_path, start, scenario)
    assert scenario.busy_seconds(0, start, start + SECONDS) == pytest.approx(1)
    assert figures.utilization_percent == pytest.approx(50, abs=2)
    assert figures.energy_joules == pytest.approx(80 * 2 + 420 * 1, abs=figures.energy_error_joules)
    assert figures.pcie_tx_bytes == pytest.approx(1e9, rel=0.02)


# GPU 0 is busy for the first half of each two seconds of the clock, but for what is named here.
TROUBLES: dict[str, dict[str, Setting]] = {
    "much": {
        "corrected_per_second": 100,
        "uncorrected_per_second": 10,
        "replays_per_second": 50,
        "remapped_per_second": 5,
        "throttle_thermal": 0.5,
        "name": os.fsdecode(b"GPU \xff\xfe one"),  # no UTF-8
        "processes": "4711 1073741824,4712 1073741824",  # they come in the second round
    },
    "garbage": {"garbage": 1},
    "refused": {
        "errors.nvmlDeviceGetMemoryInfo_v2": 4,
        "errors.nvmlDeviceGetMemoryInfo": 4,
        "fail": "nvmlDeviceGetFieldValues=3",
    },
    "stamps of CLOCK_MONOTONIC": {"samples_clock": "monotonic"},
    "stamps of CLOCK_BOOTTIME": {"samples_clock": "boottime"},
    "stamps since 1970": {"samples_clock": "realtime"},
    "stamps of an unknown clock": {"samples_clock": "unknown"},
    "an empty buffer": {"samples": 0},
}


@pytest.fixture(scope="module")
def troubled(fake_nvml: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Telemetry]:
    """Measured anew where the machine's other work had the edges of a round read too late, up to five times."""
    for _ in range(5):
        found = _measured(fake_nvml, tmp_path_factory.mktemp("troubled"))
        counted = found["much"].devices[0].rounds
        if len(counted) == 2 and all(figures.ecc_corrected is not None for figures in counted):
            break
    return found


def _measured(fake_nvml: Path, folder: Path) -> dict[str, Telemetry]:
    """Two rounds of 2 s, one after the other, with idle edges; processes come in the second one."""
    start = 2 * math.ceil(time.monotonic() / 2 + 2) - 0.3
    rounds = [make_round(start, start + 2), make_round(start + 2.1, start + 4.1, index=1)]
    with ExitStack() as stack:
        samplers = {}
        for name, settings in TROUBLES.items():
            with loading(fake_nvml, busy_share=0.5, processes_at=start + 3, **settings):
                samplers[name] = stack.enter_context(Sampler([gpu(0)], folder))
        for sampler in samplers.values():
            wait_until(sampler.latest)
        assert time.monotonic() < start - 0.03, "the samplers have begun in time"
        for at in (start - 0.03, start + 2, start + 2.07, start + 4.1):
            time.sleep(max(0.0, at - time.monotonic()))
            for sampler in samplers.values():
                sampler.edge()
        return {name: one.telemetry([gpu(0)], rounds, 0, time.monotonic_ns()) for name, one in samplers.items()}


@pytest.mark.parametrize("name", ["stamps of CLOCK_MONOTONIC", "stamps of CLOCK_BOOTTIME", "stamps since 1970"])
def test_the_clock_of_the_drivers_buffer_is_found_out(troubled: dict[str, Telemetry], name: str):
    for figures in troubled[name].devices[0].rounds:
        assert figures.utilization_source == "driver's buffer"
        assert figures.utilization_percent == pytest.approx(50, abs=2)


@pytest.mark.parametrize("name", ["stamps of an unknown clock", "an empty buffer"])
def test_without_the_drivers_buffer_utilisation_is_snapshots_and_says_so(troubled: dict[str, Telemetry], name: str):
    for figures in troubled[name].devices[0].rounds:
        assert figures.utilization_source == "snapshots"
        assert figures.utilization_percent is not None


def test_memory_errors_and_replays_of_a_round_are_what_their_counters_grew_by(troubled: dict[str, Telemetry]):
    for figures in troubled["much"].devices[0].rounds:  # one busy second each
        assert figures.ecc_corrected == pytest.approx(100, abs=3)
        assert figures.ecc_uncorrected == pytest.approx(10, abs=1)
        assert figures.pcie_replays == pytest.approx(50, abs=2)
        assert figures.remapped_rows == pytest.approx(5, abs=1)


def test_time_that_heat_took_is_counted_apart_from_that_for_power(troubled: dict[str, Telemetry]):
    for figures in troubled["much"].devices[0].rounds:
        assert figures.throttle_ns["thermal"] == pytest.approx(0.5e9, abs=0.03e9)
        assert figures.throttle_ns["power"] == pytest.approx(0.25e9, abs=0.03e9)
        assert "thermal (software)" in figures.clock_event_reasons


def test_figures_that_cannot_be_are_none_with_a_reason_and_the_record_can_be_written(troubled: dict[str, Telemetry]):
    (device,) = troubled["garbage"].devices
    for figures in device.rounds:
        assert (figures.utilization_percent, figures.power_watts, figures.gpm) == (None, None, {})
    assert "250 %" in device.unavailable["utilization_percent"]
    assert "all bits set" in device.unavailable["power_watts"]
    assert "what is no number" in device.unavailable["gpm"]
    json.dumps(asdict(troubled["garbage"]), allow_nan=False)


def test_a_name_that_is_no_utf8_hides_nothing(troubled: dict[str, Telemetry]):
    telemetry = troubled["much"]
    assert telemetry.system is not None
    assert [facts.name for facts in telemetry.system.gpus] == ["GPU \ufffd\ufffd one"]
    assert telemetry.devices[0].rounds[0].power_watts is not None


def test_what_may_not_be_read_is_none_with_the_drivers_reason(troubled: dict[str, Telemetry]):
    (device,) = troubled["refused"].devices
    assert device.rounds[0].memory_used_bytes is None
    assert "Insufficient Permissions" in device.unavailable["memory_used_bytes"]
    assert device.rounds[0].power_watts is not None


def test_what_is_not_supported_is_none_with_the_drivers_reason(troubled: dict[str, Telemetry]):
    (device,) = troubled["refused"].devices
    for figures in device.rounds:
        assert (figures.pcie_tx_bytes, figures.throttle_ns, figures.power_average_watts) == (None, {}, None)
    for metric in ("pcie_tx_bytes", "throttle_power_ns", "power_average_watts"):
        assert "Not Supported" in device.unavailable[metric]
        assert metric not in device.series


def test_a_tenant_who_joins_in_the_middle_of_a_run_is_seen_in_its_round(troubled: dict[str, Telemetry]):
    telemetry = troubled["much"]
    assert [figures.processes for figures in telemetry.devices[0].rounds] == [0, 2]
    assert telemetry.system is not None
    assert telemetry.system.gpus[0].processes == []  # when the run began
