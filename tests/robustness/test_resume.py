"""What a continued run does, and what it does not do again."""

import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.files import store
from gpubench.harness import machine, registry
from gpubench.harness.plan import Runnable
from gpubench.harness.schedule import interleaved, missing
from gpubench.spec.case import Case
from gpubench.spec.record import Outcome, Schedule
from tests.builders import make_case, make_devices, make_record
from tests.robustness.conftest import one_now, wait_until


def runnable_of(case: Case) -> Runnable:
    fake = registry.framework("fake")
    devices = tuple(make_devices(case.device_kind, case.n_devices))
    return Runnable(case=case, framework=fake, strategy=fake.strategies[0], python=Path("python"), devices=devices)


@pytest.fixture
def plan() -> list[Runnable]:
    return [runnable_of(make_case(name, n)) for name, n in (("single", 1), ("ranks", 2), ("replicas", 2))]


def record_of(one: Runnable, launch: int, status: str = "ok"):
    return make_record(one.case, launch=launch, outcome=Outcome(status=status), devices=list(one.devices))


def test_what_has_ended_well_is_not_repeated_and_the_rest_keeps_its_order(plan):
    order = list(interleaved(plan, 3, seed=7))
    for n_done in (0, 1, 4, len(order)):
        done = [record_of(one, launch) for one, launch in order[:n_done]]
        assert missing(plan, 3, 7, done) == order[n_done:]


@pytest.mark.parametrize("status", ["oom", "timeout", "rank_died", "failed", "interrupted", "skipped"])
def test_what_has_failed_runs_again(plan, status):
    records = [record_of(one, launch, status) for one, launch in interleaved(plan, 2, seed=0)]
    assert len(missing(plan, 2, 0, records)) == 6
    records += [record_of(plan[0], 1)]
    assert (plan[0], 1) not in missing(plan, 2, 0, records)


def test_more_launches_than_before_are_added_to_those_there_are(plan):
    done = [record_of(one, launch) for one, launch in interleaved(plan, 2, seed=0)]
    assert [launch for _, launch in missing(plan, 3, 0, done)] == [3, 3, 3]


def test_another_batch_or_another_device_is_another_case(plan):
    done = [record_of(one, 1) for one in plan]
    larger = replace(plan[0], case=replace(plan[0].case, per_device_batch=64, global_batch=64))
    elsewhere = replace(plan[1], devices=plan[1].devices[::-1])
    still = missing([larger, elsewhere, plan[2]], 1, 0, done)
    assert {one.case for one, _ in still} == {larger.case, elsewhere.case}


def test_a_case_is_recognised_after_its_record_was_written_and_read(tmp_path):
    devices = machine.devices("cpu", 1, machine.describe())
    one = replace(runnable_of(make_case("single", 1)), devices=tuple(devices))
    journal = store.Journal.create(tmp_path, "box", "first")
    journal.append(record_of(one, 1))
    journal.close()
    assert missing([one], 1, 0, store.Journal.reopen(journal.path).records) == []


def test_a_launch_of_a_pair_does_not_stand_for_one_alone(plan):
    pair = Schedule(order="interleaved", seed=0, launches=1, position=0, pair_id="a", paired_as="baseline")
    done = [replace(record_of(one, 1), schedule=pair) for one in plan]
    assert len(missing(plan, 1, 0, done)) == 3


@pytest.mark.parametrize("seed", one_now(0, 1))
def test_a_run_that_was_killed_is_continued_and_repeats_nothing(harness, seed):
    words = harness.bench("--strategies", "ranks", "--devices", "1,2", "--launches", "3")
    process = harness.start(*words)
    wait_until(lambda: harness.finished() >= 3)
    time.sleep(random.Random(seed).uniform(0, 0.5))
    process.kill()
    process.communicate(timeout=30)
    path = harness.journal()
    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    path.write_bytes(whole + b'{"schema":1,"record_id":"to')
    for _ in range(2):  # and once more, with nothing left to do
        done = harness.run(*words, "--resume", "last")
        assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(whole)
    run = store.load(path)
    assert run.warnings == []
    launches = Counter((record.case.id, record.launch) for record in run.records)
    assert set(launches.values()) == {1}
    assert sum(launch > 0 for _, launch in launches) == 3 * 3


def test_a_run_that_is_going_on_cannot_be_continued_beside_it(harness):
    words = harness.bench("--strategies", "single", "--devices", "1", "--launches", "100")
    process = harness.start(*words)
    wait_until(lambda: harness.finished() >= 1)
    done = harness.run(*words, "--resume", "last")
    assert done.returncode == 2
    assert "is being written by another gpubench" in done.stderr
    process.kill()
    process.communicate(timeout=30)


def test_what_failed_is_tried_again_and_its_failure_stays_on_record(harness):
    words = harness.bench("--strategies", "single", "--devices", "1", "--launches", "2")
    die = {"misbehave": {"rank": 0, "phase": "build", "how": "die"}}
    assert harness.run(*words, fake=die).returncode == 1
    assert harness.run(*words, "--resume", "last").returncode == 0
    statuses = [record.outcome.status for record in harness.records()]
    assert statuses == ["rank_died", "rank_died", "ok", "ok"]
