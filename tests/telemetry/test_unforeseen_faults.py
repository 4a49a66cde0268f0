"""What nvml.h allows a driver to answer, and what drivers answer all the same, while rounds run.

Written from NVML's documentation, after and apart from the sampler: whatever befalls, a figure is near the truth or it
is missing with a reason, the record can be written and read again, and what is missing leaves a doubt.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpubench.analysis.checks import doubts
from gpubench.analysis.reduced import reduced
from gpubench.analysis.usage import usage
from gpubench.files.validation import validate
from gpubench.spec.record import METRICS, Round, RunRecord, Telemetry, to_json
from gpubench.telemetry.sampler import Sampler
from tests.builders import make_case, make_record
from tests.fakes.nvml import DEFAULT, gpu
from tests.fakes.nvml.scenario import Setting
from tests.telemetry.helpers import loading, make_round, wait_until
from tests.telemetry.test_lost_samplers import unexplained

UNINITIALIZED, TOO_SMALL, TIMEOUT, GPU_LOST, RESET_REQUIRED, NO_DATA, NOT_READY = 1, 7, 10, 15, 16, 21, 27
SAMPLED = "nvmlDeviceGetFieldValues,nvmlDeviceGetUtilizationRates,nvmlDeviceGetSamples,nvmlDeviceGetMemoryInfo_v2,"
SAMPLED += "nvmlDeviceGetMemoryInfo,nvmlDeviceGetClockInfo,nvmlDeviceGetTemperatureV,nvmlGpmSampleGet"


def all_of(symbols: str, code: int) -> str:
    return ",".join(f"{symbol}={code}" for symbol in symbols.split(","))


# Each begins after the sampler has started; with the metrics that it takes away.
FAULTS: dict[str, tuple[dict[str, Setting], set[str]]] = {
    "the driver is unloaded": ({"fail": all_of(SAMPLED, UNINITIALIZED)}, {*METRICS}),
    "the GPU wants a reset": ({"fail": all_of(SAMPLED, RESET_REQUIRED)}, {*METRICS}),
    "one call says that the GPU is lost": ({"fail": all_of("nvmlDeviceGetClockInfo", GPU_LOST)}, {"sm_clock_mhz"}),
    "the buffer has no data": ({"fail": all_of("nvmlDeviceGetSamples", NO_DATA)}, set()),
    "a call is not ready": ({"fail": all_of("nvmlDeviceGetMemoryInfo_v2", NOT_READY)}, {"memory_used_bytes"}),
    "each third call times out": ({"flaky": "nvmlDeviceGetFieldValues=10@3"}, set()),
    "a list is always too long": (
        {"fail": all_of("nvmlDeviceGetComputeRunningProcesses_v3,nvmlDeviceGetComputeRunningProcesses_v2", TOO_SMALL)},
        set(),
    ),
    "monitoring ends": ({"fail": all_of("nvmlGpmMetricsGet", 999)}, set()),
    "stamps of the buffer go back": ({"samples_step_back": 30}, set()),
    "the energy counter wraps": ({"energy_wrap_mj": 20_000}, set()),
    "fields of an unknown type": ({"odd_fields": 1}, set()),
    "fields that are no number": ({"odd_fields": 2}, {"power_watts", "energy_joules"}),
    "negative fields": ({"odd_fields": 3}, {"power_watts", "energy_joules"}),
    "fields of all bits": ({"odd_fields": 4}, {"power_watts", "energy_joules"}),
    "fields of zero and success": ({"odd_fields": 5}, {"power_watts", "energy_joules"}),
    "gauges of all bits": ({"all_bits": 1}, {"memory_used_bytes", "temperature_celsius"}),
    "more GPUs counted than there are": ({"phantoms": 2}, set()),
}


@dataclass(frozen=True)
class Found:
    telemetry: Telemetry
    rounds: list[Round]

    @property
    def record(self) -> RunRecord:
        made = make_record(make_case(device_kind="gpu"), ranks=1)
        return replace(made, devices=[gpu(0)], rounds=self.rounds, telemetry=self.telemetry)


@pytest.fixture(scope="module")
def faulty(fake_nvml: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Found]]:
    """Two rounds of 1.5 s beside every faulty driver, all at the same time."""
    folder = tmp_path_factory.mktemp("faulty")
    trigger, rounds = folder / "now", []
    with ExitStack() as stack:
        samplers = {}
        for name, (settings, _) in FAULTS.items():
            with loading(fake_nvml, trigger=str(trigger), **settings):
                samplers[name] = stack.enter_context(Sampler([gpu(0)], folder))
        for sampler in samplers.values():
            wait_until(sampler.latest)
        trigger.touch()
        time.sleep(1.2)
        for index in range(2):
            for sampler in samplers.values():
                sampler.edge()
            start = time.monotonic()
            time.sleep(1.5)
            rounds.append(make_round(start, time.monotonic(), index))
            for sampler in samplers.values():
                sampler.edge()
        since_ns = rounds[0].start_ns - 10**8
        yield {
            name: Found(sampler.telemetry([gpu(0)], rounds, since_ns, time.monotonic_ns()), rounds)
            for name, sampler in samplers.items()
        }


@pytest.mark.parametrize("name", FAULTS)
def test_a_figure_is_near_the_truth_or_missing_with_a_reason(faulty: dict[str, Found], name: str):
    found = faulty[name]
    assert found.telemetry.reason is None
    (device,) = found.telemetry.devices
    assert list(unexplained(device)) == []
    for figures, one in zip(device.rounds, found.rounds, strict=True):
        start, end = one.start_ns / 1e9, one.end_ns / 1e9
        joules = DEFAULT.energy_joules(0, start, end)
        assert {metric for metric in METRICS if getattr(figures, metric) is None} == FAULTS[name][1]
        if figures.energy_joules is not None:
            assert figures.energy_joules == pytest.approx(joules, rel=0.35)
        if figures.power_watts is not None:
            assert figures.power_watts == pytest.approx(joules / (end - start), rel=0.35)
        if figures.utilization_percent is not None:
            assert 0 <= figures.utilization_percent <= 100
        assert figures.temperature_celsius in (None, 40)
        assert figures.memory_used_bytes in (None, 2 * 2**30)


@pytest.mark.parametrize("name", FAULTS)
def test_the_record_can_be_written_and_read(faulty: dict[str, Found], name: str):
    record = faulty[name].record
    assert json.loads(to_json(record))
    validate(record)


@pytest.mark.parametrize("name", [name for name, (_, lost) in FAULTS.items() if lost])
def test_what_is_missing_leaves_a_doubt_and_no_energy_out_of_nothing(faulty: dict[str, Found], name: str):
    record = faulty[name].record
    lost = FAULTS[name][1]
    expected = "device_unread" if lost == set(METRICS) else "telemetry_gaps"
    assert expected in {check.name for check in doubts(record)}
    assert (usage([reduced(record).used]).joules_per_sample is None) is ("energy_joules" in lost)
