"""The right device is sampled, however the machine numbers, hides or cuts it; or the telemetry says that it is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpubench.spec.case import Device
from gpubench.spec.record import DeviceTelemetry
from gpubench.telemetry.nvml import discover
from gpubench.telemetry.sampler import Sampler
from tests.fakes.nvml import gpu
from tests.fakes.nvml.scenario import Scenario
from tests.telemetry.helpers import loading, wait_until

INSTANCES = [f"MIG-000000a0-fa4e-4000-80{number}0-000000000000" for number in (1, 2)]
FORBIDDEN = {"nvmlDeviceGetHandleByIndex_v2": 4}


@pytest.fixture(autouse=True)
def _no_cuda_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


def sampled(devices: list[Device], folder: Path) -> list[DeviceTelemetry]:
    with Sampler(devices, folder, 0.05) as sampler:
        wait_until(sampler.latest)
        return sampler.telemetry(devices, [], 0, time.monotonic_ns()).devices


def celsius(device: DeviceTelemetry) -> float | None:
    return device.series["temperature_celsius"][0]


@pytest.mark.parametrize(
    ("variable", "numbers"),
    [("1,0", [2, 3]), (f"{gpu(3).id},{gpu(1).id}", [3, 1]), (gpu(2).id[:12], [2]), ("0,9,1", [3])],
    ids=["indices", "UUIDs", "a prefix", "one that is not there"],
)
def test_what_cuda_would_see_is_what_is_sampled(
    fake_nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, numbers: list[int]
):
    # NVML counts the GPUs the other way round than their loads are numbered: index 0 is GPU 3.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    with loading(fake_nvml, count=4, reversed=1):
        devices = discover().devices
        telemetry = sampled(devices, tmp_path)
    assert [device.id for device in telemetry] == [gpu(number).id for number in numbers]
    assert [celsius(device) for device in telemetry] == [40 + number for number in numbers]


def test_a_job_that_may_open_two_of_four_gpus_samples_these_two(library_of: Callable[[Scenario], Path], tmp_path: Path):
    # As under Slurm's cgroups: NVML still counts all four.
    scenario = Scenario({"count": 4}).but_each("errors", [FORBIDDEN, FORBIDDEN, {}, {}])
    with loading(library_of(scenario), scenario):
        view = discover()
        telemetry = sampled(view.devices, tmp_path)
    assert [device.id for device in view.devices] == [gpu(2).id, gpu(3).id]
    assert sorted(view.problems) == ["GPU 0", "GPU 1"]
    assert [celsius(device) for device in telemetry] == [42, 43]


def test_a_gpu_that_may_not_be_opened_any_more_is_not_confused_with_another(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml, count=2, fail="nvmlDeviceGetHandleByUUID=4@1"):
        first, second = sampled([gpu(0), gpu(1)], tmp_path)
    assert celsius(first) == 40
    assert second.series == {}
    assert "Insufficient Permissions" in second.unavailable["temperature_celsius"]


@pytest.mark.parametrize(
    ("variable", "ids"),
    [
        (None, [*INSTANCES, gpu(1).id]),
        (INSTANCES[1], [INSTANCES[1]]),
        (f"MIG-{gpu(0).id}/2/0", [INSTANCES[1]]),
        (f"{gpu(1).id},{INSTANCES[0]}", [gpu(1).id, INSTANCES[0]]),
        ("1,0", [gpu(1).id, INSTANCES[0]]),
    ],
)
def test_mig_instances_are_found_as_devices(
    library_of: Callable[[Scenario], Path], monkeypatch: pytest.MonkeyPatch, variable: str | None, ids: list[str]
):
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    scenario = Scenario.load("a100_mig")
    with loading(library_of(scenario), scenario):
        view = discover()
    assert [device.id for device in view.devices] == ids
    for device in view.devices:
        if device.id in INSTANCES:
            assert device.memory_bytes == 40192 * 2**20
            assert device.name.endswith("MIG 3g.40gb")


def test_the_variables_that_number_devices_are_kept(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("NVML_MPS_DEVICE_ENUMERATION", "1")
    with loading(fake_nvml, count=2):
        system = discover().system
    assert system is not None
    assert (system.cuda_device_order, system.cuda_visible_devices) == ("FASTEST_FIRST", "0")
    assert system.mps_device_enumeration == "1"
