"""Signals at any moment: one line, the exit code of an interrupted run, no process and no folder left behind."""

import getpass
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from gpubench.files import store
from tests.robustness.conftest import one_now, wait_until

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGXCPU")
PYTHON_STARTS_SECONDS = 0.15  # until then Python itself answers, before it has come to gpubench's first line
FEW = ("--strategies", "ranks", "--devices", "1,2", "--launches", "3")


def assert_ended_in_good_order(harness, process, said):
    lines = [line for line in said.splitlines() if line]
    assert process.returncode == 130, said
    said_before = [line for line in lines[:-1] if line.startswith("gpubench: ") and ": no trace: " not in line]
    assert said_before == [], said
    assert "gpubench: interrupted; nothing is left running" in lines[-1]
    assert "Traceback" not in said
    harness.assert_nothing_left()
    of_pytorch = {harness.scratch / f"torchinductor_{getpass.getuser()}"}  # its cache, for all who use it
    assert set(harness.scratch.iterdir()) <= of_pytorch
    if (path := harness.journal()) and path.stat().st_size:
        assert store.load(path).warnings == []


def interrupted_at(harness, words, signum, seconds):
    """The signal after so many seconds. Whether it was in time: a run that had ended by then shows nothing."""
    process = harness.start(*words)
    time.sleep(seconds)
    early = process.poll() is None
    process.send_signal(signum)
    _, said = process.communicate(timeout=60)
    if early and process.returncode != 0:  # it may have been about to end
        assert_ended_in_good_order(harness, process, said)
    return early


def how_long(harness, words):
    began = time.monotonic()
    assert harness.run(*words).returncode == 0
    return time.monotonic() - began


@pytest.mark.parametrize(("seed", "name"), one_now(*enumerate(SIGNALS)))
def test_a_signal_at_a_random_moment_ends_a_run_in_one_line(harness, seed, name):
    seconds = random.Random(seed).uniform(PYTHON_STARTS_SECONDS, 3)
    interrupted_at(harness, harness.bench(*FEW), signal.Signals[name], seconds)


@pytest.mark.nightly
@pytest.mark.parametrize("command", ["run", "report", "verify", "show"])
def test_a_signal_at_any_of_twenty_random_moments_ends_every_command_in_one_line(harness, command):
    moments = random.Random(command)
    words = {
        "run": harness.bench(*FEW),
        "verify": ("verify", "--frameworks", "torch", "--workloads", "mlp", "--results", str(harness.results)),
        "report": ("report", "last", "-o", str(harness.folder / "page.html"), "--results", str(harness.results)),
        "show": ("show", "last", "--results", str(harness.results)),
    }[command]
    harness.run(*harness.bench(*FEW))
    whole = how_long(harness, words)
    in_time = 0
    for _ in range(20):
        seconds = moments.uniform(PYTHON_STARTS_SECONDS, whole)
        in_time += interrupted_at(harness, words, signal.Signals[moments.choice(SIGNALS)], seconds)
        assert not list(harness.folder.glob(".*.html*"))
    assert in_time > 10


def test_the_first_line_of_the_command_answers_signals_before_anything_is_imported():
    code = (
        "import os, signal, sys\n"
        "class Late:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'gpubench.cli.commands':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Late())\n"
        "from gpubench.cli import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 130
    assert done.stderr.strip() == "gpubench: interrupted; nothing is left running, and finished records are kept."


def test_a_broken_pipe_signal_is_not_the_end_of_a_run(harness):
    process = harness.start(*harness.bench(*FEW))
    wait_until(harness.workers)
    process.send_signal(signal.SIGPIPE)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_run_that_is_stopped_and_continued_in_a_round_ends_well(harness):
    process = harness.start(*harness.bench(*FEW))
    wait_until(harness.workers)
    process.send_signal(signal.SIGTSTP)
    time.sleep(1)
    process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert all(record.outcome.status == "ok" for record in harness.records())


@pytest.mark.parametrize("name", one_now("SIGTERM", "SIGINT"))
def test_under_pytest_a_signal_ends_the_session_without_a_traceback(harness, name):
    hang = {"misbehave": {"rank": 0, "phase": "step", "how": "hang", "after_steps": 14}}
    test = harness.folder / "test_training.py"
    test.write_text("def test_training(gpubench_case, gpubench_measure):\n    gpubench_measure(gpubench_case)\n")
    words = ("--gpubench-frameworks", "fake", "--gpubench-devices", "1", "-W", "error", "-p", "no:xdist")
    process = harness.start(str(test), *words, "--benchmark-save=run", module="pytest", fake=hang, cwd=harness.folder)
    wait_until(harness.workers)
    time.sleep(0.5)
    process.send_signal(signal.Signals[name])
    out, said = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, out + said
    assert "Traceback" not in out + said
    assert "INTERNALERROR" not in out + said
    assert "not used" not in out + said
    harness.assert_nothing_left()
    assert list(harness.scratch.iterdir()) == []


def test_a_signal_that_nohup_keeps_away_stays_away(harness):
    process = harness.start(*harness.bench(*FEW), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_until(harness.workers)
    os.kill(process.pid, signal.SIGHUP)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
