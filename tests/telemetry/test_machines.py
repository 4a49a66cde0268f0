"""The real sampler through the real pynvml on every machine of the fake driver, against the truth of its load.

One round of 10 s between idle edges, and one of 5 s with edges anywhere; each GPU is busy for a share of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from gpubench.spec.case import Device
from gpubench.spec.record import DeviceTelemetry, GpuFacts, Round, Telemetry
from gpubench.telemetry.sampler import Sampler
from tests.fakes.nvml import GIB
from tests.fakes.nvml.scenario import SCENARIOS, Scenario
from tests.telemetry.helpers import loading, make_round, wait_until

NAMES = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
SHARES = [0.5 + 0.05 * number for number in range(8)]
# Their driver or hardware has no such thing.
WITHOUT_ENERGY = {"gtx1080_pre_volta"}
WITHOUT_PCIE = {"dgx_a100_8x", "gtx1080_pre_volta", "v100_old_driver"}
WITH_GPM = {"hgx_h100_8x", "h200_8x", "gb200_4x", "h100_troubled", "h100_mig"}
WITH_NVLINK = {"dgx_a100_8x", "hgx_h100_8x", "h200_8x", "gb200_4x", "v100_old_driver", "a100_mig"}
MOST_TRIES = 5
ON_TIME_SECONDS = 0.15  # a figure between edges that are later than 2 % of the round is rightly left out
WITH_MIG = ["a100_mig", "h100_mig"]
WITH_WHOLE_GPUS = sorted(set(NAMES) - {"h100_mig"})
OF_THE_PARENT = {
    "utilization_percent", "power_watts", "power_average_watts", "energy_joules",
    "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes",
}  # fmt: skip


class Seen(NamedTuple):
    """What was sampled on one machine; `numbers` says which load a device has."""

    scenario: Scenario
    telemetry: Telemetry
    numbers: list[int]


class AllSeen(NamedTuple):
    machines: dict[str, Seen]
    ten_seconds: Round
    five_seconds: Round


@pytest.fixture(scope="module")
def seen(library_of: Callable[[Scenario], Path], tmp_path_factory: pytest.TempPathFactory) -> AllSeen:
    folder = tmp_path_factory.mktemp("machines")
    samplers: dict[str, tuple[Scenario, Sampler, list[Device], list[int]]] = {}
    with ExitStack() as stack:
        for name in NAMES:
            # Busy at the beginning of each two seconds of the clock, and idle at their end.
            scenario = Scenario.load(name).but(load_period=2).but_each("busy_share", SHARES)
            numbers, devices = map(list, zip(*scenario.usable, strict=True))
            with loading(library_of(scenario), scenario):
                samplers[name] = scenario, stack.enter_context(Sampler(devices, folder)), devices, numbers
        for _, sampler, _, _ in samplers.values():
            wait_until(sampler.latest)
        for _ in range(MOST_TRIES):
            start = 2 * math.ceil(time.monotonic() / 2 + 0.25) - 0.1
            ten_seconds, five_seconds = make_round(start, start + 10), make_round(start + 1.37, start + 6.37, index=1)
            late = 0.0
            for at in (start - 0.1, start + 10):  # a round's first edge is asked for before it starts
                time.sleep(max(0.0, at - time.monotonic()))
                for _, sampler, _, _ in samplers.values():
                    sampler.edge()
                late = max(late, time.monotonic() - at)
            if late < ON_TIME_SECONDS:
                break
        rounds = [ten_seconds, five_seconds]
        machines = {
            name: Seen(scenario, sampler.telemetry(devices, rounds, 0, time.monotonic_ns()), numbers)
            for name, (scenario, sampler, devices, numbers) in samplers.items()
        }
    return AllSeen(machines, ten_seconds, five_seconds)


def edges(of: Round) -> tuple[float, float]:
    return of.start_ns / 1e9, of.end_ns / 1e9


def whole_gpus(machine: Seen) -> list[tuple[int, DeviceTelemetry]]:
    """With the number of its load each."""
    pairs = zip(machine.numbers, machine.telemetry.devices, strict=True)
    return [(number, device) for number, device in pairs if device.id.startswith("GPU-")]


@pytest.mark.parametrize("name", WITH_WHOLE_GPUS)
def test_utilisation_is_within_2_points(seen: AllSeen, name: str):
    machine = seen.machines[name]
    assert machine.telemetry.reason is None
    for number, device in whole_gpus(machine):
        for figures, one in zip(device.rounds, (seen.ten_seconds, seen.five_seconds), strict=True):
            start, end = edges(one)
            truth = 100 * machine.scenario.busy_seconds(number, start, end) / (end - start)
            assert figures.utilization_source == "driver's buffer"
            assert figures.utilization_percent == pytest.approx(truth, abs=2)


@pytest.mark.parametrize("name", sorted(set(WITH_WHOLE_GPUS) - WITHOUT_ENERGY))
def test_energy_of_10_seconds_is_within_2_percent_and_within_its_stated_error(seen: AllSeen, name: str):
    machine = seen.machines[name]
    for number, device in whole_gpus(machine):
        figures = device.rounds[0]
        if (name, number) == ("h100_troubled", 1):
            assert figures.energy_source == "integrated power"
            assert "Insufficient Permissions" in device.unavailable["energy_joules"]
            continue
        truth = machine.scenario.energy_joules(number, *edges(seen.ten_seconds))
        assert figures.energy_source == "counter"
        assert figures.energy_joules == pytest.approx(truth, rel=0.02)
        assert figures.energy_joules == pytest.approx(truth, abs=figures.energy_error_joules)


def test_energy_without_a_counter_is_integrated_power(seen: AllSeen):
    machine = seen.machines["gtx1080_pre_volta"]
    (figures, _), (device,) = machine.telemetry.devices[0].rounds, machine.telemetry.devices
    assert figures.energy_source == "integrated power"
    # Each of the 20 changes of load lies somewhere between two samples, half of them up, half down.
    assert figures.energy_joules == pytest.approx(machine.scenario.energy_joules(0, *edges(seen.ten_seconds)), rel=0.05)
    assert "Not Supported" in device.unavailable["energy_joules"]


@pytest.mark.parametrize("name", WITH_WHOLE_GPUS)
def test_power_beside_the_counter_is_near_it(seen: AllSeen, name: str):
    machine = seen.machines[name]
    for number, device in whole_gpus(machine):
        truth = machine.scenario.energy_joules(number, *edges(seen.ten_seconds))
        average = device.methods["power_watts"] == "average of the last second"
        assert device.rounds[0].energy_integrated_joules == pytest.approx(truth, rel=0.1), average


@pytest.mark.parametrize("name", WITH_WHOLE_GPUS)
def test_throttle_time_is_within_one_refresh(seen: AllSeen, name: str):
    machine = seen.machines[name]
    for number, device in whole_gpus(machine):
        truth = 0.25e9 * machine.scenario.busy_seconds(number, *edges(seen.ten_seconds))
        refresh = machine.scenario.value(number, "refresh", 0.02)
        assert device.rounds[0].throttle_ns["power"] == pytest.approx(truth, abs=refresh * 1e9)
        assert device.rounds[0].throttle_ns["thermal"] == 0
        assert "power cap" in device.rounds[0].clock_event_reasons


@pytest.mark.parametrize("name", WITH_WHOLE_GPUS)
def test_bytes_over_pcie_and_nvlink_are_counted_where_the_driver_counts_them(seen: AllSeen, name: str):
    machine = seen.machines[name]
    for number, device in whole_gpus(machine):
        figures, busy = device.rounds[0], machine.scenario.busy_seconds(number, *edges(seen.ten_seconds))
        if name in WITHOUT_PCIE:
            assert (figures.pcie_tx_bytes, figures.pcie_rx_bytes) == (None, None)
            assert "Not Supported" in device.unavailable["pcie_tx_bytes"]
        else:
            # Read as soon as the round has ended, when the GPU is idle.
            assert figures.pcie_tx_bytes == pytest.approx(1e9 * busy, rel=0.02)
            assert figures.pcie_rx_bytes == pytest.approx(3e9 * busy, rel=0.02)
        if name in WITH_NVLINK:
            rate = machine.scenario.value(number, "nvlink_tx", 100e9)
            assert figures.nvlink_tx_bytes == pytest.approx(rate * busy, rel=0.02)
            rate = machine.scenario.value(number, "nvlink_rx", 100e9)
            assert figures.nvlink_rx_bytes == pytest.approx(rate * busy, rel=0.02)
        else:
            assert figures.nvlink_tx_bytes is None
            assert "Not Supported" in device.unavailable["nvlink_tx_bytes"]


@pytest.mark.parametrize("name", WITH_WHOLE_GPUS)
def test_the_gpus_own_monitoring_gives_the_mean_between_the_edges(seen: AllSeen, name: str):
    machine = seen.machines[name]
    for number, device in whole_gpus(machine):
        gpm = device.rounds[0].gpm
        if name not in WITH_GPM:
            assert gpm == {}
            assert device.unavailable["gpm"]
            continue
        share = machine.scenario.busy_seconds(number, *edges(seen.ten_seconds)) / 10
        # The edges were asked for within a tenth of a second of the round's.
        assert gpm["sm_active_percent"] == pytest.approx(90 * share, rel=0.02)
        assert gpm["tensor_active_percent"] == pytest.approx(70 * share, rel=0.02)
        assert gpm["dram_bandwidth_percent"] == pytest.approx(50 * share, rel=0.02)
        assert gpm["nvlink_tx_bytes_per_second"] == pytest.approx(100e9 * share, rel=0.02)


@pytest.mark.parametrize("name", WITH_WHOLE_GPUS)
def test_memory_clocks_temperature_and_link_are_those_of_the_gpu(seen: AllSeen, name: str):
    machine = seen.machines[name]
    for number, device in whole_gpus(machine):
        scenario, figures = machine.scenario, device.rounds[0]
        used = scenario.value(number, "used_gib", 2 + number)
        if "without" not in device.methods["memory_used_bytes"]:  # the old call counts the driver's own as well
            used += scenario.value(number, "reserved_gib", 1)
            assert figures.memory_reserved_bytes is None
        else:
            reserved = scenario.value(number, "reserved_gib", 1) * GIB
            assert figures.memory_reserved_bytes == pytest.approx(reserved, abs=1)
        assert figures.memory_used_bytes == round(used * GIB)
        assert figures.temperature_celsius == 40 + number
        assert figures.memory_clock_mhz == pytest.approx(scenario.value(number, "memory_clock_mhz", 2619))
        assert figures.pcie_link_generation == scenario.value(number, "pcie_generation", 5)  # at work, not idle
        assert figures.pcie_link_width == scenario.value(number, "pcie_width", 16)
        fastest, slowest = scenario.value(number, "sm_clock_mhz", 1980), scenario.value(number, "idle_sm_clock_mhz", 0)
        assert max(slowest, 1) <= (figures.sm_clock_mhz or 0) <= fastest
        assert figures.ecc_uncorrected in (0, None)


def test_power_is_labelled_by_what_it_means_on_that_generation(seen: AllSeen):
    methods = {name: machine.telemetry.devices[-1].methods for name, machine in seen.machines.items()}
    assert methods["h200_8x"]["power_watts"] == "instantaneous (field 186)"
    assert methods["v100_old_driver"]["power_watts"] == "instantaneous"  # no field 186, and Volta does not average
    with_average = {name for name, of_gpu in methods.items() if "power_average_watts" in of_gpu}
    assert with_average == {"rtx4090_2x", "l40s_4x", "hgx_h100_8x", "h200_8x", "gb200_4x", "h100_troubled"}


@pytest.mark.parametrize("name", WITH_MIG)
def test_a_mig_instance_is_a_device_with_its_own_memory_and_without_the_figures_of_its_parent(seen: AllSeen, name: str):
    machine = seen.machines[name]
    used_mib = {"a100_mig": [512, 1024], "h100_mig": [512, 1024, 768]}[name]
    instances = [device for device in machine.telemetry.devices if device.id.startswith("MIG-")]
    assert [device.rounds[0].memory_used_bytes for device in instances] == [mib * 2**20 for mib in used_mib]
    for device in instances:
        figures = device.rounds[0]
        assert {metric for metric, why in device.unavailable.items() if "MIG parent's" in why} == OF_THE_PARENT
        assert not OF_THE_PARENT & set(device.series)
        assert {getattr(figures, metric) for metric in OF_THE_PARENT} == {None}
        assert figures.energy_integrated_joules is None
        assert figures.sm_clock_mhz is not None
    for _, device in whole_gpus(machine):
        assert device.rounds[0].power_watts is not None


def test_a_mig_instance_of_a_hopper_has_monitoring_of_its_own(seen: AllSeen):
    machine = seen.machines["h100_mig"]
    for number, device in zip(machine.numbers, machine.telemetry.devices, strict=True):
        gpm, share = device.rounds[0].gpm, machine.scenario.busy_share(number, device.id)
        assert gpm["sm_active_percent"] == pytest.approx(90 * share, rel=0.02)
        assert gpm["dram_bandwidth_percent"] == pytest.approx(50 * share, rel=0.02)
        assert set(gpm) == {
            "sm_active_percent", "sm_occupancy_percent", "tensor_active_percent", "dram_bandwidth_percent"
        }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_machine_stands_in_the_telemetry(seen: AllSeen, name: str):
    machine = seen.machines[name]
    system = machine.telemetry.system
    assert system is not None
    assert system.driver == machine.scenario.settings["driver"]
    assert [gpu.id for gpu in system.gpus] == [device.id for device in machine.scenario.devices]
    assert {gpu.name for gpu in system.gpus} == {machine.scenario.device(0).name}
    assert [gpu.bus_id for gpu in system.gpus] == [
        f"00000000:{round(machine.scenario.value(number, 'bus', 0x10 + number)):02X}:00.0"
        for number in range(machine.scenario.count)
    ]
    assert [row[i] for i, row in enumerate(system.links)] == ["X"] * machine.scenario.count


@pytest.mark.parametrize("name", NAMES)
def test_only_what_the_driver_lacks_is_not_found(seen: AllSeen, name: str):
    machine = seen.machines[name]
    assert machine.telemetry.system is not None
    reasons = [*machine.telemetry.devices, *machine.telemetry.system.gpus]
    not_found = {why for each in reasons for why in each.unavailable.values() if "Function Not Found" in why}
    assert bool(not_found) == bool({"nvmlDeviceGetGpuFabricInfoV"} & set(machine.scenario.missing))


def gpu_facts(seen: AllSeen, name: str) -> list[GpuFacts]:
    system = seen.machines[name].telemetry.system
    assert system is not None
    return system.gpus


def test_numa_nodes_and_cpus_near_each_gpu_are_recorded(seen: AllSeen):
    assert [gpu.numa_node for gpu in gpu_facts(seen, "dgx_a100_8x")] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert [gpu.cpus for gpu in gpu_facts(seen, "l40s_4x")] == ["0-31", "0-31", "32-63", "32-63"]


def test_what_each_gpu_is_set_to_is_recorded(seen: AllSeen):
    first, second = gpu_facts(seen, "h100_troubled")
    assert (first.power_limit_watts, first.power_default_limit_watts, first.power_most_watts) == (200, 350, 350)
    assert (first.application_sm_clock_mhz, first.default_application_sm_clock_mhz) == (1005, 1755)
    assert (first.sm_clock_max_mhz, first.boost_sm_clock_max_mhz, first.memory_clock_max_mhz) == (1755, 1755, 1593)
    assert (first.ecc, first.mig, first.persistence, first.compute_mode) == (True, False, False, "default")
    assert (first.ecc_uncorrected, first.remap_pending) == (3, True)
    assert [process.pid for process in first.processes] == [4194000]
    assert (second.pcie_width, second.pcie_width_max) == (8, 16)
    assert (second.pcie_generation_max, second.pcie_gpu_generation_max) == (5, 5)
    (whole,) = {gpu.architecture for gpu in gpu_facts(seen, "gtx1080_pre_volta")}
    assert whole == "Pascal"


def test_the_fabric_of_nvswitches_is_recorded(seen: AllSeen):
    assert {gpu.fabric for gpu in gpu_facts(seen, "gb200_4x")} == {"completed"}
    assert {gpu.fabric_clique for gpu in gpu_facts(seen, "gb200_4x")} == {32766}
    assert {gpu.fabric_degraded for gpu in gpu_facts(seen, "gb200_4x")} == {False}
    (card, *_) = gpu_facts(seen, "rtx4090_2x")
    assert (card.fabric, card.fabric_clique, card.fabric_degraded) == (None, None, None)
    assert "Not Supported" in card.unavailable["fabric"]


def test_whether_gpus_reach_each_others_memory_is_recorded(seen: AllSeen):
    p2p = {name: seen.machines[name].telemetry.system for name in ("hgx_h100_8x", "rtx4090_2x")}
    assert {status for row in p2p["hgx_h100_8x"].p2p for status in row} == {"X", "OK"}
    assert p2p["rtx4090_2x"].p2p == [["X", "not supported"], ["not supported", "X"]]
