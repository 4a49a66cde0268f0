"""Doubts about GPUs: others on the device, clocks held down, a slow link, errors, sensors that contradict."""

from dataclasses import replace
from typing import Any

import pytest

from gpubench.analysis.checks import doubts
from gpubench.spec.record import DeviceTelemetry, GpuFacts, GpuProcess, GpuSystem, RunRecord
from tests.builders import make_case, make_record

GIB = 1024**3
GPU = make_record(make_case(device_kind="gpu"), power_watts=500.0)
ROUND_SECONDS = GPU.rounds[0].seconds
CARD = {"name": "Test GPU", "index": 0, "pcie_generation_max": 5, "pcie_width_max": 16}


def changed(record: RunRecord = GPU, rounds: dict[str, Any] | None = None, **device: Any) -> RunRecord:
    """The record with fields of its device, or of each of its device's rounds, replaced."""
    [was] = record.telemetry.devices
    now: DeviceTelemetry = replace(was, rounds=[replace(each, **(rounds or {})) for each in was.rounds], **device)
    return replace(record, telemetry=replace(record.telemetry, devices=[now]))


def with_series(**series: list[float]) -> RunRecord:
    """Ten readings a second from the start of the launch on."""
    n = len(next(iter(series.values())))
    return changed(time_ns=[i * 10**8 for i in range(n)], series=series)


def with_facts(record: RunRecord = GPU, **facts: Any) -> RunRecord:
    gpu = GpuFacts(id=record.devices[0].id, **(CARD | facts))
    return replace(record, telemetry=replace(record.telemetry, system=GpuSystem(gpus=[gpu])))


def throttled(**shares: float) -> RunRecord:
    return changed(
        rounds={"throttle_ns": {cause: round(share * ROUND_SECONDS * 1e9) for cause, share in shares.items()}}
    )


def linked(generation: int, width: int, **rounds: Any) -> RunRecord:
    return with_facts(changed(rounds={"pcie_link_generation": generation, "pcie_link_width": width, **rounds}))


def clocked(mhz: float, **rounds: Any) -> RunRecord:
    busy = {"utilization_percent": 99.0, "sm_clock_mhz": mhz, "throttle_ns": {"power": 0, "thermal": 0}}
    return with_facts(changed(rounds=busy | rounds), sm_clock_max_mhz=1980)


IDLE_THEN_BUSY = [0.0] * 20 + [97.0] * 20


@pytest.mark.parametrize(
    ("name", "severity", "record"),
    [
        ("device_shared", "severe", with_series(utilization_percent=[40.0] * 40)),
        (
            "device_shared",
            "warning",
            with_series(
                utilization_percent=IDLE_THEN_BUSY,
                memory_used_bytes=[6.0 * GIB] * 20 + [30.0 * GIB] * 20,
                memory_reserved_bytes=[0.5 * GIB] * 40,
            ),
        ),
        ("device_shared", "warning", with_facts(processes=[GpuProcess(pid=4321)])),
        ("device_shared", "warning", with_facts(mps_processes=[GpuProcess(pid=4321)])),
        ("throttled", "warning", throttled(thermal=0.10, power=0.0)),
        ("throttled", "severe", throttled(thermal=0.40, power=0.0)),
        ("throttled", "warning", changed(rounds={"clock_event_reasons": ["power cap", "thermal (hardware)"]})),
        ("power_limited", "note", throttled(thermal=0.0, power=0.90)),
        ("link_below_maximum", "warning", linked(4, 16)),
        ("link_below_maximum", "warning", linked(5, 8)),
        ("device_errors", "severe", changed(rounds={"ecc_uncorrected": 1})),
        ("device_errors", "warning", changed(xids=[(5, 31)])),
        ("energy_doubtful", "warning", changed(rounds={"energy_joules": 650.0 * ROUND_SECONDS})),
        ("energy_doubtful", "warning", changed(rounds={"energy_problem": "the counter stood still"})),
    ],
)
def test_each_doubt_is_raised_with_its_severity_and_a_remedy(name, severity, record):
    [check] = doubts(record)
    assert (check.name, check.severity) == (name, severity)
    assert record.devices[0].id in check.message
    assert check.remedy


@pytest.mark.parametrize(
    "record",
    [
        GPU,
        with_series(utilization_percent=IDLE_THEN_BUSY),
        # what the launch before left behind is gone within the driver's averaging time
        with_series(utilization_percent=[90.0] * 8 + [0.0] * 12 + [97.0] * 20),
        # a driver that does not tell its own memory apart holds this much on an idle device
        with_series(utilization_percent=IDLE_THEN_BUSY, memory_used_bytes=[0.6 * GIB] * 20 + [30.0 * GIB] * 20),
        with_facts(processes=[], mps_processes=[]),
        throttled(thermal=0.005, power=0.005),
        changed(rounds={"clock_event_reasons": ["power cap", "application clocks"]}),
        linked(5, 16),
        linked(1, 16, utilization_percent=None),  # an idle link is slow by design
        changed(rounds={"pcie_link_generation": 4, "pcie_link_width": 8}),  # nobody knows what it can do
        changed(rounds={"ecc_corrected": 7, "ecc_uncorrected": 0}),
        changed(rounds={"energy_joules": 500.0 * ROUND_SECONDS}),
        changed(rounds={"energy_joules": 500.0 * ROUND_SECONDS, "energy_source": "integrated power"}),
    ],
)
def test_what_is_within_its_limit_raises_no_doubt(record):
    assert doubts(record) == []


def test_a_reading_that_never_leaves_100_percent_is_doubted():
    stuck = doubts(with_series(utilization_percent=[100.0] * 40))
    assert {check.name: check.severity for check in stuck} == {
        "device_shared": "severe",  # it was busy before the launch used it
        "utilization_constant": "warning",
    }


def test_cores_that_are_always_busy_are_no_finding():
    [device] = make_record().telemetry.devices
    always = replace(device, series={"utilization_percent": [100.0] * len(device.time_ns)})
    record = make_record()
    assert doubts(replace(record, telemetry=replace(record.telemetry, devices=[always]))) == []


def test_throttling_that_is_not_known_in_every_round_is_not_added_up():
    [device] = GPU.telemetry.devices
    first = replace(device.rounds[0], throttle_ns={"thermal": 10**9})
    others = [replace(each, unavailable={"throttle_thermal_ns": "the counter fell"}) for each in device.rounds[1:]]
    one = replace(device, rounds=[first, *others])
    assert doubts(replace(GPU, telemetry=replace(GPU.telemetry, devices=[one]))) == []


@pytest.mark.parametrize(("counts", "found"), [([1, 1, 1], []), ([1, 2, 1], ["device_joined"]), ([None, 2, None], [])])
def test_a_process_that_joins_a_gpu_during_the_rounds_is_doubted(counts, found):
    [device] = GPU.telemetry.devices
    told = [{"processes": "no sample fell into it"} if count is None else {} for count in counts]
    rounds = [
        replace(each, processes=count, unavailable=why)
        for each, count, why in zip(device.rounds, counts, told, strict=True)
    ]
    record = replace(GPU, telemetry=replace(GPU.telemetry, devices=[replace(device, rounds=rounds)]))
    assert [check.name for check in doubts(record)] == found


def test_a_clock_that_nothing_explains_is_locked():
    (check,) = [check for check in doubts(clocked(1005)) if check.name == "clock_held_down"]
    assert check.severity == "warning"
    assert "1005 MHz of 1980" in check.message
    assert [check.name for check in doubts(clocked(1005, clock_event_reasons=["application clocks"]))] == [check.name]


@pytest.mark.parametrize(
    "record",
    [
        clocked(1600),
        clocked(1005, throttle_ns={"power": 10**9}),
        clocked(1005, clock_event_reasons=["power cap"]),
        clocked(1005, utilization_percent=20.0),
        changed(rounds={"utilization_percent": 99.0, "sm_clock_mhz": 1005.0}),  # of a GPU whose highest is not known
    ],
    ids=["near enough", "throttled", "capped", "not busy", "unknown"],
)
def test_a_clock_that_something_explains_is_not_said_to_be_locked(record: RunRecord):
    assert "clock_held_down" not in {check.name for check in doubts(record)}
