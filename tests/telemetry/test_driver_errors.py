"""Drivers that refuse a call, lose a GPU or find none: discovery says why, doctor's recording replays, no traceback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes import nvml
from tests.fakes.nvml.scenario import SCENARIOS, Scenario
from tests.telemetry.forked import ask

NAMES = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
SOURCES = [Path(nvml.__file__).parent / name for name in ("machine.c", "gauges.c")]
SYMBOLS = sorted(
    {
        name
        for file in SOURCES
        for name in re.findall(r"^(?:FUNCTION|NUMBER)\((nvml\w+)", file.read_text(), re.MULTILINE)
        if name not in ("nvmlShutdown", "nvmlDeviceGetPcieThroughput", "nvmlEventSetWait_v2")
    }
)
NOT_SUPPORTED, NO_PERMISSION, GPU_LOST, UNKNOWN = 3, 4, 15, 999
TWO = Scenario.load("h200_8x").but(count=2, busy_share=0)
CUT = Scenario.load("h100_mig").but(busy_share=0)


@pytest.fixture(autouse=True)
def _no_cuda_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


def test_a_gpu_that_is_lost_after_any_call_ends_discovery_in_a_view(fake_nvml: Path):
    scenarios = [TWO.but(lost=f"1@{calls}") for calls in range(110)]
    views = ask(fake_nvml, "view", scenarios)
    assert [view for view in views if isinstance(view, str)] == []
    assert all(view["devices"] or view["reason"] for view in views)
    assert {len(view["devices"]) for view in views} == {1, 2}  # it is lost before it is known, or after
    for view in views:
        assert len(view["devices"]) == 2 or "GPU is lost" in view["problems"]["GPU 1"]


def test_gpus_that_all_vanish_are_a_reason_and_not_a_machine_without_gpus(fake_nvml: Path):
    scenarios = [
        TWO.but(fail=f"nvmlDeviceGetUUID=15@{calls},nvmlDeviceGetPciInfo_v3=15@{calls}") for calls in (0, 1, 9)
    ]
    nothing, one, _ = ask(fake_nvml, "view", scenarios)
    assert (nothing["devices"], nothing["broken"]) == ([], True)
    assert nothing["reason"].startswith("NVML counts 2 GPUs and finds no GPU that may be opened: ")
    assert "GPU is lost" in nothing["reason"]
    assert len(one["devices"]) == 1


@pytest.mark.parametrize("code", [NO_PERMISSION, GPU_LOST, UNKNOWN])
def test_a_count_that_fails_is_the_reason(fake_nvml: Path, code: int):
    (view,) = ask(fake_nvml, "view", [TWO.but(fail=f"nvmlDeviceGetCount_v2={code}")])
    assert (view["devices"], view["broken"]) == ([], True)
    assert f"(error {code})" in view["reason"]


def test_a_driver_that_counts_no_gpu_is_told_from_a_machine_without_a_driver(fake_nvml: Path):
    (view,) = ask(fake_nvml, "view", [nvml.DEFAULT.but(count=0)])
    assert view["broken"]
    assert "the driver answers, and NVML counts no GPU" in view["reason"]


def test_every_call_that_fails_in_any_way_leaves_a_view_with_devices_or_a_reason(fake_nvml: Path):
    codes = (NOT_SUPPORTED, NO_PERMISSION, GPU_LOST, UNKNOWN)
    plans = [f"{symbol}={code}" for symbol in SYMBOLS for code in codes]
    for base in (TWO, CUT):
        views = ask(fake_nvml, "view", [base.but(fail=plan) for plan in plans])
        for plan, view in zip(plans, views, strict=True):
            assert isinstance(view, dict), (plan, view)
            assert view["devices"] or view["reason"], plan


def test_two_gpus_of_one_uuid_are_not_both_measured(fake_nvml: Path):
    (view,) = ask(fake_nvml, "view", [TWO.but(uuid_of_all=1)])
    assert len(view["devices"]) == 1
    assert "cannot be told apart" in view["problems"]["GPU 1"]


def test_a_gpu_in_mig_mode_without_an_instance_is_no_device(fake_nvml: Path):
    both, one = TWO.but(mig=1), TWO.but_each("mig", [1, 0])
    views = ask(fake_nvml, "view", [both, one])
    assert views[0]["devices"] == []
    assert "MIG mode without an instance" in views[0]["refusal"]
    assert "-cgi 0 -C" in views[0]["refusal"]
    assert [device["id"] for device in views[1]["devices"]] == [TWO.device(1).id]
    assert views[1]["refusal"] is None


@pytest.mark.parametrize(("variable", "reason"), [("", "hides all 2 GPUs"), ("0", "MIG mode that has no instance")])
def test_a_variable_that_hides_all_is_the_reason_and_no_refusal_where_it_means_it(
    fake_nvml: Path, monkeypatch: pytest.MonkeyPatch, variable: str, reason: str
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    (view,) = ask(fake_nvml, "view", [TWO.but(mig=1)])
    assert reason in view["reason"]
    assert bool(view["refusal"]) is (variable == "0")


def _replays(library: Path, scenarios: dict[str, Scenario]) -> None:
    answers = dict(zip(scenarios, ask(library, "screen and recording", list(scenarios.values())), strict=True))
    for name, answer in answers.items():
        assert isinstance(answer, list), (name, answer)
    replayed = ask(library, "screen", [Scenario(recording) for _, recording in answers.values()])
    differing = {
        name: (before, after)
        for (name, (before, _)), after in zip(answers.items(), replayed, strict=True)
        if before != after
    }
    assert differing == {}


@pytest.mark.parametrize(
    ("base", "code"), [(TWO, NOT_SUPPORTED), (TWO, GPU_LOST), (CUT, NO_PERMISSION)], ids=["whole", "lost", "cut"]
)
def test_a_recording_of_a_driver_that_refuses_a_call_replays_to_the_same_screen(
    fake_nvml: Path, base: Scenario, code: int
):
    ends = {"nvmlDeviceGetCount_v2"}  # there is nothing to record then, which is an error
    _replays(fake_nvml, {f"{s}={code}": base.but(fail=f"{s}={code}") for s in SYMBOLS if s not in ends})


def test_a_recording_of_a_driver_that_refuses_a_call_for_one_gpu_replays_to_the_same_screen(fake_nvml: Path):
    _replays(fake_nvml, {s: TWO.but_each("errors", [{}, {s: UNKNOWN}]) for s in SYMBOLS})  # type: ignore[list-item]


def test_a_recording_of_a_driver_that_refuses_a_field_replays_to_the_same_screen(fake_nvml: Path):
    fields = (74, 75, 76, 77, 79, 82, 83, 94, 138, 139, 185, 186, 197, 198)
    _replays(
        fake_nvml,
        {f"{n}={code}": TWO.but(**{f"field_errors.{n}": code}) for n in fields for code in (3, 15)},
    )
