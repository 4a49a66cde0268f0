"""Which launches a run makes, in which order, and when it has made enough of them."""

import re
import sys

import pytest

from gpubench.analysis.stats import FEWEST_TO_STOP
from gpubench.files import store
from gpubench.harness import quiet

RANKS = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2")
# One process: ranks of unlike speed, each on a clock of its own, would contradict one another.
REPLICAS = ("run", "--frameworks", "fake", "--strategies", "replicas", "--devices", "1,2")


@pytest.fixture
def records(tmp_path):
    return lambda word="last": store.load(store.find(word, tmp_path / "results")).records


@pytest.fixture
def noisy_python(tmp_path):
    """A Python whose fake steps take another time in each process: launches differ by some 25 %."""
    noisy = tmp_path / "noisy"
    noisy.write_text(
        "#!/bin/sh\n"
        "r=$(od -An -N2 -tu2 /dev/urandom)\n"
        'export GPUBENCH_FAKE="{\\"step_seconds\\": 0.1$(printf %05d $r)}"\n'
        f'exec {sys.executable} "$@"\n'
    )
    noisy.chmod(0o755)
    return noisy


def test_launches_are_interleaved_and_the_seed_is_kept(gpubench, records):
    gpubench(*RANKS, "--launches", "3", "--no-paired", "--seed", "7")
    done = records()
    assert [record.launch for record in done] == [1] * 3 + [2] * 3 + [3] * 3
    assert {record.schedule.seed for record in done} == {7}
    assert [record.schedule.position for record in done] == list(range(9))
    assert {record.schedule.order for record in done} == {"interleaved"}


def test_the_budget_ends_a_run_and_resume_goes_on(gpubench, records, tmp_path):
    done = gpubench(*RANKS, "--launches", "2", "--no-paired", "--budget", "0s", "--save", "short")
    assert "The budget is spent: 6 launches were not run; --resume runs them." in done.stderr
    assert next((tmp_path / "results").rglob("*_short.jsonl")).read_text() == ""
    done = gpubench(*RANKS, "--launches", "2", "--no-paired", "--resume", "short")
    assert done.returncode == 0, done.stderr
    assert len(records("short")) == 6


def test_resume_repeats_nothing_that_is_done(gpubench, records):
    gpubench(*RANKS, "--launches", "1", "--no-paired", "--save", "first")
    before = [record.record_id for record in records("first")]
    gpubench(*RANKS, "--launches", "2", "--no-paired", "--resume", "first")
    after = records("first")
    assert [record.record_id for record in after[:3]] == before
    assert [record.launch for record in after] == [1, 1, 1, 2, 2, 2]


def test_a_failed_launch_is_run_again_by_resume(gpubench, records, fake):
    fake(misbehave={"rank": 1, "phase": "build", "how": "die"})
    assert gpubench(*RANKS, "--launches", "1", "--no-paired", "--save", "first").returncode == 1
    fake()
    assert gpubench(*RANKS, "--launches", "1", "--no-paired", "--resume", "first").returncode == 0
    by_status = [(r.case.id, r.outcome.status) for r in records("first") if "2x" in r.case.id]
    assert [status for _, status in by_status] == ["rank_died", "ok"]


def test_paired_rounds_take_turns(gpubench, records, fake):
    fake(step_seconds=0.1, communication_seconds=0.025)
    done = gpubench(*RANKS, "--launches", "3", "--paired")
    assert done.returncode == 0, done.stderr
    pairs = {}
    for record in records():
        if record.schedule.pair_id:
            pairs.setdefault(record.schedule.pair_id, {})[record.schedule.paired_as] = record
    assert len(pairs) == 3
    for pair in pairs.values():
        assert set(pair) == {"baseline", "gang"}
        assert (pair["baseline"].case.strategy, pair["gang"].case.strategy) == ("single", "ranks")
        assert len(pair["baseline"].rounds) == len(pair["gang"].rounds) == 5
    assert re.search(r"ranks +2 .*0\.80 \[0\.80, 0\.80\]", done.stdout)


def test_launches_that_differ_much_are_measured_again_in_pairs(gpubench, records, noisy_python):
    done = gpubench(*REPLICAS, "--launches", "3", "--python", f"fake={noisy_python}")
    assert done.returncode == 0, done.stderr
    assert "measuring again in pairs" in done.stderr
    assert sum(r.schedule.paired_as == "gang" for r in records()) == 3
    assert sum(r.schedule.pair_id is None for r in records()) == 9  # the launches before it are all kept


def test_a_pair_whose_gang_dies_tells_which_half_it_was(gpubench, records, fake):
    fake(misbehave={"rank": 1, "phase": "build", "how": "die"})
    done = gpubench(*RANKS, "--launches", "1", "--paired")
    assert done.returncode == 1
    halves = {r.schedule.paired_as: r.outcome for r in records() if r.schedule.pair_id}
    assert halves["gang"].status == "rank_died"
    assert halves["baseline"].status == "interrupted"
    assert "the other half of the pair" in halves["baseline"].message


class Loads:
    """A sampler whose readings are known: busy for the first so many looks."""

    def __init__(self, busy_looks: int) -> None:
        self.busy_looks = busy_looks

    def latest(self, since_ns):
        self.busy_looks -= 1
        return {"core 0": {"utilization_percent": 80.0 if self.busy_looks >= 0 else 1.0}}


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(quiet.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(quiet.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def test_a_start_waits_until_the_devices_have_been_quiet_for_a_while(clock):
    was_quiet, waited = quiet.wait(Loads(busy_looks=30), ["core 0"], limit_seconds=60)
    assert was_quiet
    assert waited == pytest.approx(29 * quiet.POLL_SECONDS + quiet.QUIET_SECONDS, abs=0.11)


def test_a_start_does_not_wait_for_ever(clock):
    assert quiet.wait(Loads(busy_looks=10_000), ["core 0"], limit_seconds=5) == (False, pytest.approx(5, abs=0.11))


def test_whether_a_device_was_quiet_that_cannot_be_read_is_not_known(clock):
    was_quiet, waited = quiet.wait(Loads(busy_looks=0), ["core 0", "core 1"], limit_seconds=60)
    assert was_quiet is None
    assert waited <= quiet.QUIET_SECONDS + 0.11


def test_who_waits_is_told_once_what_for(clock):
    told = []
    quiet.wait(Loads(busy_looks=30), ["core 0"], limit_seconds=60, tell=told.append)
    assert told == ["Waiting up to 60 s for quiet devices: core 0 is 80 % busy."]


def test_a_wait_for_quiet_is_shown_by_progress_record_and_table(gpubench, records, monkeypatch):
    words = ("run", "--frameworks", "fake", "--strategies", "single", "--launches", "2", "--devices", "1")
    done = gpubench(*words, "--wait-quiet", "1.5s")
    schedules = [record.schedule for record in records()]
    assert all(1.4 <= schedule.waited_for_quiet_seconds < 10 for schedule in schedules)
    for quiet_, told in ((True, "until quiet"), (False, "without quiet")):
        assert done.stderr.count(told) == sum(schedule.quiet is quiet_ for schedule in schedules)
    assert "waited for quiet devices" in " ".join(done.stdout.split())


def pair_of(record):
    return record.case.id, record.launch, record.schedule.paired_as


def test_a_continued_run_repeats_no_pair_also_of_those_that_until_added(gpubench, records, tmp_path, noisy_python):
    words = (*REPLICAS, "--python", f"fake={noisy_python}", "--until", "0.001%")
    gpubench(*words, "--budget", "12s", "--save", "first")
    before = [pair_of(record) for record in records("first")]
    done = gpubench("run", "--resume", "first", "--budget", "8s")
    after = [pair_of(record) for record in records("first")]
    assert done.returncode == 4, done.stderr  # no interval is that narrow
    assert after[: len(before)] == before
    assert len(set(after)) == len(after) > len(before)
    assert max(launch for _, launch, paired_as in before if paired_as) > FEWEST_TO_STOP
