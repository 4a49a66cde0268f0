"""Every doubt is raised when it should be, and none where a thing was not observed."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from gpubench.analysis.checks import doubts
from gpubench.analysis.scaling import summarize
from gpubench.spec.record import Observed, RunRecord, Telemetry
from tests.builders import make_case, make_launches, make_lost, make_record


def names(record: RunRecord) -> list[str]:
    return [check.name for check in doubts(record)]


def observing(record: RunRecord, **observed: Any) -> RunRecord:
    return replace(record, observed=replace(record.observed, **observed))


def with_rounds(record: RunRecord, **changes: Any) -> RunRecord:
    return replace(record, rounds=[replace(each, **changes) for each in record.rounds])


TWO = make_record(make_case("ddp", 2))
ONE_PROCESS = make_record(make_case("mirrored", 2, framework="tensorflow"), ranks=1)
WIDE = make_record(replace(make_case("mirrored", 2), cores_per_device=4), ranks=1)
GPUS = make_record(make_case("ddp", 2, device_kind="gpu"))


@pytest.mark.parametrize("record", [TWO, ONE_PROCESS, WIDE, GPUS, make_record()])
def test_a_sound_record_raises_no_doubt(record):
    assert doubts(record) == []


@pytest.mark.parametrize("record", [TWO, ONE_PROCESS, GPUS])
def test_what_was_not_observed_is_not_doubted(record):
    blind = replace(record, observed=Observed(), telemetry=Telemetry(), warmup=None)
    assert doubts(with_rounds(blind, rank_cpu_seconds=[])) == []


def test_a_launch_that_failed_has_no_number_to_doubt():
    assert doubts(make_lost(make_case("ddp", 2), "timeout", "rank 1 did not answer")) == []


@pytest.mark.parametrize(
    ("name", "severity", "record"),
    [
        ("world_size", "severe", observing(TWO, world_size=1)),
        ("wrong_devices", "severe", observing(TWO, device_ids=["cores 0-1"])),
        ("samples_counted", "severe", with_rounds(TWO, samples=1)),
        ("replicas_differ", "severe", observing(TWO, replicas_equal=False)),
        ("loss_not_finite", "severe", observing(TWO, loss_last=None)),
        ("loss_not_finite", "severe", observing(TWO, loss_last=float("nan"))),
        ("loss_did_not_fall", "warning", observing(TWO, loss_last=2.3)),
        ("parameters", "severe", observing(TWO, parameters=1)),
        ("no_steady_state", "severe", replace(TWO, warmup=replace(TWO.warmup, steady=False))),
        ("shares_not_used", "severe", with_rounds(ONE_PROCESS, rank_seconds=[2.0], rank_cpu_seconds=[2.2])),
        ("shares_not_used", "severe", with_rounds(WIDE, rank_seconds=[2.0], rank_cpu_seconds=[8.0])),
        ("too_many_cores", "severe", with_rounds(TWO, rank_seconds=[2.0, 2.0], rank_cpu_seconds=[2.0, 3.0])),
        ("utilization_zero", "warning", make_record(make_case(device_kind="gpu"), utilization_percent=0.0)),
        ("imbalance", "warning", with_rounds(GPUS, rank_seconds=[2.0, 1.7], rank_cpu_seconds=[])),
        ("sampled_other_devices", "warning", replace(TWO, telemetry=make_record(make_case()).telemetry)),
    ],
)
def test_each_doubt_is_raised_with_its_severity_and_a_remedy(name, severity, record):
    [check] = doubts(record)
    assert (check.name, check.severity) == (name, severity)
    assert check.message
    assert check.remedy


@pytest.mark.parametrize(
    "record",
    [
        with_rounds(ONE_PROCESS, rank_seconds=[2.0], rank_cpu_seconds=[2.4]),
        with_rounds(TWO, rank_seconds=[2.0, 1.9], rank_cpu_seconds=[2.0, 1.9]),
        observing(GPUS, device_ids=["0000:17:00.0", "0000:65:00.0"]),  # PCI addresses say nothing against UUIDs
    ],
)
def test_what_is_within_its_limit_raises_no_doubt(record):
    assert names(record) == []


def test_the_checks_import_neither_numpy_nor_pandas():
    code = "import gpubench.analysis.checks, sys; print({'numpy', 'pandas', 'scipy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def series(*rates: float, software: dict[str, str] | None = None, launches: int = 3) -> list[RunRecord]:
    records = make_launches(make_case("single", 1), [100.0] * launches)
    for doublings, rate in enumerate(rates):
        changes: dict[str, Any] = {} if software is None else {"software": software}
        records += make_launches(make_case("ddp", 2 * 2**doublings), [rate] * launches, **changes)
    return records


def series_names(records: list[RunRecord]) -> dict[int, list[str]]:
    return {
        s.case.n_devices: [check.name for check in s.checks] for s in summarize(records) if s.case.strategy == "ddp"
    }


def test_a_sound_series_raises_no_doubt():
    assert series_names(series(190.0, 370.0)) == {2: [], 4: []}


def test_throughput_that_falls_with_devices_is_said_and_the_number_stays():
    records = series(190.0, 150.0)
    assert series_names(records) == {2: [], 4: ["throughput_falls"]}
    assert all(summary.samples_per_second for summary in summarize(records))


def test_an_efficiency_that_may_still_be_one_is_a_warning_only():
    records = make_launches(make_case("single", 1), [90.0, 100.0, 110.0])
    records += make_launches(make_case("ddp", 2), [200.0, 216.0, 240.0])
    [two] = [summary for summary in summarize(records) if summary.case.n_devices == 2]
    assert {check.name: check.severity for check in two.checks}["efficiency_above_one"] == "warning"
    assert two.samples_per_second == pytest.approx(216)


def test_two_versions_in_one_series_are_no_comparison():
    records = series(190.0, software={"torch": "9.9.9"})
    assert series_names(records) == {2: ["mixed_software"]}
    [two] = [summary for summary in summarize(records) if summary.case.n_devices == 2]
    assert two.speedup is None


def test_launches_that_differ_too_much_are_said():
    [summary] = summarize(make_launches(make_case(), [90.0, 100.0, 112.0]))
    assert [check.name for check in summary.checks] == ["noisy_launches"]
