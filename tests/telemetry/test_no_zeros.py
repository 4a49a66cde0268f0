"""No figure out of nothing: constant counters, lost GPUs and refused fields, from the driver to tables and exports."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.analysis.checks import doubts
from gpubench.analysis.reduced import reduced
from gpubench.analysis.scaling import summarize
from gpubench.analysis.usage import usage
from gpubench.files import store
from gpubench.spec.record import Check, RoundTelemetry, RunRecord
from gpubench.telemetry.readings import Readings
from gpubench.telemetry.sampler import Sampler
from gpubench.telemetry.source import Sample
from tests.builders import make_case, make_launches, make_record
from tests.fakes.nvml import gpu
from tests.fakes.nvml.scenario import Scenario
from tests.telemetry.helpers import loading, make_round, wait_until

TWO = make_case("ddp", 2, device_kind="gpu")
H200 = Scenario.load("h200_8x").but(count=2)
EMPTY = {"utilization_percent": None, "memory_used_bytes": None, "power_watts": None, "energy_joules": None}


def changed(record: RunRecord, device: int, **figures: object) -> RunRecord:
    """With other figures in all rounds of a device."""
    devices = list(record.telemetry.devices)
    rounds: list[RoundTelemetry] = [replace(each, **figures) for each in devices[device].rounds]  # type: ignore[arg-type]
    devices[device] = replace(devices[device], rounds=rounds)
    return replace(record, telemetry=replace(record.telemetry, devices=devices))


def test_a_zero_that_cannot_be_is_no_figure(tmp_path: Path):
    path = tmp_path / "samples.jsonl"
    values = {
        "power_watts": 0,
        "sm_clock_mhz": 0,
        "temperature_celsius": 0,
        "utilization_percent": 0,
        "ecc_corrected": 0,
    }
    sweep = {"time_ns": 1, "took_ns": 1, "late_ns": 0}
    path.write_text(json.dumps({"samples": [Sample(1, "GPU-1", values)], "sweep": sweep}) + "\n")
    readings = Readings(path)
    readings.update()
    zero = {"utilization_percent": 0, "ecc_corrected": 0}
    assert readings.newest()["GPU-1"] == {**dict.fromkeys(values), **zero}
    assert readings.window("GPU-1", 0, 2).problems["power_watts"] == "it read 0, which cannot be"


def test_what_is_known_of_one_device_is_not_the_cases():
    record = make_record(TWO, utilization_percent=90.0, power_watts=500.0)
    whole, half = usage([reduced(record).used]), usage([reduced(changed(record, 1, **EMPTY)).used])
    assert (whole.utilization_percent, whole.power_watts) == (90.0, 1000.0)
    assert (half.utilization_percent, half.utilization_percent_max, half.power_watts) == (None, None, None)
    assert half.joules_per_sample is None
    assert half.memory_of == "process"  # the workers' own peak, and not the other GPU's


def test_a_device_of_which_nothing_could_be_read_is_a_doubt():
    record = make_record(TWO, power_watts=500.0)
    (check,) = [check for check in doubts(changed(record, 1, **EMPTY)) if check.name == "device_unread"]
    assert record.devices[1].id in check.message
    assert record.devices[0].id not in check.message


def test_a_device_that_takes_no_energy_has_not_been_measured():
    record = make_record(TWO, power_watts=500.0)
    none = usage([reduced(changed(record, 0, energy_joules=0.0, power_watts=0.0)).used])
    assert (none.joules_per_sample, none.power_watts) == (None, None)


@pytest.mark.parametrize("name", ["replicas_differ", "device_shared"])
def test_a_number_that_is_taken_away_takes_its_energy_along(name: str):
    check = Check(name=name, severity="severe", message="as the test says")
    (good,) = summarize(make_launches(TWO, [100.0] * 3, power_watts=500.0))
    (bad,) = summarize(make_launches(TWO, [100.0] * 3, power_watts=500.0, checks=[check]))
    assert good.joules_per_sample is not None
    assert (bad.samples_per_second, bad.joules_per_sample, bad.usage.joules_per_sample) == (None, None, None)


def test_a_gpu_that_is_lost_between_its_opening_and_its_first_reading_is_a_doubt(fake_nvml: Path, tmp_path: Path):
    devices = H200.devices
    trigger = tmp_path / "now"
    with loading(fake_nvml, H200, lost="1@0", trigger=str(trigger)), Sampler(devices, tmp_path, 0.05) as sampler:
        wait_until(sampler.latest)
        trigger.touch()
        time.sleep(0.3)
        since_ns = time.monotonic_ns()
        sampler.edge()
        start = time.monotonic()
        time.sleep(1)
        one = make_round(start, time.monotonic())
        sampler.edge()
        telemetry = sampler.telemetry(devices, [one], since_ns, time.monotonic_ns())
    record = replace(make_record(TWO), devices=devices, rounds=[one], telemetry=telemetry)
    (check,) = [check for check in doubts(record) if check.name == "device_unread"]
    assert devices[1].id in check.message
    assert "GPU is lost" in check.message
    assert usage([reduced(record).used]).utilization_percent is None


def test_an_xid_of_a_gpu_that_the_launch_did_not_use_is_in_its_record(fake_nvml: Path, tmp_path: Path):
    at = time.monotonic() + 2
    scenario = H200.but_each("xid", [0, 79]).but(xid_at=at)
    with loading(fake_nvml, scenario), Sampler([gpu(0)], tmp_path, 0.05) as sampler:
        wait_until(lambda: time.monotonic() > at + 1.2 and bool(sampler.latest()))
        assert set(sampler.latest()) == {gpu(0).id}
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert [(id, code) for id, _, code in telemetry.other_xids] == [(gpu(1).id, 79)]
    assert telemetry.devices[0].xids == []
    (check,) = [c for c in doubts(replace(make_record(), telemetry=telemetry)) if c.name == "other_device_errors"]
    assert check.message == f"{gpu(1).id} reported Xid 79, while this launch ran on other devices"


@pytest.mark.parametrize(
    "settings",
    [
        {"refresh": 1e6},  # power and the energy counter never move
        {"field_errors.83": 3, "errors.nvmlDeviceGetTotalEnergyConsumption": 3, "garbage": 1},
        {"field_errors.83": 999, "field_errors.186": 999, "errors.nvmlDeviceGetPowerUsage": 999},
    ],
    ids=["constant counter", "no counter and no power", "refused fields"],
)
def test_no_table_and_no_export_says_that_training_took_no_energy(
    fake_nvml: Path, gpubench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, float]
):
    monkeypatch.setenv("GPUBENCH_FAKE", json.dumps({"step_seconds": 0.05, "real_time": True}))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with loading(fake_nvml, H200, busy_share=0, **settings):
        words = ("--frameworks", "fake", "--strategies", "single", "--devices", "1", "--launches", "1", "--no-paired")
        done = gpubench("run", *words)
    assert done.returncode in (0, 1), done.stderr  # 1: a stuck reading may take the number away
    (row,) = csv.DictReader(io.StringIO(gpubench("show", "last", "--format", "csv").stdout))
    assert row["joules_per_sample"] == "" or float(row["joules_per_sample"]) > 0
    written = gpubench("export", "last", "--format", "prometheus").stdout.split()
    gauges = "".join((tmp_path / name).read_text() for name in written)
    assert "gpubench_samples_per_second{" in gauges or done.returncode == 1
    values = [float(line.split()[1]) for line in gauges.splitlines() if line.startswith("gpubench_joules_per_sample{")]
    assert all(value > 0 for value in values)
    records = store.load(store.find("last", tmp_path / "results")).records
    for device in records[0].telemetry.devices:
        for figures in device.rounds:
            assert figures.energy_joules != 0
            assert figures.energy_joules is not None or "energy_joules" in {**device.unavailable, **figures.unavailable}
    assert "0 J/sample" not in done.stdout
