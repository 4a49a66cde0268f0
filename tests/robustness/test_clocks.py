"""Clocks that step, and machines that stand still: no negative time, no crash, no wait without end."""

import time
from dataclasses import replace

import pytest

from gpubench.analysis.checks import doubts, sets_aside
from gpubench.spec.record import Host
from gpubench.telemetry import clocks, sampling
from tests.builders import make_record

FEW = ("--strategies", "ranks", "--devices", "2", "--launches", "1")


class Clock:
    """A monotonic clock that is set by hand."""

    def __init__(self, monkeypatch):
        self.seconds = 1e6
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(time, "monotonic_ns", lambda: round(self.seconds * 1e9))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_a_clock_that_steps_back_in_a_round_ends_the_launch_and_the_next_one_runs(harness):
    fake = {"misbehave": {"rank": 1, "phase": "step", "how": "clock_back", "after_steps": 20}}
    done = harness.run(*harness.bench(*FEW, "--no-paired"), fake=fake)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    by_devices = {record.case.n_devices: record for record in harness.records()}
    assert by_devices[1].outcome.status == "ok"
    outcome = by_devices[2].outcome
    assert (outcome.status, outcome.rank, outcome.phase) == ("failed", 1, "round")
    assert "clock of rank 1 stepped back" in outcome.message
    assert all(each.seconds > 0 for each in by_devices[2].rounds)


@pytest.mark.parametrize("jump_seconds", [-3600.0, 3600.0])
def test_a_deadline_is_neither_reached_nor_put_off_by_a_clock_that_jumps(clock, jump_seconds):
    countdown = clocks.Countdown(60)
    clock.seconds += jump_seconds
    assert 60 - clocks.TICK_SECONDS <= countdown.left() <= 60
    for _ in range(60):
        clock.seconds += 1
        left = countdown.left()
    assert left <= 0


def test_the_sampler_goes_on_at_its_period_where_the_clock_steps_back(clock):
    swept = []

    class Commands:
        def next(self, timeout_seconds):
            clock.seconds += timeout_seconds
            if len(swept) == 5:
                clock.seconds -= 3600
            return sampling.STOP if len(swept) == 10 else None

    began = clock.seconds
    sampling.run_schedule(lambda edge, late_ns: swept.append(clock.seconds), 10**8, Commands())
    assert len(swept) == 10
    assert clock.seconds - (began - 3600) < 2


def test_a_launch_in_which_the_machine_stood_still_is_set_aside():
    (doubt,) = [one for one in doubts(make_record(host=Host(stood_still_seconds=300.0))) if one.name == "stood_still"]
    assert sets_aside(doubt)
    assert doubts(make_record(host=Host(stood_still_seconds=0.01))) == doubts(make_record(host=Host()))


def test_what_a_suspended_machine_stood_still_is_what_two_clocks_went_apart():
    before, second = (5 * 10**9, 7 * 10**9), 10**9
    assert clocks.apart_seconds(before, (6 * second, 8 * second)) == 0
    assert clocks.apart_seconds(before, (6 * second, 308 * second)) == 300
    assert clocks.apart_seconds(clocks.now_ns(), clocks.now_ns()) < 1


def test_a_wall_clock_that_steps_changes_nothing_but_the_time_of_day_that_is_recorded():
    record = make_record(started_at="1970-01-01T00:00:00+00:00")
    assert replace(record, started_at="x") == replace(make_record(), started_at="x", record_id=record.record_id)
