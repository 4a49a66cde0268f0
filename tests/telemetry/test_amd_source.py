"""The sampler process, through the real `amdsmi`, on fake AMD GPUs whose load is known."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from gpubench.spec.record import DeviceTelemetry, Round, Telemetry
from gpubench.telemetry.sampler import Sampler
from tests.fakes import amdsmi as fake
from tests.fakes.amdsmi import GIB, LOAD_SECONDS, busy_seconds, busy_share, energy_joules, gpu
from tests.telemetry.helpers import make_round

PERIOD_SECONDS = 0.05
COUNT = 2
SETTINGS: dict[str, dict[str, str | int]] = {
    "as new": {},
    "before the MI300": {"current_power": 0, "fail": "amdsmi_get_gpu_metrics_info=2"},
    "no edge sensor": {"edge": 0},
    "no counter": {"fail": "amdsmi_get_energy_count=2"},
    "lost": {"lost": "1:250"},
}


class Sampled(NamedTuple):
    """One sampler's telemetry over a round between idle edges."""

    telemetry: Telemetry
    round: Round


@pytest.fixture(scope="module")
def sampled(fake_amdsmi: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sampled]]:
    """One sampler for each of the settings, all at the same time."""
    folder = tmp_path_factory.mktemp("samples")
    devices = [gpu(number) for number in range(COUNT)]
    samplers = {}
    with ExitStack() as stack:
        for name, settings in SETTINGS.items():
            with fake.loading(fake_amdsmi, count=COUNT, **settings):
                samplers[name] = stack.enter_context(Sampler(devices, folder, PERIOD_SECONDS))
        for name, sampler in samplers.items():
            assert name == "lost" or sampler.telemetry(devices, [], 0, time.monotonic_ns()).reason is None  # has begun
        start = LOAD_SECONDS * (math.ceil(time.monotonic() / LOAD_SECONDS) + 0.9)
        one = make_round(start, start + 2 * LOAD_SECONDS)
        time.sleep(start - 0.03 - time.monotonic())
        for sampler in samplers.values():
            sampler.edge()  # a round's first edge is asked for before it starts
        time.sleep(one.end_ns / 1e9 - time.monotonic())
        for sampler in samplers.values():
            sampler.edge()
        yield {
            name: Sampled(sampler.telemetry(devices, [one], 0, time.monotonic_ns()), one)
            for name, sampler in samplers.items()
        }


def edges(one: Round) -> tuple[float, float]:
    return one.start_ns / 1e9, one.end_ns / 1e9


def longest_gap(device: DeviceTelemetry) -> float:
    return max(b - a for a, b in pairwise(device.time_ns)) / 1e9


def test_the_figures_are_those_of_the_load(sampled: dict[str, Sampled]):
    telemetry, one = sampled["as new"]
    assert (telemetry.source, telemetry.reason) == ("amdsmi", None)
    assert [device.id for device in telemetry.devices] == [gpu(0).id, gpu(1).id]  # HIP counts them backwards
    for number, device in enumerate(telemetry.devices):
        figures = device.rounds[0]
        joules = energy_joules(number, *edges(one))
        assert figures.utilization_percent == pytest.approx(100 * busy_share(number), abs=0.5)
        assert figures.utilization_source == "snapshots"
        assert figures.energy_joules == pytest.approx(joules, rel=0.02)
        assert figures.energy_source == "counter"
        slack = (fake.BUSY_WATTS - fake.IDLE_WATTS) * longest_gap(device) / LOAD_SECONDS
        assert figures.power_watts == pytest.approx(joules / (2 * LOAD_SECONDS), abs=slack)
        assert figures.memory_used_bytes == (2 + number) * GIB
        assert (figures.sm_clock_mhz, figures.memory_clock_mhz) == (2100, 1300)
        assert figures.temperature_celsius == 40 + number
        assert figures.memory_temperature_celsius == 50 + number
        assert (figures.pcie_link_generation, figures.pcie_link_width, figures.pcie_replays) == (5, 16, 0)
        assert (figures.ecc_corrected, figures.ecc_uncorrected) == (0, 0)
        assert figures.processes == number + 1


def test_throttle_time_is_the_firmwares_share_of_the_time(sampled: dict[str, Sampled]):
    telemetry, one = sampled["as new"]
    for number, device in enumerate(telemetry.devices):
        held_back_ns = busy_seconds(number, *edges(one)) / 4 * 1e9
        # The firmware's counts are whole thousandths of a second, at both edges.
        assert device.rounds[0].throttle_ns["power"] == pytest.approx(held_back_ns, rel=0.02, abs=4e6)
        assert device.rounds[0].throttle_ns["thermal"] == 0


def test_what_is_read_is_said(sampled: dict[str, Sampled]):
    methods = sampled["as new"].telemetry.devices[0].methods
    assert methods["utilization_percent"].endswith("snapshots")
    assert methods["power_watts"] == "of the socket, current"
    assert methods["energy_joules"] == "counter in steps of 15.259 µJ"
    assert methods["temperature_celsius"] == "edge"
    older = sampled["before the MI300"].telemetry.devices[0].methods
    assert "average" in older["power_watts"]
    hotspot = sampled["no edge sensor"].telemetry.devices[1]
    assert (hotspot.methods["temperature_celsius"], hotspot.rounds[0].temperature_celsius) == ("hotspot", 56)


def test_what_is_not_supported_has_amds_reason(sampled: dict[str, Sampled]):
    device = sampled["no counter"].telemetry.devices[1]
    assert device.unavailable["energy_joules"] == "AMD SMI: Feature not supported (error 2)"
    figures = device.rounds[0]
    assert figures.energy_source == "integrated power"
    older = sampled["before the MI300"].telemetry.devices[0]
    assert older.unavailable["throttle_power_ns"] == "AMD SMI: Feature not supported (error 2)"
    assert older.rounds[0].throttle_ns == {}
    assert "each direction" in older.unavailable["pcie_tx_bytes"]
    assert older.rounds[0].pcie_tx_bytes is None


def test_a_gpu_that_is_lost_has_a_reason_and_the_other_its_figures(sampled: dict[str, Sampled]):
    telemetry, one = sampled["lost"]
    there, lost = telemetry.devices
    assert "AMD SMI: Device Not found (error 31)" in lost.unavailable["power_watts"]
    assert lost.rounds[0].energy_joules is None
    assert lost.series["power_watts"][-1] is None
    assert there.rounds[0].energy_joules == pytest.approx(energy_joules(0, *edges(one)), rel=0.02)


def test_power_and_energy_are_read_at_every_sweep_and_the_rest_seldom(sampled: dict[str, Sampled]):
    device = sampled["as new"].telemetry.devices[0]
    sweeps = len(device.time_ns)
    assert sum(value is not None for value in device.series["energy_joules"]) == sweeps
    assert sum(value is not None for value in device.series["pcie_replays"]) < sweeps / 2
    cost = sampled["as new"].telemetry.cost
    assert cost is not None
    assert {"power_watts", "energy_joules", "processes"} <= set(cost.call_seconds)


def test_a_gpu_that_is_not_there_has_a_reason(fake_amdsmi: Path, tmp_path: Path):
    devices = [gpu(0), gpu(5)]
    with fake.loading(fake_amdsmi, count=1), Sampler(devices, tmp_path, PERIOD_SECONDS) as sampler:
        _, absent = sampler.telemetry(devices, [], 0, time.monotonic_ns()).devices
    assert absent.unavailable["power_watts"] == "AMD SMI does not find the GPU"


def test_a_machine_without_the_library_has_one_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROCM_HOME", str(tmp_path))
    with Sampler([gpu(0)], tmp_path, PERIOD_SECONDS) as sampler:
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert (telemetry.reason or "").startswith("AMD SMI's library, which comes with ROCm, was not found: ")
    assert telemetry.devices == []
