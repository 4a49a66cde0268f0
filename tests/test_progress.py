"""What a person sees while a run goes on: lines, and on a terminal the devices at work."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from rich.console import Console

from gpubench import progress
from gpubench.harness import registry
from gpubench.harness.gang.launch import Deadlines, Launch
from gpubench.spec.case import Device
from tests.builders import make_case, make_record
from tests.fakes import nvml
from tests.fakes.nvml.scenario import Scenario

H200 = Scenario.load("h200_8x").left_alone()
GPU = Device(kind="gpu", id="GPU-12345678-aaaa-bbbb-cccc-dddddddddddd", name="Test GPU", memory_bytes=80 * 2**30)


def launch_on(*devices: Device) -> Launch:
    fake = registry.framework("fake")
    return Launch(
        case=make_case("ranks", len(devices), framework="fake", device_kind=devices[0].kind),
        framework=fake,
        strategy=next(one for one in fake.strategies if one.name == "ranks"),
        python=sys.executable,
        devices=devices,
        deadlines=Deadlines(),
    )


def table(newest: dict[str, dict[str, float | None]], width: int = 100, device: Device = GPU) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(progress.device_table([device], newest, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_device_has_a_line_with_what_it_does():
    values = {"utilization_percent": 97.4, "memory_used_bytes": 41.25 * 2**30, "power_watts": 612.3}
    values |= {"temperature_celsius": 61.0, "sm_clock_mhz": 1755.0}
    _, line = table({GPU.id: values})
    assert re.split(r"\s{2,}", line.strip()) == [
        "GPU-12345678 Test GPU", "97 %", "41.2 of 80 GiB", "612 W", "61 °C", "1755 MHz",
    ]  # fmt: skip


def test_what_a_device_does_not_tell_is_a_dash_and_no_zero():
    _, line = table({GPU.id: {"utilization_percent": None, "power_watts": 0.0}})
    assert re.split(r"\s{2,}", line.strip()) == ["GPU-12345678 Test GPU", "-", "-", "0 W", "-", "-"]
    _, line = table({})
    assert line.count("-") == 1 + 5


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (60, ["device", "busy", "memory", "power", "temp.", "clock"]),
        (40, ["device", "busy", "memory"]),
        (20, ["device", "busy"]),
        (5, ["devi…"]),
    ],
)
def test_where_it_is_narrow_whole_columns_are_left_out_from_the_right(width, columns):
    values = {"utilization_percent": 97.4, "memory_used_bytes": 41.25 * 2**30, "power_watts": 612.3}
    values |= {"temperature_celsius": 61.0, "sm_clock_mhz": 1755.0}
    head, line = table({GPU.id: values}, width)
    assert head.split() == columns
    assert len(line) <= width
    assert "…" not in line.partition(" 97 %")[2]


def test_the_name_of_a_device_is_no_markup():
    assert "[/b] :x: GPU" in table({}, device=replace(GPU, name="[/b] :x: GPU"))[1]


def test_a_stream_that_the_shell_has_closed_is_no_terminal_and_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert not progress.for_terminal(sys.stderr)
    progress.LineProgress().note("to nobody")


def test_the_screen_stands_still_while_steps_are_timed_and_ticks_while_they_are_not(monkeypatch):
    monkeypatch.setattr(progress, "REDRAW_SECONDS", 0.01)
    stream = io.StringIO()
    launch = launch_on(GPU)
    with progress.LiveProgress(stream, lambda: {GPU.id: {"power_watts": 333.0}}) as shown:
        shown.expect(1)
        shown.phase(launch, "round", 1234.5)
        assert "1,234.5 samples/s on GPUs" in stream.getvalue()
        assert "333 W" in stream.getvalue()
        time.sleep(0.05)  # for a tick that was under way
        before = len(stream.getvalue())
        time.sleep(0.2)
        assert len(stream.getvalue()) == before
        shown.phase(launch, "stop")
        wait_until(lambda: stream.getvalue().count("stopping") >= 3)
        shown.finished(make_record(launch.case))
    assert "[1/1] resnet20-fake-ranks-1x32-fp32: 100.0 samples/s on GPUs (0 s)\n" in stream.getvalue()


def test_the_time_left_is_that_of_the_launches_so_far(monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    lines: list[str] = []
    shown = progress.LineProgress(total=3, write=lines.append)
    shown.phase(launch_on(GPU), "start")
    now = 110.0
    shown.finished(make_record())
    assert lines[-1].endswith("(10 s; about 20 s left)")
    shown.phase(launch_on(GPU), "start")
    now = 130.0
    shown.finished(make_record())
    assert lines[-1].endswith("(20 s; about 15 s left)")
    shown.finished(make_record())
    assert lines[-1].endswith(" s)"), "nothing is left"


def wait_until(holds, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def box(tmp_path):
    """The environment of a machine with 8 H200."""
    environment = nvml.environment(nvml.build(tmp_path / "nvml", H200.missing), H200)
    fake = {"step_seconds": 0.05, "real_time": True}
    return {**os.environ, **environment, "GPUBENCH_FAKE": json.dumps(fake), "TERM": "xterm"}


WORDS = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "8", "--launches", "1", "--no-paired")


def test_on_a_terminal_each_gpu_at_work_has_a_line(box, tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "gpubench.cli", *WORDS, "--results", str(tmp_path)]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs, env=box)
    os.close(theirs)
    said = b""
    while received := _read(ours):
        said += received
    shown = said.decode()
    assert process.wait(60) == 0, shown
    for device in H200.devices:
        busy = re.findall(
            rf"{device.id[:12]} {device.name} +(\d+) % +[\d.]+ of \d+ GiB +(\d+) W +\d+ °C +\d+ MHz", shown
        )
        assert busy, device.id
    assert re.search(r"measuring, [\d,.]+ samples/s on GPUs", shown)
    hides, shows = ([each.start() for each in re.finditer(code, shown)] for code in (r"\x1b\[\?25l", r"\x1b\[\?25h"))
    assert shows, "the cursor is shown"
    assert all(any(0 < there - gone < 20 for there in shows) for gone in hides), "at once: who kills us leaves it so"


def test_elsewhere_there_are_plain_lines(box, tmp_path):
    command = [sys.executable, "-m", "gpubench.cli", *WORDS, "--results", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=box, check=False)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    assert re.search(r"^\[1/3\] resnet50-fake-\S+: [\d,.]+ samples/s on GPUs", done.stderr, re.MULTILINE)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: the other side is closed
        return b""
