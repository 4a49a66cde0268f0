"""The sampler process, through the real pynvml, on fake GPUs: what is attributed to a round, against the truth.

The tolerances follow from the fake's refresh periods and from the longest time between two samples, as it really was:
a slow machine makes a test less sharp, not red.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from gpubench.spec.record import METRICS, DeviceTelemetry, Round, Telemetry
from gpubench.telemetry.sampler import Sampler
from tests.fakes.nvml import (
    BUSY_WATTS,
    GIB,
    IDLE_WATTS,
    LOAD_SECONDS,
    REFRESH_SECONDS,
    busy_seconds,
    energy_joules,
    gpu,
)
from tests.telemetry.helpers import loading, make_round

PERIOD_SECONDS = 0.05
SETTINGS: dict[str, dict[str, str | int]] = {
    "1 GPU": {"count": 1},
    "2 GPUs": {"count": 2},
    "8 GPUs": {"count": 8},
    "8 GPUs in reversed order": {"count": 8, "reversed": 1},
    "no counter": {"count": 2, "energy": 0},
    "no power": {
        "count": 2,
        "fail": "nvmlDeviceGetFieldValues=3,nvmlDeviceGetPowerUsage=3,nvmlDeviceGetTotalEnergyConsumption=3",
    },
    "average power": {"count": 2, "fail": "nvmlDeviceGetFieldValues=3", "capability": "8.6"},
    "MIG": {"count": 2, "mig": 1},
    "old driver": {"count": 2},
}


class Sampled(NamedTuple):
    """One sampler's telemetry over two rounds: one between idle edges, and one whose edges lie anywhere."""

    telemetry: Telemetry
    idle_edges: Round
    any_edges: Round


@pytest.fixture(scope="module")
def sampled(fake_nvml: Path, old_nvml: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sampled]]:
    """One sampler for each of the settings, all at the same time."""
    folder = tmp_path_factory.mktemp("samples")
    samplers = {}
    with ExitStack() as stack:
        for name, settings in SETTINGS.items():
            devices = [gpu(number) for number in range(int(settings["count"]))]
            with loading(old_nvml if name == "old driver" else fake_nvml, **settings):
                samplers[name] = stack.enter_context(Sampler(devices, folder, PERIOD_SECONDS)), devices
        for sampler, devices in samplers.values():
            assert sampler.telemetry(devices, [], 0, time.monotonic_ns()).reason is None  # each has begun
        # The GPUs are idle in the last quarter of a load period, as they are at the edges of a real round.
        start = LOAD_SECONDS * (math.ceil(time.monotonic() / LOAD_SECONDS) + 0.9)
        idle_edges = make_round(start, start + 2 * LOAD_SECONDS)
        any_edges = make_round(start + 0.15, start + 0.15 + 3.1, index=1)
        time.sleep(start + 2 * LOAD_SECONDS - time.monotonic())
        yield {
            name: Sampled(
                sampler.telemetry(
                    devices, [idle_edges, any_edges], idle_edges.start_ns - 10**9, idle_edges.end_ns + 10**9
                ),
                idle_edges,
                any_edges,
            )
            for name, (sampler, devices) in samplers.items()
        }


def longest_gap(device: DeviceTelemetry) -> float:
    return max(b - a for a, b in pairwise(device.time_ns)) / 1e9


def edges(of: Round) -> tuple[float, float]:
    return of.start_ns / 1e9, of.end_ns / 1e9


COUNTS = ["1 GPU", "2 GPUs", "8 GPUs", "8 GPUs in reversed order"]


@pytest.mark.parametrize("name", COUNTS)
def test_each_gpu_is_sampled_under_its_own_uuid(sampled: dict[str, Sampled], name: str):
    telemetry = sampled[name].telemetry
    assert (telemetry.source, telemetry.reason) == ("nvml", None)
    assert [device.id for device in telemetry.devices] == [gpu(i).id for i in range(int(SETTINGS[name]["count"]))]
    for number, device in enumerate(telemetry.devices):
        figures = device.rounds[0]
        assert figures.memory_used_bytes == (2 + number) * GIB  # without the 1 GiB that the driver reserves
        assert figures.temperature_celsius == 40 + number
        assert figures.sm_clock_mhz == pytest.approx(1980 - 10 * number)
        assert device.unavailable == {}


@pytest.mark.parametrize("name", COUNTS)
def test_utilisation_of_a_round_is_the_share_of_busy_time(sampled: dict[str, Sampled], name: str):
    telemetry, idle_edges, _ = sampled[name]
    start, end = edges(idle_edges)
    for number, device in enumerate(telemetry.devices):
        truth = 100 * busy_seconds(number, start, end) / (end - start)
        # In each load period a sample more or less may fall into the busy time; the fake rounds to whole percents.
        tolerance = 100 * longest_gap(device) / LOAD_SECONDS + 0.5
        assert device.rounds[0].utilization_percent == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize("name", COUNTS)
def test_energy_of_a_round_between_idle_edges_is_exact_but_for_the_refresh_of_the_counter(
    sampled: dict[str, Sampled], name: str
):
    telemetry, idle_edges, _ = sampled[name]
    for number, device in enumerate(telemetry.devices):
        truth = energy_joules(number, *edges(idle_edges))
        # The counter is up to a refresh behind, and a stamp up to a gap off: at idle power, unless the gap is so long
        # that the neighbours of an edge lie in busy time.
        tolerance = IDLE_WATTS * (REFRESH_SECONDS + longest_gap(device))
        tolerance += BUSY_WATTS * max(0.0, longest_gap(device) - 0.15)
        assert device.rounds[0].energy_source == "counter"
        assert device.rounds[0].energy_joules == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize("name", COUNTS)
def test_energy_of_a_round_with_edges_anywhere_is_off_by_no_more_than_they_blur(sampled: dict[str, Sampled], name: str):
    telemetry, _, any_edges = sampled[name]
    for number, device in enumerate(telemetry.devices):
        truth = energy_joules(number, *edges(any_edges))
        # A refresh at full power; and a straight line across a change of load, which is off by a quarter of the gap.
        tolerance = BUSY_WATTS * REFRESH_SECONDS + 2 * (BUSY_WATTS - IDLE_WATTS) * longest_gap(device) / 4
        assert device.rounds[1].energy_joules == pytest.approx(truth, abs=tolerance)


@pytest.mark.parametrize("name", COUNTS)
def test_power_of_a_round_is_its_mean(sampled: dict[str, Sampled], name: str):
    telemetry, idle_edges, _ = sampled[name]
    start, end = edges(idle_edges)
    for number, device in enumerate(telemetry.devices):
        truth = energy_joules(number, start, end) / (end - start)
        assert device.rounds[0].power_watts == pytest.approx(truth, abs=power_tolerance(device))


def power_tolerance(device: DeviceTelemetry) -> float:
    """Each change of load lies somewhere between two samples: half a gap too early or too late, twice a period."""
    return 2 * (BUSY_WATTS - IDLE_WATTS) * (longest_gap(device) / 2 + REFRESH_SECONDS) / LOAD_SECONDS


def test_a_gpu_without_an_energy_counter_has_integrated_power_that_says_so(sampled: dict[str, Sampled]):
    telemetry, idle_edges, _ = sampled["no counter"]
    start, end = edges(idle_edges)
    for number, device in enumerate(telemetry.devices):
        figures = device.rounds[0]
        assert figures.energy_source == "integrated power"
        tolerance = power_tolerance(device) * (end - start)
        assert figures.energy_joules == pytest.approx(energy_joules(number, start, end), abs=tolerance)
        assert "Not Supported" in device.unavailable["energy_joules"]
        assert "energy_joules" not in device.series


def test_a_gpu_that_tells_no_power_has_none_and_a_reason(sampled: dict[str, Sampled]):
    for device in sampled["no power"].telemetry.devices:
        figures = device.rounds[0]
        assert (figures.power_watts, figures.energy_joules, figures.energy_source) == (None, None, None)
        assert "Not Supported" in device.unavailable["power_watts"]
        assert figures.utilization_percent is not None


def test_a_power_that_averages_over_a_second_leaves_the_start_of_the_round_out(sampled: dict[str, Sampled]):
    telemetry, idle_edges, _ = sampled["average power"]
    start, end = edges(idle_edges)
    for number, device in enumerate(telemetry.devices):
        # The mean over [t - 1 s, t], from 1.2 s after the start on; it changes by 420 W a second at most.
        times = [start + 1.2 + (end - start - 1.2) * (i + 0.5) / 1000 for i in range(1000)]
        truth = sum(energy_joules(number, t - 1, t) for t in times) / len(times)
        tolerance = (BUSY_WATTS - IDLE_WATTS) * (longest_gap(device) + REFRESH_SECONDS)
        assert device.rounds[0].power_watts == pytest.approx(truth, abs=tolerance)


def test_a_gpu_in_mig_mode_has_no_figures_that_belong_to_the_whole_gpu(sampled: dict[str, Sampled]):
    for device in sampled["MIG"].telemetry.devices:
        assert {metric for metric, reason in device.unavailable.items() if "MIG parent's" in reason} == {
            "utilization_percent",
            "power_watts",
            "power_average_watts",
            "energy_joules",
            "pcie_tx_bytes",
            "pcie_rx_bytes",
            "nvlink_tx_bytes",
            "nvlink_rx_bytes",
        }
        assert device.rounds[0].utilization_percent is None


def test_an_old_driver_is_read_by_its_old_calls(sampled: dict[str, Sampled]):
    telemetry, idle_edges, _ = sampled["old driver"]
    for number, device in enumerate(telemetry.devices):
        figures = device.rounds[0]
        assert not set(METRICS) & set(device.unavailable)
        assert "Function Not Found" in device.unavailable["pcie_tx_bytes"]
        assert figures.memory_used_bytes == (3 + number) * GIB  # with the 1 GiB that the driver reserves
        assert figures.temperature_celsius == 40 + number
        assert figures.energy_joules == pytest.approx(energy_joules(number, *edges(idle_edges)), rel=0.1)


def test_series_are_cut_to_the_time_that_was_asked_for(sampled: dict[str, Sampled]):
    telemetry, idle_edges, _ = sampled["1 GPU"]
    (device,) = telemetry.devices
    assert idle_edges.start_ns - 10**9 <= device.time_ns[0]
    assert device.time_ns[-1] <= idle_edges.end_ns + 10**9
    assert device.time_ns == sorted(device.time_ns)
    assert {len(values) for values in device.series.values()} == {len(device.time_ns)}
