"""Limits that a shell, a container or a scheduler sets: the launch's record says which, and what to do."""

import errno
import re
import resource
import signal
from pathlib import Path

import pytest

from gpubench.harness import outcomes
from gpubench.harness.outcomes import Ending, cannot_start, judge

FEW = ("--strategies", "single", "--devices", "1", "--launches", "2")
MIB = 1 << 20


def limited(which, amount):
    return lambda: resource.setrlimit(which, (amount, amount))


def assert_told(done):
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.strip()


def test_little_address_space_loses_no_finished_launch(harness):
    done = harness.run(*harness.bench(*FEW), preexec_fn=limited(resource.RLIMIT_AS, 400 * MIB))
    assert_told(done)
    records = harness.records()
    assert [record.outcome.status for record in records] == ["ok", "ok"]
    assert all("ulimit -v" in record.telemetry.series_inside for record in records if record.telemetry.devices)


def test_few_open_files_end_in_a_record_that_says_so(harness):
    done = harness.run(*harness.bench(*FEW), preexec_fn=limited(resource.RLIMIT_NOFILE, 16))
    assert_told(done)
    assert done.returncode == 0 or "ulimit -n" in done.stderr or "Too many open files" in done.stderr


def test_files_of_a_limited_size_keep_the_records_that_fit(harness):
    done = harness.run(*harness.bench(*FEW, "--launches", "40"), preexec_fn=limited(resource.RLIMIT_FSIZE, 64 << 10))
    assert done.returncode == 1
    assert_told(done)
    assert "File too large" in done.stderr
    assert len(harness.records()) >= 1
    harness.assert_nothing_left()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SIGXCPU", "ulimit -t"),
        ("SIGBUS", "/dev/shm"),
        ("SIGKILL", "kill"),
    ],
)
def test_the_signal_that_ended_a_worker_has_its_remedy(harness, name, words):
    fake = {"misbehave": {"rank": 0, "phase": "step", "how": "signal", "signal": int(signal.Signals[name])}}
    done = harness.run(*harness.bench(*FEW[:-1], "1"), fake=fake)
    assert done.returncode == 1
    (record,) = harness.records()
    assert record.outcome.status == "rank_died"
    assert name in record.outcome.message
    assert words in record.outcome.remedy


def test_a_worker_that_the_kernel_killed_for_want_of_memory_is_out_of_memory():
    killed = Ending(rank=1, exit_code=-9, last_words=None, log=Path("log"), oom_kills=1)
    outcome = judge([killed], "round")
    assert outcome.status == "oom"
    assert "want of memory" in outcome.message
    assert "per-device-batch" in outcome.remedy


def test_the_kernels_count_of_such_kills_is_read(tmp_path):
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 1\noom_kill 7\n")
    assert outcomes.oom_kills(vmstat) == 7
    assert outcomes.oom_kills(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("number", "file", "remedy"),
    [
        (errno.ENOSPC, "/tmp/gpubench-run-x", "TMPDIR"),
        (errno.EMFILE, None, "ulimit -n"),
        (errno.EAGAIN, None, "ulimit -u"),
        (errno.ENOENT, "/opt/python", "gpubench setup torch"),
        (errno.EACCES, "/results/x.log", "limits"),
    ],
)
def test_what_kept_a_launch_from_starting_is_named_with_its_remedy(number, file, remedy):
    outcome = cannot_start(OSError(number, "no", file), Path("/opt/python"), "torch")
    assert outcome.status == "failed"
    assert re.search(remedy, outcome.remedy)
    assert ("gpubench setup" in outcome.remedy) == (file == "/opt/python")
