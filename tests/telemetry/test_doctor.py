"""What the doctor says on every machine of the fake driver, in full; and that a recording of it says the same.

`python -m tests.telemetry.test_doctor FOLDER` writes the screens anew, with a folder to build the libraries in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import GpuSystem
from gpubench.telemetry import doctor, recording
from gpubench.telemetry.nvml import NvmlView, discover
from tests.fakes import nvml
from tests.fakes.nvml.scenario import SCENARIOS, Scenario
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


@pytest.mark.parametrize("name", ["a100_mig", "h100_troubled", "l40s_4x", "v100_old_driver"])
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


def test_without_a_driver_there_is_nothing_to_record():
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("this machine has an NVIDIA driver")
    with pytest.raises(GpubenchError, match="no GPU to record"):
        recording.recorded()


def warned(name: str, library: Path, cpus: range = ALL_CPUS) -> dict[str, list[bool]]:
    """By GPU, whether each warning says that a benchmark would mislead."""
    with loading(library, idle(name)):
        found = doctor.warnings(discover(), cpus)
    return {about: [one.misleads for one in found if one.about == about] for about in {one.about for one in found}}


def test_what_would_mislead_is_told_from_what_is_worth_knowing(library_of: Callable[[Scenario], Path]):
    library = library_of(idle("h100_troubled"))
    assert warned("h100_troubled", library) == {"GPU 0": [True, True, True, True, False], "GPU 1": [True, False]}
    assert warned("hgx_h100_8x", library_of(idle("hgx_h100_8x"))) == {}


def test_a_binding_to_the_wrong_cpus_misleads(library_of: Callable[[Scenario], Path]):
    # Two GPUs are near CPUs 0-31, two near 32-63.
    assert warned("l40s_4x", library_of(idle("l40s_4x")), range(32)) == {"GPU 2": [True], "GPU 3": [True]}


def test_a_busy_gpu_is_somebodys(library_of: Callable[[Scenario], Path]):
    scenario = Scenario.load("rtx4090_2x").but_each("busy_share", [1.0, 0.0])
    with loading(library_of(scenario), scenario):
        found = doctor.warnings(discover(), ALL_CPUS)
    assert [one.about for one in found if "somebody is on it" in one.message] == ["GPU 0"]


def test_gpus_of_several_models_mislead(library_of: Callable[[Scenario], Path]):
    scenario = idle("rtx4090_2x").but_each("name", ["NVIDIA A", "NVIDIA B"])
    with loading(library_of(scenario), scenario):
        found = doctor.warnings(discover(), ALL_CPUS)
    assert any(one.misleads and "2 models (NVIDIA A, NVIDIA B)" in one.message for one in found)


def test_a_binding_that_is_not_nvidias_misleads():
    view = NvmlView(reason="the module pynvml at /x is not NVIDIA's; `pip uninstall pynvml`", system=None)
    assert [one.misleads for one in doctor.warnings(view, ALL_CPUS)] == [True]


def test_a_machine_without_gpus_says_why():
    view = NvmlView(reason="NVML: NVML Shared Library Not Found (error 12)", system=GpuSystem())
    assert doctor.screen(view, None, []) == ["NVML       NVML: NVML Shared Library Not Found (error 12)"]


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
