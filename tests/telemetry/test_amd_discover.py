"""Which AMD GPUs there are, and what becomes of them: discovery, doctor, plan, and what a rank is shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpubench.files import redaction
from gpubench.harness import machine
from gpubench.harness.gang.local import visibility
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Plan, cases
from gpubench.spec.case import Device
from gpubench.spec.record import Machine
from gpubench.telemetry import amd
from tests.fakes import amdsmi as fake
from tests.fakes import nvml
from tests.fakes.amdsmi import gpu
from tests.telemetry.helpers import loading

IDS = [gpu(number).id for number in range(4)]


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCM_HOME", "ROCM_PATH"):
        monkeypatch.delenv(name, raising=False)


def test_every_gpu_is_found_in_hips_order(fake_amdsmi: Path):
    with fake.loading(fake_amdsmi, count=2):
        view = amd.discover()
    assert view is not None
    assert view.devices == [gpu(1), gpu(0)]
    assert (view.n_found, view.driver, view.library, view.reason, view.problems) == (2, "6.14.14", "26.0.2", None, {})
    assert view.binding


def test_no_process_is_started_where_the_binding_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(amd, "find_spec", lambda name: None)
    monkeypatch.setattr(amd.subprocess, "run", lambda *words, **options: pytest.fail("a process was started"))
    assert amd.discover() is None


def test_a_machine_without_the_library_has_a_reason_and_is_not_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("ROCM_HOME", str(tmp_path))
    view = amd.discover()
    assert view is not None
    assert (view.devices, view.broken) == ([], False)
    assert "comes with ROCm, was not found" in (view.reason or "")


@pytest.mark.parametrize(
    ("code", "reason", "broken"), [(34, "Driver not loaded", False), (10, "Permission Denied", True)]
)
def test_a_driver_that_cannot_be_reached_has_a_reason(fake_amdsmi: Path, code: int, reason: str, broken: bool):
    with fake.loading(fake_amdsmi, fail=f"amdsmi_init={code}"):
        view = amd.discover()
    assert view is not None
    assert (view.reason, view.broken) == (f"AMD SMI: {reason} (error {code})", broken)


def test_a_driver_that_hangs_costs_a_deadline(fake_amdsmi: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(amd, "DISCOVERY_SECONDS", 1.0)
    with fake.loading(fake_amdsmi, hang="amdsmi_init"):
        view = amd.discover()
    assert view is not None
    assert "did not answer within 1 s" in (view.reason or "")


def test_a_library_of_another_release_is_a_reason(fake_amdsmi: Path, tmp_path: Path):
    library = tmp_path / "lib" / "libamd_smi.so"
    library.parent.mkdir()
    assert fake.COMPILER is not None
    subprocess.run([fake.COMPILER, "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    with fake.loading(tmp_path):
        view = amd.discover()
    assert view is not None
    assert "are not of one release" in (view.reason or "")
    assert view.broken


def test_gpus_that_cannot_be_told_apart_are_no_devices(fake_amdsmi: Path):
    with fake.loading(fake_amdsmi, uuid="0123456789abcdef"):
        view = amd.discover()
    assert view is not None
    assert view.devices == []
    assert view.problems["GPU 0"] == "2 GPUs, or partitions of one, have the UUID GPU-0123456789abcdef"


def test_a_gpu_without_a_serial_number_is_no_device(fake_amdsmi: Path):
    with fake.loading(fake_amdsmi, count=1, uuid="0" * 16):
        view = amd.discover()
    assert view is not None
    assert (view.devices, view.problems) == ([], {"GPU 0": "it has no UUID"})


@pytest.mark.parametrize(
    ("variables", "left"),
    [
        ({}, [0, 1, 2, 3]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"ROCR_VISIBLE_DEVICES": f"3, {IDS[1].upper()}"}, [3, 1]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-a00002,GPU-a"}, [2]),
        ({"ROCR_VISIBLE_DEVICES": "1,9,0"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": "1,1,0"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "1,1,0"}, [1, 0]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
        ({"HIP_VISIBLE_DEVICES": ""}, [0, 1, 2, 3]),
        ({"CUDA_VISIBLE_DEVICES": "2"}, [2]),
        ({"CUDA_VISIBLE_DEVICES": "2", "HIP_VISIBLE_DEVICES": "0"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "3,2", "HIP_VISIBLE_DEVICES": "1"}, [2]),
    ],
)
def test_the_variables_are_read_as_the_runtimes_read_them(variables: dict[str, str], left: list[int]):
    assert amd.visible_devices(IDS, variables, {}) == [IDS[number] for number in left]


def test_what_a_variable_hides_is_said():
    problems: dict[str, str] = {}
    amd.visible_devices(IDS, {"ROCR_VISIBLE_DEVICES": "1,9,0", "HIP_VISIBLE_DEVICES": "-1"}, problems)
    assert problems == {
        "ROCR_VISIBLE_DEVICES": "'9' names no further GPU, which hides everything after it",
        "HIP_VISIBLE_DEVICES": "it hides all 1 AMD GPUs",
    }


def this_machine(*devices: Device) -> Machine:
    return Machine(name="host", os="Linux", cpu="cpu", cores=4, memory_bytes=1, devices=list(devices))


def test_amd_gpus_are_this_machines_devices(fake_amdsmi: Path):
    with fake.loading(fake_amdsmi, count=2):
        this = machine.describe()
    assert (this.devices, this.driver, this.amd_reason) == ([gpu(1), gpu(0)], "6.14.14", None)
    assert machine.device_kind("auto", this) == "gpu"


def test_no_case_has_gpus_of_two_vendors():
    this = this_machine(nvml.gpu(0), gpu(0), gpu(1))
    assert machine.devices("gpu", 3, this) == [nvml.gpu(0)]
    assert machine.most_devices("gpu", this) == 1


def test_a_framework_that_is_not_driven_on_amd_gpus_is_skipped_with_its_reason():
    plan = Plan(frameworks=("tensorflow", "torch"), strategies=("single",), precision=("fp32", "tf32"), devices=(1,))
    found = cases(plan, this_machine(gpu(0)), Interpreters({"torch": Path(sys.executable)}), strict_devices=True)
    reasons = {f"{one.case.framework} {one.case.precision}": one.reason for one in found.skipped}
    assert reasons["tensorflow fp32"] == "tensorflow is not driven on AMD GPUs"
    assert reasons["torch tf32"].startswith("TF32 is NVIDIA's")
    assert [one.devices for one in found.runnable] == [(gpu(0),)]


def test_a_rank_is_shown_its_gpus_and_no_other_vendors():
    assert visibility([gpu(1), gpu(0)]) == {
        "ROCR_VISIBLE_DEVICES": f"{gpu(1).id},{gpu(0).id}",
        "HIP_VISIBLE_DEVICES": "0,1",
        "CUDA_VISIBLE_DEVICES": "",
    }
    assert visibility([nvml.gpu(1)])["CUDA_VISIBLE_DEVICES"] == nvml.gpu(1).id


def test_an_amd_gpus_uuid_is_redacted():
    hidden = redaction.other_device(f"on {gpu(0).id}")
    assert gpu(0).id not in hidden
    assert amd.UUID.fullmatch(hidden.removeprefix("on "))


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpubench.cli", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})


def test_doctor_shows_amd_gpus_and_what_is_read_of_them(fake_amdsmi: Path):
    with fake.loading(fake_amdsmi, count=2, fail="amdsmi_get_energy_count=2"):
        lines = [line.strip() for line in doctor().stdout.splitlines()]
    assert f"Fake Instinct 192GB  192 GiB  {gpu(0).id}" in lines
    assert any("utilisation: graphics engine busy" in line for line in lines)
    assert any("energy: AMD SMI: Feature not supported" in line for line in lines)


def test_doctor_says_that_amd_gpus_beside_nvidias_are_left_out(fake_amdsmi: Path, fake_nvml: Path):
    with loading(fake_nvml, count=1), fake.loading(fake_amdsmi, count=2):
        found = json.loads(doctor("--json").stdout)
    assert [device["vendor"] for device in found["machine"]["devices"]] == [None, "amd", "amd"]
    assert [device["id"] for device in found["devices"]] == [nvml.gpu(0).id]
    (warning,) = [one for one in found["warnings"] if one["about"] == "AMD GPUs"]
    assert "left out" in warning["message"]
