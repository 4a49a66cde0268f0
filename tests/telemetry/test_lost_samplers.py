"""A sampler that is killed, that hangs or that aborts leaves a doubt on every machine, and no figure out of nothing.

Every machine of the fakes, NVIDIA's, AMD's and CPU shares, loses its sampler at three times: before the first round,
between two rounds, and in the last round.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpubench.analysis.checks import doubts
from gpubench.spec.case import Device
from gpubench.spec.record import GPU_METRICS, METRICS, DeviceTelemetry, Round, RunRecord, Telemetry
from gpubench.telemetry import sampler as sampler_module
from gpubench.telemetry.sampler import Sampler
from tests.builders import make_case, make_record
from tests.fakes import amdsmi
from tests.fakes.nvml.scenario import SCENARIOS, Scenario
from tests.telemetry.helpers import loading, make_round, wait_until

NVIDIA = sorted(path.stem for path in SCENARIOS.glob("*.toml"))
MACHINES = [*NVIDIA, "amd", "amd before the MI300", "cpu"]
TIMES = ["before the first round", "between rounds", "in the last round"]
WAYS = ["killed", "stopped", "aborted", "hung in a call"]
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "aborted": signal.SIGABRT}
ROUND_SECONDS = 0.6
PERIOD_SECONDS = 0.05


@dataclass(frozen=True)
class Machine:
    """Devices, and what a sampler's environment must have to find them, with what befalls it."""

    devices: Sequence[Device]
    load: Callable[[dict[str, str]], AbstractContextManager[None]]
    call: str = ""  # one that is made at every edge, if not at every tick


@dataclass(frozen=True)
class Lost:
    """What was recorded by a sampler that was lost."""

    devices: Sequence[Device]
    rounds: Sequence[Round]
    telemetry: Telemetry


@contextmanager
def _nothing(faults: dict[str, str]) -> Iterator[None]:
    yield


def _machine(name: str, library_of: Callable[[Scenario], Path], fake_amdsmi: Path) -> Machine:
    if name == "cpu":
        return Machine([Device(kind="cpu", id="core 0", name="CPU", cores=(0,))], _nothing)
    if name.startswith("amd"):
        older = {"current_power": 0, "fail": "amdsmi_get_gpu_metrics_info=2"} if "before" in name else {}
        return Machine(
            [amdsmi.gpu(0), amdsmi.gpu(1)],
            lambda faults: amdsmi.loading(fake_amdsmi, count=2, **older, **faults),  # type: ignore[arg-type]
            "amdsmi_get_power_info",
        )
    scenario = Scenario.load(name)
    return Machine(
        [device for _, device in scenario.usable],
        lambda faults: loading(library_of(scenario), scenario, **faults),
        "nvmlDeviceGetClockInfo",
    )


@pytest.fixture(scope="module", params=[(how, when) for how in WAYS for when in TIMES], ids="; ".join)
def lost(
    request: pytest.FixtureRequest,
    library_of: Callable[[Scenario], Path],
    fake_amdsmi: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, dict[str, Lost]]]:
    """When they were lost, and the samplers of all machines, which ran at the same time."""
    how, when = request.param
    folder = tmp_path_factory.mktemp("lost")
    trigger = folder / "now"
    machines = {name: _machine(name, library_of, fake_amdsmi) for name in MACHINES}
    if how == "hung in a call":
        del machines["cpu"]  # the kernel's files do not hang
    with ExitStack() as stack:
        samplers = {}
        for name, this in machines.items():
            faults = {"hang": this.call, "trigger": str(trigger)} if how == "hung in a call" else {}
            with this.load(faults):
                samplers[name] = stack.enter_context(Sampler(this.devices, folder, PERIOD_SECONDS))
        for sampler in samplers.values():
            wait_until(sampler.latest)
        since_ns, rounds = time.monotonic_ns(), []

        def strike() -> None:
            trigger.touch()
            for sampler in samplers.values():
                if how in SIGNALS and sampler.pid:
                    os.kill(sampler.pid, SIGNALS[how])

        def edges() -> None:
            for sampler in samplers.values():
                sampler.edge()

        if when == TIMES[0]:
            strike()
        for index in range(2):
            if index == 1 and when == TIMES[1]:
                strike()
            edges()
            start = time.monotonic()
            time.sleep(ROUND_SECONDS / 2)
            if index == 1 and when == TIMES[2]:
                strike()
            time.sleep(ROUND_SECONDS / 2)
            rounds.append(make_round(start, time.monotonic(), index))
            edges()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampler_module, "SILENCE_SECONDS", 0.2)
            found = {
                name: Lost(
                    machines[name].devices,
                    rounds,
                    sampler.telemetry(machines[name].devices, rounds, since_ns, time.monotonic_ns()),
                )
                for name, sampler in samplers.items()
            }
        for sampler in samplers.values():
            with suppress(ProcessLookupError):  # else each one that hangs is waited for
                os.kill(sampler.pid or 0, signal.SIGKILL)
        yield when, found


def test_a_lost_sampler_leaves_a_doubt_on_every_machine(lost: tuple[str, dict[str, Lost]]):
    _, found = lost
    doubted = {name: {check.name for check in doubts(record_of(each))} for name, each in found.items()}
    assert {name for name, names in doubted.items() if "telemetry_incomplete" not in names} == set()


def test_what_a_lost_sampler_did_not_see_is_none_with_a_reason(lost: tuple[str, dict[str, Lost]]):
    when, found = lost
    for name, each in found.items():
        unseen = each.rounds if when == TIMES[0] else each.rounds[1:]
        for device in each.telemetry.devices:
            for one in unseen:
                figures = device.rounds[one.index]
                assert {getattr(figures, metric) for metric in METRICS} == {None}, (name, figures)
                assert (figures.throttle_ns, figures.gpm, figures.processes) == ({}, {}, None), name
            assert list(unexplained(device)) == [], name


def unexplained(device: DeviceTelemetry) -> Iterator[tuple[int, str]]:
    """The figures that are missing, by round and metric, and have no reason."""
    metrics = {*METRICS, *GPU_METRICS, "gpm", "xids"} if device.id.startswith(("GPU", "MIG")) else {*METRICS}
    for figures in device.rounds:
        for metric in metrics - {*figures.unavailable, *device.unavailable, "clock_event_reasons", "xids"}:
            cause = metric.removeprefix("throttle_").removesuffix("_ns")
            if (figures.throttle_ns.get(cause) if cause != metric else getattr(figures, metric)) in (None, {}):
                yield figures.index, metric


def record_of(lost: Lost) -> RunRecord:
    kind, n = lost.devices[0].kind, len(lost.devices)
    made = make_record(make_case("single" if n == 1 else "ddp", n, device_kind=kind), ranks=1)
    return replace(made, devices=list(lost.devices), rounds=list(lost.rounds), telemetry=lost.telemetry)
