"""MIG instances as devices: what belongs to an instance, what to all of its GPU, and a whole run on one.

`test_machines.py` has the figures of a round on every machine.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpubench.files import store
from gpubench.spec.record import DeviceTelemetry
from gpubench.telemetry.sampler import Sampler
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario, Setting
from tests.telemetry.helpers import loading, wait_until

H100 = Scenario.load("h100_mig")
FIRST, SECOND, OTHER = (device for _, device in H100.usable)  # the third is on another GPU
NOT_OF_AN_INSTANCE = ("utilization_percent", "power_watts", "energy_joules", "pcie_tx_bytes", "nvlink_tx_bytes")


def sampled(
    library: Path, folder: Path, scenario: Scenario, until: Callable[[list[DeviceTelemetry]], object]
) -> dict[str, DeviceTelemetry]:
    """The instances by UUID, as soon as they show what is waited for."""
    devices = [device for _, device in scenario.usable]
    with loading(library, scenario), Sampler(devices, folder, 0.05) as sampler:
        wait_until(lambda: until(sampler.telemetry(devices, [], 0, time.monotonic_ns()).devices))
        telemetry = sampler.telemetry(devices, [], 0, time.monotonic_ns())
    return {device.id: device for device in telemetry.devices}


@pytest.mark.parametrize(
    ("settings", "struck"),
    [({"xid_instance": 2}, {SECOND.id}), ({}, {FIRST.id, SECOND.id})],
    ids=["of an instance", "of the GPU"],
)
def test_an_xid_is_told_of_the_instances_that_it_struck(
    library_of: Callable[[Scenario], Path], tmp_path: Path, settings: dict[str, Setting], struck: set[str]
):
    scenario = H100.but(xid_at=time.monotonic() + 3, **settings).but_each("xid", [31, 0])
    found = sampled(library_of(scenario), tmp_path, scenario, lambda devices: any(device.xids for device in devices))
    assert {id for id, device in found.items() if [code for _, code in device.xids] == [31]} == struck


def test_the_processes_on_an_instance_are_not_those_on_its_neighbour(
    library_of: Callable[[Scenario], Path], tmp_path: Path
):
    scenario = H100.but_each("processes", ["4711 1073741824 1,4712 1073741824 2,4713 1073741824 2", ""])
    found = sampled(library_of(scenario), tmp_path, scenario, lambda devices: devices and devices[0].time_ns)
    counts = [found[device.id].series["processes"][-1] for device in (FIRST, SECOND, OTHER)]
    assert counts == [1, 2, 0]


@pytest.fixture
def box(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell of a machine whose GPUs are cut."""
    for name, value in nvml.environment(fake_nvml, H100).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GPUBENCH_FAKE", json.dumps({"step_seconds": 0.05, "real_time": True}))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("box")
def test_a_run_on_an_instance_has_its_memory_and_none_of_the_figures_of_its_gpu(
    gpubench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", SECOND.id)
    done = gpubench("run", "--frameworks", "fake", "--strategies", "ranks", "--launches", "1", "--no-paired")
    assert done.returncode == 0, done.stderr
    ran = [one for one in store.load(store.find("last", tmp_path / "results")).records if one.case.n_devices == 1]
    assert len(ran) == 2  # single, and ranks
    for record in ran:
        assert record.outcome.status == "ok"
        assert record.observed.device_ids == [SECOND.id]
        (device,) = record.telemetry.devices
        assert (device.id, device.name) == (SECOND.id, "NVIDIA H100 80GB HBM3 MIG 3g.40gb")
        for figures in device.rounds:
            assert figures.memory_used_bytes == 2**30
            assert {getattr(figures, metric) for metric in NOT_OF_AN_INSTANCE} == {None}
        for metric in NOT_OF_AN_INSTANCE:
            assert device.unavailable[metric] == "the figure would be the MIG parent's"
    for row in csv.DictReader(io.StringIO(gpubench("show", "last", "--format", "csv").stdout)):
        assert {row["utilization_percent"], row["power_watts"], row["joules_per_sample"]} == {""}
    assert gpubench("report", "last", "-o", "page.html").returncode == 0


@pytest.mark.usefixtures("box")
def test_several_instances_at_once_are_refused_with_the_reason(gpubench):
    done = gpubench("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "CUDA shows a process one MIG instance and no more" in done.stdout + done.stderr
