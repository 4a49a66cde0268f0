"""The sampler's life: it starts, fails, hangs and ends without harming the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gpubench.spec.case import Device
from gpubench.spec.record import GPU_METRICS, METRICS
from gpubench.telemetry import sampler as sampler_module
from gpubench.telemetry.readings import Readings, Sweep
from gpubench.telemetry.sampler import Sampler
from gpubench.telemetry.sampling import EDGE, PAUSE, RESUME, STOP, Commands, fitting_period_ns, run_schedule
from gpubench.telemetry.source import Header, Sample
from tests.fakes.nvml import gpu
from tests.telemetry.helpers import LONG_SECONDS, loading, make_round, wait_until

CORE = Device(kind="cpu", id="core 0", name="CPU", cores=(0,))


def wait_for_samples(sampler: Sampler, devices: list[Device], n_samples: int = 5) -> None:
    deadline = time.monotonic() + LONG_SECONDS
    while len(sampler.telemetry(devices, [], 0, 2**63 - 1).devices[0].time_ns) < n_samples:
        assert time.monotonic() < deadline


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + LONG_SECONDS
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_a_cpu_share_is_sampled_while_it_works(tmp_path: Path):
    with Sampler([CORE], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [CORE], n_samples=1)
        since_ns = time.monotonic_ns()
        time.sleep(1)
        until_ns = time.monotonic_ns()
        one_round = make_round(since_ns / 1e9, until_ns / 1e9)
        telemetry = sampler.telemetry([CORE], [one_round], since_ns, until_ns)
    (device,) = telemetry.devices
    assert (telemetry.source, telemetry.reason, telemetry.period_seconds) == ("cpu", None, 0.02)
    assert device.rounds[0].samples == len(device.time_ns)
    assert device.rounds[0].utilization_percent is not None
    assert 0 <= device.rounds[0].utilization_percent <= 100
    assert all(device.series.get(metric) or metric in device.unavailable for metric in METRICS)


def test_a_missing_library_is_a_reason_and_nothing_else(tmp_path: Path):
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("this machine has an NVIDIA driver")
    with Sampler([gpu(0)], tmp_path) as sampler:
        telemetry = sampler.telemetry([gpu(0)], [make_round(1, 2)], 0, time.monotonic_ns())
    assert "Library Not Found" in (telemetry.reason or "")
    assert telemetry.devices == []


def test_a_gpu_of_an_unknown_uuid_has_reasons_and_the_others_have_figures(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml, count=1), Sampler([gpu(5), gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        unknown, known = sampler.telemetry([gpu(5), gpu(0)], [], 0, time.monotonic_ns()).devices
    assert set(unknown.unavailable) == {*METRICS, *GPU_METRICS, "gpm", "xids"}
    assert "could not be opened" in unknown.unavailable["power_watts"]
    assert known.unavailable == {}


def test_a_gpu_that_falls_off_the_bus_leaves_what_was_read_before(fake_nvml: Path, tmp_path: Path):
    devices = [gpu(0), gpu(1)]
    with loading(fake_nvml, count=2, lost="1@400"), Sampler(devices, tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, devices)
        wait_until(lambda: sampler.latest()[gpu(1).id]["temperature_celsius"] is None)
        healthy, lost = sampler.telemetry(devices, [], 0, time.monotonic_ns()).devices
    temperatures = lost.series["temperature_celsius"]
    assert (temperatures[0], temperatures[-1]) == (41, None)
    assert "GPU is lost" in lost.unavailable["temperature_celsius"]
    assert healthy.unavailable == {}
    assert None not in healthy.series["temperature_celsius"]


def test_a_call_that_fails_is_missing_and_explained(fake_nvml: Path, tmp_path: Path):
    with (
        loading(fake_nvml, fail="nvmlDeviceGetTemperatureV=999@10"),
        Sampler([gpu(0)], tmp_path, 0.02) as sampler,
    ):
        wait_for_samples(sampler, [gpu(0)])
        wait_until(lambda: sampler.latest()[gpu(0).id]["temperature_celsius"] is None)
        (device,) = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns()).devices
    celsius = device.series["temperature_celsius"]
    n_good = sum(value is not None for value in celsius)
    assert n_good > 0
    assert celsius[:n_good] == [40] * n_good  # and only missing ones behind them
    assert set(device.unavailable) == {"temperature_celsius"}
    assert "NVML: Unknown Error (error 999)" in device.unavailable["temperature_celsius"]


def test_a_sampler_that_is_killed_leaves_its_samples_and_a_reason(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        assert sampler.pid
        os.kill(sampler.pid, signal.SIGKILL)
        wait_until_gone(sampler.pid)
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert telemetry.reason == "the sampler ended with SIGKILL"
    assert len(telemetry.devices[0].time_ns) >= 5


def test_a_sampler_that_cannot_write_says_what_it_died_of(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)], n_samples=20)
        assert sampler.pid
        # Its files may not grow any more, in the middle of a line: what a full disk does to a writer.
        size = max(path.stat().st_size for path in tmp_path.iterdir()) + 10
        psutil.Process(sampler.pid).rlimit(psutil.RLIMIT_FSIZE, (size, size))
        wait_until_gone(sampler.pid)
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert "the sampler ended with exit code 1" in (telemetry.reason or "")
    assert "File too large" in (telemetry.reason or "")
    assert len(telemetry.devices[0].time_ns) >= 20


def test_a_folder_that_is_not_there_is_a_reason(tmp_path: Path):
    with Sampler([gpu(0)], tmp_path / "absent") as sampler:
        assert "could not be started" in (sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns()).reason or "")


def test_a_device_that_the_sampler_was_not_told_of_is_named(tmp_path: Path):
    other = Device(kind="cpu", id="core 7", name="CPU", cores=(7,))
    with Sampler([CORE], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [CORE], n_samples=1)
        assert "core 7" in (sampler.telemetry([CORE, other], [], 0, time.monotonic_ns()).reason or "")


def test_a_call_that_never_returns_ends_neither_the_run_nor_its_end(
    fake_nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sampler_module, "SILENCE_SECONDS", 0.2)
    with loading(fake_nvml, hang="nvmlDeviceGetFieldValues@80"), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        time.sleep(2)
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert "fell silent" in (telemetry.reason or "")
    assert len(telemetry.devices[0].time_ns) >= 5
    assert sampler.pid
    assert not psutil.pid_exists(sampler.pid)


def test_a_driver_that_hangs_at_the_start_is_a_reason(fake_nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sampler_module, "START_SECONDS", 0.5)
    with loading(fake_nvml, hang="nvmlInit"), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert "has not answered" in (telemetry.reason or "")
    assert telemetry.devices == []


def test_a_sampler_that_was_stopped_still_tells_what_it_saw(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)])
    sampler.stop()  # again, to no effect
    telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns())
    assert telemetry.reason is None
    assert len(telemetry.devices[0].time_ns) >= 5


def test_the_newest_values_are_there_for_a_live_view(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml, count=2), Sampler([gpu(0), gpu(1)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0), gpu(1)])
        latest = sampler.latest()
    assert set(latest) == {gpu(0).id, gpu(1).id}
    assert set(latest[gpu(1).id]) == {*METRICS, *GPU_METRICS}
    assert latest[gpu(1).id]["temperature_celsius"] == 41


def test_a_live_view_reads_only_what_was_added_and_a_gauge_keeps_its_value(tmp_path: Path):
    path = tmp_path / "samples.jsonl"
    readings = Readings(path)

    def sweep(time_ns: int, values: dict[str, float]) -> bytes:
        cost = {"time_ns": time_ns, "took_ns": 1, "late_ns": 0, "cpu_ns": 1}
        return json.dumps({"samples": [Sample(time_ns, "GPU-1", values)], "sweep": cost}).encode() + b"\n"

    everything = {"power_watts": 100, "temperature_celsius": 41, "pcie_tx_bytes": 7}
    path.write_bytes(sweep(1, everything))
    readings.update()
    assert readings.newest() == {"GPU-1": everything}
    first_line, second_line = path.stat().st_size, sweep(2, {"power_watts": 200})
    path.write_bytes(b"x" * first_line + second_line[:-1])  # whoever read the first one again would fail
    readings.update()
    assert readings.newest() == {"GPU-1": everything}, "a line without its end is not there yet"
    path.write_bytes(b"x" * first_line + second_line)
    readings.update()
    assert readings.newest() == {"GPU-1": {"power_watts": 200, "temperature_celsius": 41, "pcie_tx_bytes": None}}


@pytest.mark.parametrize(("capability", "power"), [("8.0", "instantaneous"), ("8.6", "average of the last second")])
def test_what_is_read_is_told(old_nvml: Path, tmp_path: Path, capability: str, power: str):
    # nvml.h: nvmlDeviceGetPowerUsage averages on Ampere except GA100 (compute capability 8.0), and on what came later.
    with loading(old_nvml, capability=capability), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)], n_samples=1)
        methods = sampler.methods()[gpu(0).id]
    assert methods["power_watts"] == power
    assert methods["memory_used_bytes"] == "in use, with what the driver reserves"


PARENT = """
import os, sys, time
from pathlib import Path
from gpubench.telemetry.sampler import Sampler
from tests.fakes.nvml import gpu
sampler = Sampler([gpu(0)], Path(sys.argv[1]), 0.02)
sampler.start()
deadline = time.monotonic() + 20
while not any(sampler.latest().values()):
    assert time.monotonic() < deadline
    time.sleep(0.02)
heir = os.fork()  # holds on to the pipe to the sampler, as a forked data loader would
if heir:
    print(sampler.pid, heir, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("hang", ["", "nvmlDeviceGetFieldValues@80"], ids=["sampling", "hanging in the driver"])
@pytest.mark.parametrize("heir_lives", [False, True], ids=["pipe closed", "pipe held by another"])
def test_the_sampler_ends_when_its_parent_is_killed(fake_nvml: Path, tmp_path: Path, hang: str, heir_lives: bool):
    with loading(fake_nvml, hang=hang):
        parent = subprocess.Popen([sys.executable, "-c", PARENT, tmp_path], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        pid, heir = map(int, parent.stdout.readline().split())
        assert psutil.pid_exists(pid)
        if not heir_lives:
            os.kill(heir, signal.SIGKILL)
        parent.kill()
    try:
        wait_until_gone(pid)
    finally:
        if heir_lives:
            os.kill(heir, signal.SIGKILL)


def test_the_sampler_outlives_the_thread_that_started_it(fake_nvml: Path, tmp_path: Path):
    sampler = Sampler([gpu(0)], tmp_path, 0.02)
    thread = threading.Thread(target=sampler.start)
    with loading(fake_nvml):
        thread.start()
        thread.join()
    try:
        wait_for_samples(sampler, [gpu(0)], n_samples=20)
    finally:
        sampler.stop()


@pytest.fixture
def pipe() -> Iterator[tuple[Commands, Callable[[str], object]]]:
    """Commands, and who gives them."""
    reader, writer = os.pipe()
    yield Commands(reader), lambda command: os.write(writer, f"{command}\n".encode())
    os.close(reader)
    os.close(writer)


def test_missed_ticks_are_skipped_and_the_schedule_is_kept(pipe: tuple[Commands, Callable[[str], object]]):
    (commands, give), times = pipe, []
    period_ns = 20_000_000

    def sweep(edge: bool, late_ns: int) -> None:
        times.append(time.monotonic_ns())
        if len(times) == 3:
            time.sleep(0.05)  # misses two ticks
        if len(times) == 8:
            give(STOP)

    start_ns = time.monotonic_ns()
    run_schedule(sweep, period_ns, commands)
    ticks = [(t - start_ns) // period_ns for t in times]
    assert len(set(ticks)) == 8, "no two sweeps within one tick"
    assert ticks[3] - ticks[2] >= 3


def test_an_edge_is_swept_at_once_and_nothing_is_swept_in_a_pause(pipe: tuple[Commands, Callable[[str], object]]):
    (commands, give), edges = pipe, []

    def sweep(edge: bool, late_ns: int) -> None:
        edges.append(edge)

    for command in (EDGE, PAUSE, EDGE, RESUME, EDGE, STOP):
        give(command)
    run_schedule(sweep, 60 * 10**9, commands)
    assert edges == [True, True]


def test_a_driver_that_is_too_slow_for_the_period_makes_it_longer():
    class Slow:
        def sweep(self, edge: bool = False) -> list[Sample]:
            time.sleep(0.05)
            return []

        def header(self) -> Header:
            return Header(source="slow")

        def close(self) -> None: ...

    # A sweep may take a fifth of the period.
    assert fitting_period_ns([Slow()], 100_000_000) >= 250_000_000
    assert fitting_period_ns([], 100_000_000) == 100_000_000


def test_a_slow_call_leaves_the_fast_sweep_and_is_named(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml, slow="nvmlDeviceGetFieldValues=3000"), Sampler([gpu(0)], tmp_path, 0.1) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        cost = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns()).cost
    assert cost is not None
    assert cost.slowed_calls == ["fields at every sweep"]
    assert cost.call_seconds["fields at every sweep"] >= 0.003
    assert cost.sweeps > 0
    assert (cost.sweep_seconds_p99 or 0) >= (cost.sweep_seconds_p50 or 0) > 0


def test_an_xid_is_told_with_its_time(fake_nvml: Path, tmp_path: Path):
    at = time.monotonic() + 1
    with loading(fake_nvml, xid=79, xid_at=at), Sampler([gpu(0)], tmp_path, 0.05) as sampler:
        wait_until(lambda: time.monotonic() > at + 0.5 and bool(sampler.latest()))
        one_round = make_round(at - 0.5, time.monotonic())
        telemetry = sampler.telemetry([gpu(0)], [one_round], 0, time.monotonic_ns())
    (xid,) = telemetry.devices[0].xids
    assert xid[1] == 79
    assert at <= xid[0] / 1e9
    assert telemetry.devices[0].rounds[0].xids == [79]


def test_a_utilisation_and_a_power_that_cannot_be_are_missing_and_explained(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml, garbage=1), Sampler([gpu(0)], tmp_path, 0.05) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        (device,) = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns()).devices
    assert set(device.series["utilization_percent"]) == {None}
    assert set(device.series["power_watts"]) == {None}
    assert "250 %" in device.unavailable["utilization_percent"]
    assert "all bits set" in device.unavailable["power_watts"]


def test_a_pause_leaves_a_hole_and_its_round_shows_what_sampling_costs(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        sampler.pause()
        time.sleep(0.2)  # for a sweep under way
        since_ns = time.monotonic_ns()
        time.sleep(0.5)
        until_ns = time.monotonic_ns()
        sampler.resume()
        control = make_round(since_ns / 1e9, until_ns / 1e9)
        wait_until(lambda: max(sampler.telemetry([gpu(0)], [], 0, 2**63 - 1).devices[0].time_ns) > until_ns)
        telemetry = sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns(), control=control)
    assert [t for t in telemetry.devices[0].time_ns if since_ns <= t <= until_ns] == []
    assert telemetry.control == control
    assert telemetry.cost is not None
    assert telemetry.cost.dropped_ticks < 15, "the 25 ticks of the pause are not dropped ones"


def test_a_sweep_that_reaches_into_the_control_round_takes_it_away(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, 0.02) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        sampler.pause()
        time.sleep(0.2)  # for a sweep under way
        since_ns = time.monotonic_ns()
        time.sleep(0.3)
        control = make_round(since_ns / 1e9, time.monotonic_ns() / 1e9)
        sampler.resume()
        for took_ns, is_kept in ((5_000_000, True), (100_000_000, False)):
            sampler._readings.sweeps.append(Sweep(time_ns=since_ns + 1, took_ns=took_ns, late_ns=0))
            assert (sampler.telemetry([gpu(0)], [], 0, time.monotonic_ns(), control).control == control) == is_kept


def test_a_sampler_that_reads_no_orders_any_more_holds_nobody_up(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml), Sampler([gpu(0)], tmp_path, 0.05) as sampler:
        wait_for_samples(sampler, [gpu(0)])
        assert sampler.pid is not None
        os.kill(sampler.pid, signal.SIGSTOP)
        stuck = threading.Thread(target=lambda: [sampler.pause() for _ in range(20_000)], daemon=True)
        stuck.start()  # 120 kB of orders; a pipe holds 64
        stuck.join(LONG_SECONDS)
        assert not stuck.is_alive()
        os.kill(sampler.pid, signal.SIGCONT)


def test_a_slow_driver_is_waited_for_before_the_first_round(fake_nvml: Path, tmp_path: Path):
    with loading(fake_nvml, slow="nvmlInit=1500000"), Sampler([gpu(0)], tmp_path, 0.05) as sampler:
        sampler.wait_until_ready()
        start = time.monotonic()
        sampler.edge()
        time.sleep(0.5)
        sampler.edge()
        one = make_round(start, time.monotonic())
        (device,) = sampler.telemetry([gpu(0)], [one], 0, time.monotonic_ns()).devices
    assert device.rounds[0].samples > 5


def test_the_sampler_process_imports_nothing_heavy():
    modules = ", ".join(f"gpubench.telemetry.{name}" for name in ("sampling", "nvml_source", "cpu"))
    code = f"import sys, {modules}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "pandas", "scipy", "matplotlib", "rich", "torch", "tensorflow", "mxnet", "pynvml"}
    assert not heavy & set(done.stdout.split())
