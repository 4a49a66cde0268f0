"""Whatever ends the harness, and whenever: finished records are readable, nothing runs on, the rest can be done."""

import os
import random
import signal
import time
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest

from gpubench.files import store
from gpubench.harness.gang.local import LocalGang
from tests.robustness.conftest import one_now, wait_until, words_of

STRATEGIES = ("--strategies", "ranks", "--devices", "1,2", "--launches", "200")


@pytest.mark.parametrize("seed", one_now(3, 0, 1, 2, 4, 5))
def test_killed_at_any_moment_it_loses_no_finished_record_and_leaves_no_process(harness, seed):
    moment = random.Random(seed)
    process = harness.start(*harness.bench(*STRATEGIES))
    wait_until(lambda: harness.finished() >= seed)  # seed 0: whenever, from the start of Python on
    time.sleep(moment.uniform(0, 1.0))
    finished = harness.finished()
    process.kill()
    process.communicate(timeout=30)
    harness.assert_nothing_left()
    path = harness.journal()
    if path is None:
        assert finished == 0
        return
    journal = store.Journal.reopen(path)  # the lock went with the process
    records = journal.records
    assert len(records) >= finished
    assert all(record.outcome.status == "ok" for record in records)
    assert path.read_bytes().count(b"\n") == len(records)
    if records:
        journal.append(replace(records[-1], record_id="f" * 32))
        assert store.load(path).warnings == []


@pytest.mark.parametrize(
    ("signum", "pause_seconds"),
    one_now(*product((signal.SIGINT, signal.SIGTERM), (0.02, 0.0, 0.2))),
)
def test_interrupted_twice_it_ends_in_good_order(harness, signum, pause_seconds):
    hang = {"misbehave": {"rank": 0, "phase": "step", "how": "hang", "after_steps": 14}}
    process = harness.start(*harness.bench(*STRATEGIES), fake=hang)
    wait_until(lambda: list(harness.results.rglob("*.rank*.log")))
    wait_until(harness.workers)
    time.sleep(0.5)  # into the hang
    process.send_signal(signum)
    time.sleep(pause_seconds)
    process.send_signal(signum)
    _, said = process.communicate(timeout=30)
    assert "Traceback" not in said
    assert process.returncode in (130, -signum)  # the second one may come when Python is all but gone
    harness.assert_nothing_left()
    assert list(harness.scratch.iterdir()) == []


@pytest.fixture
def usual_interrupt():
    """A test runner may have set it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_a_gang_is_being_ended_waits_until_it_has_ended(usual_interrupt):
    class Rank:
        killed = closed = False

        def kill(self):
            signal.raise_signal(signal.SIGINT)
            self.killed = True

        def close(self):
            self.closed = True

    ranks = [Rank(), Rank()]
    with LocalGang(launch=SimpleNamespace(orders=lambda address: []), logs=[]) as gang:
        assert gang.scratch.is_dir()
        gang.ranks = list(ranks)
        with pytest.raises(KeyboardInterrupt):
            gang.end()
    assert all(rank.killed and rank.closed for rank in ranks)
    assert not gang.scratch.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_sampler_that_is_killed_in_mid_run_costs_only_its_samples(harness):
    process = harness.start(*harness.bench("--strategies", "single", "--devices", "1", "--launches", "12"))
    wait_until(lambda: harness.finished() >= 2)
    (sampler,) = [one for one in harness.processes() if "gpubench.telemetry.sampling" in words_of(one)]
    sampler.kill()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    records = harness.records()
    assert len(records) == 12
    assert all(record.outcome.status == "ok" for record in records)
    assert records[0].telemetry.reason is None
    assert "the sampler ended with SIGKILL" in records[-1].telemetry.reason
    harness.assert_nothing_left()


def test_children_that_a_worker_left_end_with_an_interrupted_run(harness):
    fork = {"misbehave": {"rank": 0, "phase": "step", "how": "fork"}, "step_seconds": 0.001}
    process = harness.start(*harness.bench(*STRATEGIES), fake=fork)
    wait_until(lambda: harness.finished() >= 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    harness.assert_nothing_left()


def test_a_report_that_came_while_the_harness_was_stopped_is_in_time():
    class Rank:
        index = 0
        reports: list = []
        last_words = None

        def __init__(self):
            self.messages, self.theirs = os.pipe()
            self.end_fd, self.alive = os.pipe()
            os.write(self.theirs, b"done")

        def read(self):
            self.reports = [os.read(self.messages, 4)]
            return True

    gang = LocalGang(launch=None, logs=[])
    gang.ranks = [rank := Rank()]
    assert gang.gather("round", deadline_seconds=-60) == [b"done"]
    for descriptor in (rank.messages, rank.theirs, rank.end_fd, rank.alive):
        os.close(descriptor)
