"""Why there is no GPU: from the kernel's files, and as one line of every command that takes CPU shares in its place."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpubench.harness import machine
from gpubench.spec.errors import UsageError
from gpubench.spec.record import Machine
from gpubench.telemetry import signs
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario
from tests.telemetry.helpers import loading

H200 = Scenario.load("h200_8x").but(count=2)


def tree(root: Path, *files: str, vendor: str = "0x10de", pci_class: str = "0x030200") -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        if name.startswith("sys/bus/pci"):
            path.unlink()
            path.mkdir()
            (path / "vendor").write_text(f"{vendor}\n")
            (path / "class").write_text(f"{pci_class}\n")
    return root


GPU_ON_PCI = "sys/bus/pci/devices/0000:01:00.0"
LOADED = "proc/driver/nvidia/version"


def test_a_machine_without_a_sign_of_a_gpu_has_none(tmp_path: Path):
    assert signs.of_nvidia(tmp_path) is None
    assert signs.without_amdsmi(tmp_path) is None
    assert signs.of_nvidia(tree(tmp_path, GPU_ON_PCI, vendor="0x8086")) is None


def test_a_gpu_on_pci_without_a_driver_is_named(tmp_path: Path):
    assert signs.of_nvidia(tree(tmp_path, GPU_ON_PCI)) == (
        "1 NVIDIA GPU is on PCI, but the driver is not loaded: install it"
    )


def test_a_container_without_its_gpus_is_named(tmp_path: Path):
    assert "--gpus all" in (signs.of_nvidia(tree(tmp_path, LOADED)) or "")
    assert signs.of_nvidia(tree(tmp_path, "dev/nvidiactl", "dev/nvidia0")) is None


def test_a_device_that_may_not_be_opened_is_named_with_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree(tmp_path, LOADED, "dev/nvidiactl", "dev/nvidia0", "dev/kfd")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(("nvidia0", "kfd")))
    assert "/dev/nvidia0 may not be opened: add the user to the group" in (signs.of_nvidia(tmp_path) or "")
    assert "/dev/kfd may not be opened" in (signs.of_amd(tmp_path) or "")


def test_an_amd_gpu_without_its_binding_or_driver_is_named(tmp_path: Path):
    assert "amdsmi is not installed" in (signs.without_amdsmi(tree(tmp_path / "a", "dev/kfd")) or "")
    accelerator = tree(tmp_path / "b", GPU_ON_PCI, vendor="0x1002", pci_class="0x120000")
    assert "1 AMD accelerator is on PCI" in (signs.without_amdsmi(accelerator) or "")


def without_gpus(**fields: str) -> Machine:
    return Machine(name="m", os="Linux", cpu="cpu", cores=4, memory_bytes=1, **fields)  # type: ignore[arg-type]


def test_the_cause_is_never_empty():
    for this in (without_gpus(), without_gpus(nvml_reason="", amd_reason="")):
        with pytest.raises(UsageError, match=r"No GPU was found: \w.*\. Use"):
            machine.device_kind("gpu", this)
        assert machine.fallback("auto", this) == ("No GPU: neither NVML nor AMD SMI shows one. Measuring CPU shares.")
        assert machine.fallback("cpu", this) is None


def test_gpus_that_must_be_set_up_first_are_no_reason_to_measure_cpu_shares():
    this = without_gpus(gpu_refusal="GPU 0 is in MIG mode without an instance to run on")
    for asked in ("auto", "gpu"):
        with pytest.raises(UsageError, match="GPU 0 is in MIG mode without an instance"):
            machine.device_kind(asked, this)
    assert machine.device_kind("cpu", this) == "cpu"


@pytest.mark.parametrize(
    ("settings", "hides", "cause"),
    [
        ({"fail": "nvmlInit=9"}, None, "Driver Not Loaded (error 9)"),
        ({"fail": "nvmlInit=18"}, None, "(error 18)"),
        ({"fail": "nvmlDeviceGetCount_v2=999"}, None, "Unknown Error (error 999)"),
        ({"fail": "nvmlDeviceGetHandleByIndex_v2=4"}, None, "Insufficient Permissions (error 4)"),
        ({"fail": "nvmlDeviceGetUUID=15"}, None, "GPU is lost (error 15)"),
        ({"count": 0}, None, "NVML counts no GPU"),
        ({}, "-1", "CUDA_VISIBLE_DEVICES=-1: it hides all 2 GPUs"),
    ],
    ids=["no driver", "mismatch", "no count", "no permission", "lost", "none", "hidden"],
)
def test_a_run_that_falls_back_to_cpu_shares_says_why_in_one_line(
    fake_nvml: Path, gpubench, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], hides: str | None, cause: str
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hides is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hides)
    run = ("run", "--frameworks", "fake", "--devices", "1", "--dry-run")
    with loading(fake_nvml, H200, **settings):
        done = [
            gpubench(*words)
            for words in (run, ("list",), (*run, "--device-kind", "gpu"), (*run, "--device-kind", "cpu"))
        ]
    for one in done[:2]:
        (line,) = [line for line in one.stderr.splitlines() if line.startswith("No GPU: ")]
        assert cause in line
        assert line.endswith(". Measuring CPU shares.")
        assert one.returncode == 0
    assert done[2].returncode == 2
    assert cause in done[2].stderr
    assert "No GPU" not in done[3].stderr


def test_doctor_and_pytest_say_it_too(
    fake_nvml: Path, gpubench, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):  # of the session that runs these tests
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile("def test_case(gpubench_case): ...")
    with loading(fake_nvml, H200, fail="nvmlInit=9"):
        told = gpubench("doctor", "--json")
        shown = pytester.runpytest_subprocess("--collect-only", "--gpubench-frameworks", "fake")
    assert told.stderr.startswith("No GPU: NVML: Driver Not Loaded (error 9)")
    assert told.stderr.endswith("Measuring CPU shares.\n")
    assert "Driver Not Loaded" in json.loads(told.stdout)["no_gpu"]
    shown.stdout.fnmatch_lines(["*No GPU: *Driver Not Loaded*Measuring CPU shares."])


def test_gpus_in_mig_mode_without_an_instance_are_refused(fake_nvml: Path, gpubench):
    run = ("run", "--frameworks", "fake", "--devices", "1", "--dry-run")
    with loading(fake_nvml, H200, mig=1):
        refused, shares, told = gpubench(*run), gpubench(*run, "--device-kind", "cpu"), gpubench("doctor")
    assert refused.returncode == 2
    assert "GPUs 0, 1 are in MIG mode without an instance to run on; make one: sudo nvidia-smi mig" in refused.stderr
    assert shares.returncode == 0
    assert told.returncode == 1
    assert "GPU 0, 1: MIG is on, but there is no instance to run on" in told.stdout
    assert "no instance" in told.stdout


def test_a_gpu_in_mig_mode_without_an_instance_is_left_out_beside_one_that_is_whole(fake_nvml: Path, gpubench):
    with loading(fake_nvml, H200.but_each("mig", [1, 0])):
        done = gpubench("run", "--frameworks", "fake", "--strategies", "single", "--devices", "1", "--dry-run")
    assert done.returncode == 0
    assert nvml.DEFAULT.device(1).id in done.stdout
    assert nvml.DEFAULT.device(0).id not in done.stdout
