"""A launch that goes wrong ends with the right outcome, within its deadline, and leaves nothing behind."""

import signal
import subprocess
import sys
import time

import pytest

from gpubench.files import store
from gpubench.harness.gang.launch import Deadlines

pytestmark = pytest.mark.usefixtures("no_process_left")
# When the fake is to misbehave so that it happens in a phase. It is steady after 11 steps.
WHEN = {
    "start": {"phase": "start"},
    "build": {"phase": "build"},
    "warm_up": {"phase": "step"},
    "round": {"phase": "step", "after_steps": 12},
    "stop": {"phase": "stop"},
}
HASTY = Deadlines(start=20, build=3, first_step=3, step=1, stop=3)


@pytest.mark.parametrize("phase", ["start", "build", "warm_up", "round", "stop"])
def test_a_rank_that_is_killed_is_named_with_its_phase(fake, run_fake, phase):
    fake(misbehave={"rank": 1, "how": "die", **WHEN[phase]})
    outcome = run_fake("ranks", 2).outcome
    if phase == "stop":  # its last word was said: the numbers are in
        assert outcome.status == "ok"
        return
    assert (outcome.status, outcome.rank, outcome.phase) == ("rank_died", 1, phase)
    assert "Rank 1 of 2 ended with signal 9 (SIGKILL)" in outcome.message
    assert outcome.remedy


@pytest.mark.parametrize("phase", ["start", "build", "round"])
def test_a_rank_that_raises_is_named_with_its_error_and_the_end_of_its_log(fake, run_fake, phase):
    fake(misbehave={"rank": 1, "how": "raise", "message": "the moon is full", **WHEN[phase]})
    outcome = run_fake("ranks", 2).outcome
    assert (outcome.status, outcome.rank, outcome.phase) == ("failed", 1, phase)
    assert "the moon is full" in outcome.message
    assert any("the moon is full" in line for line in outcome.log_tail)


@pytest.mark.parametrize("how", ["hang", "stop"])
@pytest.mark.parametrize("phase", ["build", "warm_up", "round"])
def test_a_rank_that_hangs_or_is_stopped_times_out_and_is_named(fake, run_fake, how, phase):
    fake(misbehave={"rank": 1, "how": how, **WHEN[phase]})
    outcome = run_fake("ranks", 2, deadlines=HASTY).outcome
    assert (outcome.status, outcome.rank, outcome.phase) == ("timeout", 1, phase)
    assert "Rank 1 of 2 has not finished" in outcome.message
    assert ("is stopped" in outcome.message) == (how == "stop")


@pytest.mark.parametrize("how", ["out_of_memory", "allocate"])
def test_a_rank_that_runs_out_of_memory_is_told_from_one_that_died(fake, run_fake, how):
    fake(misbehave={"rank": 0, "phase": "build", "how": how})
    outcome = run_fake("ranks", 2).outcome
    assert (outcome.status, outcome.rank) == ("oom", 0)
    assert "per-device-batch" in outcome.remedy


def test_a_rank_that_leaves_without_a_word_has_died(fake, run_fake):
    fake(misbehave={"rank": 0, "phase": "step", "how": "exit", "code": 3})
    outcome = run_fake("ranks", 2).outcome
    assert outcome.status == "rank_died"
    assert "exit code 3" in outcome.message


def test_a_rank_that_prints_megabytes_goes_on(fake, run_fake, tmp_path):
    fake(misbehave={"rank": 0, "phase": "step", "how": "flood", "megabytes": 8})
    assert run_fake("single", 1).outcome.status == "ok"
    assert max(log.stat().st_size for log in tmp_path.glob("*.log")) > 8 << 20


def test_children_of_a_rank_end_with_it(fake, run_fake):
    fake(misbehave={"rank": 0, "phase": "step", "how": "fork"})
    assert run_fake("single", 1).outcome.status == "ok"


def test_the_record_of_a_failed_launch_keeps_what_was_known(fake, run_fake):
    fake(misbehave={"rank": 0, "phase": "step", "how": "die", "after_steps": 25})
    record = run_fake("single", 1)
    assert record.outcome.status == "rank_died"
    assert record.warmup is not None
    assert len(record.rounds) == 1
    assert record.observed.parameters == 272_474


def test_one_failed_case_does_not_keep_the_others_from_running(fake, gpubench, tmp_path):
    fake(misbehave={"rank": 1, "phase": "step", "how": "die"})
    done = gpubench("run", "--frameworks", "fake", "--devices", "1,2", "--launches", "1")
    assert done.returncode == 1
    records = store.load(store.find("last", tmp_path / "results")).records
    by_status = {record.case.id: record.outcome.status for record in records}
    assert by_status["resnet20-fake-ranks-2x32-fp32"] == "rank_died"
    assert by_status["resnet20-fake-replicas-2x32-fp32"] == "ok"
    assert "rank_died: Rank 1 of 2" in done.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_harness_that_is_ended_leaves_no_process_and_keeps_finished_records(fake, tmp_path, signum):
    fake(misbehave={"rank": 0, "phase": "step", "how": "hang", "after_steps": 14})
    command = ["run", "--frameworks", "fake", "--strategies", "single", "--launches", "3", "--results", str(tmp_path)]
    harness = subprocess.Popen(
        [sys.executable, "-m", "gpubench.cli", *command, "--quiet"], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.rglob("*.launch1.*.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)  # into the hang
    harness.send_signal(signum)
    _, said = harness.communicate(timeout=30)
    assert harness.returncode == (-9 if signum == signal.SIGKILL else 130)
    if signum != signal.SIGKILL:
        assert "nothing is left running" in said


def test_a_record_tells_of_variables_that_matter_and_of_no_secret(fake, run_fake, monkeypatch):
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("TF_VAR_password", "secret")  # Terraform's
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    environment = run_fake("single", 1).environment
    assert environment["NCCL_DEBUG"] == "WARN"
    assert "secret" not in environment.values()
