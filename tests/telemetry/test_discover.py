"""Discovery through the real pynvml, in front of a fake driver or none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpubench.harness.gang.local import visibility
from gpubench.spec.record import GpuProcess
from gpubench.telemetry import nvml as telemetry_nvml
from gpubench.telemetry.nvml import discover
from tests.fakes.nvml import GIB, gpu
from tests.fakes.nvml.scenario import Scenario
from tests.telemetry.helpers import loading


@pytest.fixture(autouse=True)
def _no_cuda_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


def test_every_gpu_is_found_with_its_name_and_memory(fake_nvml: Path):
    with loading(fake_nvml, count=2):
        view = discover()
    assert view.devices == [gpu(0), gpu(1)]
    assert view.devices[0].memory_bytes == 80 * GIB
    assert (view.driver, view.cuda, view.nvml_version) == ("570.00.00", "12.8", "12.570.00.00")
    assert (view.reason, view.problems, view.n_found) == (None, {}, 2)
    assert view.pynvml_version
    assert Path(view.pynvml_path or "").is_file()


def test_a_machine_without_the_library_has_a_reason(tmp_path: Path):
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("this machine has an NVIDIA driver")
    view = discover()
    assert view.devices == []
    assert "Library Not Found" in (view.reason or "")


def test_cuda_visible_devices_is_respected(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"3,{gpu(1).id[:12]},7,0")
    with loading(fake_nvml, count=4):
        view = discover()
    assert view.devices == [gpu(3), gpu(1)]
    assert view.n_found == 4
    assert "'7' fits no GPU" in view.problems["CUDA_VISIBLE_DEVICES"]


def test_indices_count_in_pci_order(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with loading(fake_nvml, count=4, reversed=1):
        assert discover().devices == [gpu(3)]


def test_indices_count_by_bus_also_where_the_driver_counts_otherwise(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    scenario = Scenario({"count": 3}).but_each("bus", [0x90, 0x10, 0x20])
    with loading(fake_nvml, scenario):
        assert discover().devices == [scenario.device(1), scenario.device(0)]


def test_hiding_all_devices_is_said(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with loading(fake_nvml, count=4):
        view = discover()
    assert view.devices == []
    assert "hides all 4 GPUs" in view.problems["CUDA_VISIBLE_DEVICES"]


def test_a_name_that_is_not_utf8_is_read_all_the_same(fake_nvml: Path):
    with loading(fake_nvml, name=os.fsdecode(b"GPU \xff\xfe one")):
        view = discover()
    assert [device.name for device in view.devices] == ["GPU \ufffd\ufffd one"]


def test_a_gpu_that_may_not_be_opened_does_not_hide_the_others(fake_nvml: Path):
    # The second call for a handle fails with "no permission", and so do the later ones.
    with loading(fake_nvml, count=3, fail="nvmlDeviceGetHandleByIndex_v2=4@1"):
        view = discover()
    assert view.devices == [gpu(0)]
    assert sorted(view.problems) == ["GPU 1", "GPU 2"]
    assert "Insufficient Permissions" in view.problems["GPU 1"]


def test_a_gpu_in_mig_mode_is_named_as_a_problem(fake_nvml: Path):
    with loading(fake_nvml, mig=1):
        assert "MIG" in discover().problems[gpu(0).id]


def test_numbers_that_are_no_process_are_left_out(fake_nvml: Path):
    # As drivers R535.43 to 535.86 scramble the list.
    with loading(fake_nvml, processes="0 5,4294967295 7,77 1073741824"):
        system = discover().system
    assert system is not None
    assert system.gpus[0].processes == [GpuProcess(pid=77, memory_bytes=GIB)]


def test_a_driver_before_r510_tells_processes_by_its_older_call(library_of: Callable[[Scenario], Path]):
    scenario = Scenario.load("v100_old_driver").but(processes="77 1073741824")
    with loading(library_of(scenario), scenario):
        system = discover().system
    assert system is not None
    assert [gpu.processes for gpu in system.gpus] == [[GpuProcess(pid=77, memory_bytes=GIB)]] * 2


def test_ranks_count_gpus_as_nvml_does_unless_the_user_wants_another_order(monkeypatch: pytest.MonkeyPatch):
    shown = {"CUDA_VISIBLE_DEVICES": f"{gpu(3).id},{gpu(1).id}"}
    assert visibility([gpu(3), gpu(1)]) == shown | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert visibility([gpu(3), gpu(1)]) == shown | {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}


def test_a_driver_that_does_not_match_is_a_reason(fake_nvml: Path):
    with loading(fake_nvml, fail="nvmlInit=18"):
        view = discover()
    assert "mismatch" in (view.reason or "")


def test_a_driver_that_hangs_costs_a_deadline(fake_nvml: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(telemetry_nvml, "DISCOVERY_SECONDS", 1.0)
    with loading(fake_nvml, hang="nvmlInit"):
        view = discover()
    assert "did not answer within 1 s" in (view.reason or "")


def test_a_binding_that_is_not_nvidias_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert f"{tmp_path}/pynvml.py is not NVIDIA's" in (discover().reason or "")
