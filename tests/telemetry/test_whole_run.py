"""`gpubench run` on a machine with GPUs, as far as that goes without one: a fake driver, and a fake framework."""

import json

import pytest

from gpubench.files import store
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario

FAKE = {"step_seconds": 0.05, "real_time": True}
H200 = Scenario.load("h200_8x").left_alone()


@pytest.fixture
def box(fake_nvml, monkeypatch):
    """The shell of a machine with 8 H200."""
    for name, value in nvml.environment(fake_nvml, H200).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GPUBENCH_FAKE", json.dumps(FAKE))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("box")
def test_a_run_on_gpus_samples_the_gpus_that_it_uses(gpubench, tmp_path):
    words = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2,8", "--launches", "1")
    done = gpubench(*words, "--no-paired")
    assert done.returncode == 0, done.stderr
    assert "CPU shares" not in done.stdout + done.stderr
    records = store.load(store.find("last", tmp_path / "results")).records
    largest = next(record for record in records if record.case.n_devices == 8)
    assert largest.case.workload == "resnet50"
    assert largest.case.per_device_batch == 256  # what 141 GiB hold
    uuids = [device.id for device in H200.devices]
    assert sorted(largest.observed.device_ids) == sorted(uuids)
    assert largest.telemetry.source == "nvml"
    assert {device.id for device in largest.telemetry.devices} == set(uuids)
    for device in largest.telemetry.devices:
        (first, *_) = device.rounds
        number = uuids.index(device.id)
        start, end = (ns / 1e9 for ns in (largest.rounds[0].start_ns, largest.rounds[0].end_ns))
        # A round is short and the machine may be busy: how far off its energy can be is what the record says of it.
        slack = first.energy_error_joules + 0.02 * first.energy_joules
        assert first.energy_joules == pytest.approx(H200.energy_joules(number, start, end), abs=slack)
        assert first.memory_used_bytes == pytest.approx(0.5 * nvml.GIB, rel=0.01)
    shown = gpubench("show", "last", "--format", "csv").stdout
    assert "power_watts" in shown
    assert gpubench("report", "last", "-o", "page.html").returncode == 0
    assert "CPU shares (" not in (tmp_path / "page.html").read_text()


@pytest.mark.usefixtures("box")
def test_gpus_that_the_shell_hides_are_not_used(gpubench, tmp_path, monkeypatch):
    uuids = [device.id for device in H200.devices]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{uuids[5]},{uuids[2]}")
    words = ("run", "--frameworks", "fake", "--strategies", "ranks", "--launches", "1", "--no-paired")
    assert gpubench(*words).returncode == 0
    records = store.load(store.find("last", tmp_path / "results")).records
    assert {device.id for record in records for device in record.devices} == {uuids[5], uuids[2]}
    refused = gpubench(*words, "--devices", "4")
    assert refused.returncode == 2
    assert "this machine has 2 GPUs; ask for 1 to 2" in refused.stderr
