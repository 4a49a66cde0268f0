"""What the doctor says on every machine of the fake driver, in full; and that a recording of it says the same.

`python -m tests.telemetry.test_doctor FOLDER` writes the screens anew, with a folder to build the libraries in.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

import pytest

from gpubench.cli import checkup
from gpubench.spec.errors import GpubenchError
from gpubench.telemetry import doctor, recording
from gpubench.telemetry.nvml import NvmlView, discover
from tests.fakes import nvml
from tests.fakes.nvml.scenario import SCENARIOS, Scenario, Setting
from tests.telemetry.helpers import loading

NAMES = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
GOLDEN = Path(__file__).with_name("golden")
ALL_CPUS = range(512)


@pytest.fixture(autouse=True)
def _no_cuda_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


def idle(name: str) -> Scenario:
    return Scenario.load(name).but(busy_share=0)


def screen() -> str:
    """Of the driver that is being loaded. The binding's version is not the machine's."""
    view = discover()
    assert view.system is not None
    view = replace(view, system=replace(view.system, binding="VERSION"))
    return "\n".join(doctor.screen(view, doctor.ask(view.devices), doctor.warnings(view, ALL_CPUS))) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_screen_of_each_machine(library_of: Callable[[Scenario], Path], name: str):
    with loading(library_of(idle(name)), idle(name)):
        assert screen() == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_replays_to_the_same_screen_and_names_nobody(
    library_of: Callable[[Scenario], Path], tmp_path: Path, name: str
):
    with loading(library_of(idle(name)), idle(name)):
        text = json.dumps(recording.recorded())
    (tmp_path / "recorded.json").write_text(text)
    replayed = Scenario.load(tmp_path / "recorded.json")
    with loading(library_of(replayed), replayed):
        assert screen() == (GOLDEN / f"{name}.txt").read_text()
    assert "GPU-" not in text
    assert "MIG-" not in text
    assert "4194000" not in text  # a process id of the troubled machine


def test_a_recording_in_a_container_that_may_open_some_gpus_has_these(fake_nvml: Path, tmp_path: Path):
    forbidden = {"nvmlDeviceGetHandleByIndex_v2": 4}
    scenario = idle("l40s_4x").but_each("errors", [{}, forbidden, {}, forbidden])
    with loading(fake_nvml, scenario):
        before = screen()
        (tmp_path / "recorded.json").write_text(json.dumps(recording.recorded()))
    replayed = Scenario.load(tmp_path / "recorded.json")
    with loading(fake_nvml, replayed):
        assert screen() == before
    assert "GPU 1, 3: it could not be opened: Insufficient Permissions" in before


@pytest.mark.parametrize("name", ["0001_run.jsonl", "fifo.json"])
def test_a_recording_replaces_nothing_but_another_one(gpubench, tmp_path: Path, name: str):
    (tmp_path / "0001_run.jsonl").write_text("records")
    os.mkfifo(tmp_path / "fifo.json")
    done = gpubench("doctor", "--record", name, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert "so it is not replaced" in done.stderr
    assert (tmp_path / "0001_run.jsonl").read_text() == "records"


def test_without_a_driver_there_is_nothing_to_record():
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("this machine has an NVIDIA driver")
    with pytest.raises(GpubenchError, match="no GPU to record"):
        recording.recorded()


def warnings_of(
    library_of: Callable[[Scenario], Path], scenario: Scenario, cpus: range = ALL_CPUS
) -> list[doctor.Warning]:
    with loading(library_of(scenario), scenario):
        return doctor.warnings(discover(), cpus)


def about(found: list[doctor.Warning], words: str) -> list[tuple[str, bool]]:
    """Whom the warnings with these words are about, and whether they say that a benchmark would mislead."""
    return [(one.about, one.misleads) for one in found if words in one.message]


@pytest.mark.parametrize("name", NAMES)
def test_the_exit_code_is_1_where_a_benchmark_would_mislead(library_of: Callable[[Scenario], Path], name: str):
    found = {"warnings": [asdict(one) for one in warnings_of(library_of, idle(name))]}
    assert checkup.misleads(found) is (name == "h100_troubled")


def test_a_machine_in_order_has_no_warnings(library_of: Callable[[Scenario], Path]):
    assert warnings_of(library_of, idle("hgx_h100_8x")) == []


def test_a_binding_to_the_wrong_cpus_misleads(library_of: Callable[[Scenario], Path]):
    # Two GPUs are near CPUs 0-31, two near 32-63.
    found = warnings_of(library_of, idle("l40s_4x"), range(32))
    assert about(found, "none of the CPUs near it (32-63)") == [("GPU 2", True), ("GPU 3", True)]
    assert len(found) == 2


def test_a_busy_gpu_is_somebodys(library_of: Callable[[Scenario], Path]):
    found = warnings_of(library_of, Scenario.load("rtx4090_2x").but_each("busy_share", [1.0, 0.0]))
    assert about(found, "somebody is on it") == [("GPU 0", True)]


def test_a_gpu_that_draws_a_desktop_is_nobodys(library_of: Callable[[Scenario], Path]):
    scenario = idle("rtx4090_2x").but(used_gib=0.6, busy_share=0.03, load_period=0.001)
    assert about(warnings_of(library_of, scenario), "somebody is on it") == []


@pytest.mark.parametrize(
    ("settings", "words", "misleads"),
    [
        ({"boost_sm_clock_mhz": 1200}, "its clock may rise to 1200 MHz of 1980", True),
        ({"boost_sm_clock_mhz": 1950}, "its clock may rise to 1950 MHz of 1980", False),
        ({"idle_reasons": 0x41}, "its clock is held down now: thermal (hardware)", True),
        ({"fabric_state": 2}, "NVSwitch's fabric is not ready for it: in progress", True),
        ({"fabric_status": 999}, "NVSwitch's fabric is not ready for it: failed", True),
        ({"fabric_health": 1}, "NVLink has less bandwidth than it should", True),
        ({"compute_mode": 2}, "its compute mode forbids any use", True),
        ({"mps_processes": "77 1"}, "1 other process on it", True),
        ({"pcie_max_generation": 4}, "its slot is PCIe 4, the GPU could PCIe 5", False),
        ({"mig": 1}, "MIG is on, but there is no instance to run on", True),
    ],
)
def test_what_is_wrong_with_a_gpu_is_said(
    library_of: Callable[[Scenario], Path], settings: dict[str, Setting], words: str, misleads: bool
):
    found = warnings_of(library_of, idle("hgx_h100_8x").but(count=1, **settings))
    assert about(found, words) == [("GPU 0", misleads)]


def test_gpus_of_several_models_mislead_unless_hidden(
    library_of: Callable[[Scenario], Path], monkeypatch: pytest.MonkeyPatch
):
    scenario = idle("rtx4090_2x").but_each("name", ["NVIDIA A", "NVIDIA B"])
    assert about(warnings_of(library_of, scenario), "2 models (NVIDIA A, NVIDIA B)") == [("GPUs", True)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", scenario.device(0).id)
    found = warnings_of(library_of, scenario)
    assert not any(one.misleads for one in found)
    assert about(found, "P2P") == []  # there is no other GPU to reach


def test_hidden_gpus_are_not_warned_of(library_of: Callable[[Scenario], Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", Scenario.load("h100_troubled").device(1).id)
    found = warnings_of(library_of, idle("h100_troubled"))
    assert {one.about for one in found} == {"GPU 1"}


def test_mig_instances_do_not_mislead_as_they_are_measured_one_at_a_time(library_of: Callable[[Scenario], Path]):
    found = warnings_of(library_of, idle("h100_mig"))  # of two profiles
    assert about(found, "one MIG instance and no more") == [("GPUs", False)]
    assert not any(one.misleads for one in found)


def test_a_variable_that_hides_gpus_by_mistake_misleads(
    library_of: Callable[[Scenario], Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,9,1")
    found = warnings_of(library_of, idle("l40s_4x"))
    assert about(found, "'9' fits no GPU") == [("CUDA_VISIBLE_DEVICES", True)]


@pytest.mark.parametrize("code", [9, 18], ids=["not loaded", "of another release"])
def test_a_driver_that_does_not_answer_misleads(fake_nvml: Path, code: int):
    with loading(fake_nvml, fail=f"nvmlInit={code}"):
        view = discover()
    found = doctor.warnings(view, ALL_CPUS)
    assert about(found, "CPU shares would be measured") == [("GPUs", True)]
    first, second = doctor.screen(view, None, found)
    assert re.fullmatch(rf"NVML       \S.* \(error {code}\)", first)
    assert "NVML: " not in first
    assert second.startswith("Warnings   ! GPUs: ")


def test_a_binding_that_is_not_nvidias_misleads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): ...\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    view = discover()
    found = doctor.warnings(view, ALL_CPUS)
    assert [one.misleads for one in found] == [True]
    first, _ = doctor.screen(view, None, found)
    assert first.startswith(f"NVML       the module pynvml at {tmp_path}/pynvml.py is not NVIDIA's; `pip uninstall")


def test_a_machine_without_gpus_says_why_and_does_not_mislead():
    view = NvmlView(reason="NVML: NVML Shared Library Not Found (error 12)")
    assert doctor.warnings(view, ALL_CPUS) == []
    assert doctor.screen(view, None, []) == ["NVML       Shared Library Not Found (error 12)"]


def test_a_driver_that_does_not_say_what_it_can_tell_is_named(library_of: Callable[[Scenario], Path]):
    with loading(library_of(idle("l40s_4x")), idle("l40s_4x")):
        view = discover()
    assert "Measures   unknown: the driver did not say in time" in doctor.screen(view, None, [])


def test_what_several_gpus_have_in_common_is_one_line():
    def warning(number: int, watts: int) -> doctor.Warning:
        return doctor.Warning(about=f"GPU {number}", message=f"{watts} W", remedy=f"x -i {number} -pl 9", misleads=True)

    note = doctor.Warning(about="GPUs", message="a note", remedy="", misleads=False)
    lines = doctor.screen(NvmlView(reason="none"), None, [note, warning(0, 1), warning(1, 2), warning(3, 1)])
    assert lines[1:] == [
        "Warnings   ! GPU 0, 3: 1 W -> x -i 0,3 -pl 9",
        "           ! GPU 1: 2 W -> x -i 1 -pl 9",
        "           - GPUs: a note",
    ]


def test_json_has_all_that_the_screen_has(library_of: Callable[[Scenario], Path], gpubench):
    scenario = idle("h100_troubled")
    with loading(library_of(scenario), scenario):
        done = gpubench("doctor", "--json")
    assert done.returncode == 1
    text = checkup.as_text(json.loads(done.stdout))
    golden = (GOLDEN / "h100_troubled.txt").read_text().replace("VERSION", metadata.version("nvidia-ml-py"))
    facts, _, warned = golden.partition("Warnings")
    assert facts in text
    for line in warned.splitlines():
        if "CPUs" not in line:
            assert line.strip() in text


@pytest.mark.parametrize(
    ("n_devices", "id", "words"),
    [(2, "MIG-1", "CUDA shows a process one MIG instance"), (2, "GPU-1", "a CPU build, or a driver mismatch")],
)
def test_a_framework_that_finds_fewer_gpus_is_explained(n_devices: int, id: str, words: str):
    devices = [{"id": f"{id}{number}"} for number in range(n_devices)]
    found = {
        "machine": {"cpu": "", "cores": 1, "memory_bytes": 0, "os": "", "devices": devices},
        "nvml": asdict(NvmlView(reason="none")),
        "telemetry": None,
        "amd": None,
        "amd_telemetry": None,
        "warnings": [],
        "device_kind": "gpu",
        "cpu_limit": None,
        "unlike_cores": 0,
        "no_share": None,
        "frameworks": {"torch": {"version": "2", "gpus": [{"name": "A"}], "details": {}}},
        "refused": [],
    }
    assert f"Differs from the driver, which shows 2: {words}" in checkup.as_text(found)


def write_screens(folder: Path) -> None:
    GOLDEN.mkdir(exist_ok=True)
    for name in NAMES:
        scenario = idle(name)
        variables = nvml.environment(nvml.build(folder / name, scenario.missing), scenario)
        code = "from tests.telemetry.test_doctor import screen; print(screen(), end='')"
        everything = {**os.environ, **variables}
        done = subprocess.run([sys.executable, "-c", code], env=everything, capture_output=True, check=True)
        (GOLDEN / f"{name}.txt").write_bytes(done.stdout)


if __name__ == "__main__":
    write_screens(Path(sys.argv[1]))
