"""What shows only where records are seen together: copies of a launch, and halves of a pair that are none."""

import random
from dataclasses import replace

import pytest

from gpubench.analysis.compare import compare, side_of
from gpubench.analysis.gate import gate
from gpubench.analysis.scaling import summarize
from gpubench.spec.record import Round, RunRecord, Schedule
from tests.builders import make_case, make_launches, make_machine, make_record

HOUR_NS = 3600 * 10**9


def uneven(record: RunRecord, seed: str) -> RunRecord:
    """The launch with rounds as a real clock times them: no two take equally long."""
    noise = random.Random(seed)
    return replace(record, rounds=[longer(each, noise.randrange(10**7)) for each in record.rounds])


def longer(each: Round, by_ns: int) -> Round:
    end_ns = each.end_ns + by_ns
    return replace(each, end_ns=end_ns, rank_seconds=[(end_ns - each.start_ns) / 1e9] * len(each.rank_seconds))


def launches(rates, run_id: str, case=None, **changes) -> list[RunRecord]:
    made = make_launches(case or make_case(), rates, run_id=run_id, **changes)
    return [uneven(record, f"{run_id} {record.launch}") for record in made]


def later(record: RunRecord, by_ns: int = HOUR_NS) -> RunRecord:
    """The same launch, said to have run at another time."""
    rounds = [replace(each, start_ns=each.start_ns + by_ns, end_ns=each.end_ns + by_ns) for each in record.rounds]
    return replace(record, rounds=rounds, started_at="2026-06-01T00:00:00+00:00")


def copied(record: RunRecord, **changes) -> RunRecord:
    return replace(record, record_id="copy", run_id="another", **changes)


COPIES = {
    "under other ids": copied,
    "with another number": lambda record: copied(record, launch=9),
    "with another date": lambda record: copied(record, started_at="2026-06-01T00:00:00+00:00"),
    "at another time": lambda record: copied(later(record)),
    "of another case, at another time": lambda record: copied(later(record), case=make_case("ddp")),
    "on a machine of another name": lambda record: copied(later(record), machine=make_machine(name="other")),
    "within the session, at another time": lambda record: replace(later(record), record_id="copy", launch=9),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_of_a_launch_is_no_further_launch_whatever_it_is_called(kind):
    records = launches([100.0, 101.0, 99.0], "first")
    [honest] = summarize(records)
    found = summarize([*records, COPIES[kind](records[1])])
    assert honest.samples_per_second is not None
    assert {summary.no_number.name for summary in found} == {"contradiction"}


def test_a_copy_whose_slower_ranks_alone_are_told_anew_is_still_one():
    records = launches([100.0, 101.0, 99.0], "first", case=make_case("ddp", 2))
    faster = [replace(r, rank_seconds=[r.rank_seconds[0], r.rank_seconds[1] - 1e-4]) for r in later(records[1]).rounds]
    [summary] = summarize([*records, copied(records[1], rounds=faster)])
    assert summary.no_number.name == "contradiction"


def test_launches_of_two_runs_of_one_machine_are_pooled():
    [summary] = summarize([*launches([100.0, 101.0, 99.0], "first"), *launches([100.0, 101.0, 99.0], "second")])
    assert len(summary.launches) == 6


def test_times_of_a_coarse_clock_may_be_equal():
    records = [later(record, index * HOUR_NS) for index, record in enumerate(launches([100.0] * 3, "first"))]
    coarse = [replace(record, rounds=records_of_whole_milliseconds(record)) for record in records]
    [summary] = summarize(coarse)
    assert len(summary.launches) == 3


def records_of_whole_milliseconds(record: RunRecord) -> list[Round]:
    return [longer(each, each.start_ns + 2_000_000_000 + each.index * 10**6 - each.end_ns) for each in record.rounds]


def test_a_gate_between_a_launch_and_its_copy_resolves_nothing():
    records = launches([100.0, 101.0, 99.0, 100.5], "first")
    copies = [replace(later(record), record_id=f"copy-{record.launch}", run_id="another") for record in records]
    found = gate(compare([side_of("a", records), side_of("b", copies)]), 0.05)
    assert found.kind == "not_resolved"
    assert "the same launches" in found.judged[0].reason


def pairs(n: int, rounds: int = 3) -> list[RunRecord]:
    """Pairs whose rounds took turns: of a gang, each began half a round's time after the baseline's had ended."""
    found = []
    for number in range(1, n + 1):
        baseline = make_record(launch=number, rounds=rounds, run_id="pairs", samples_per_second=100.0 + number)
        gang = make_record(make_case("ddp", 2), launch=number, rounds=rounds, run_id="pairs", samples_per_second=180.0)
        turns = [
            replace(each, rounds=[moved(one, by_ns + 6 * 10**9 * one.index) for one in each.rounds])
            for each, by_ns in ((baseline, 0), (gang, 3 * 10**9))
        ]
        for half, record in zip(("baseline", "gang"), turns, strict=True):
            schedule = Schedule(
                order="interleaved", seed=0, launches=n, position=0, pair_id=str(number), paired_as=half
            )
            found.append(replace(record, schedule=schedule))
    return found


def moved(each: Round, by_ns: int) -> Round:
    return replace(each, start_ns=each.start_ns + by_ns, end_ns=each.end_ns + by_ns)


def paired_with(record: RunRecord, other: RunRecord) -> RunRecord:
    return replace(record, schedule=replace(record.schedule, pair_id=other.schedule.pair_id))


FORGED = {
    "the gang of another pair": lambda found: [found[0], paired_with(found[3], found[0]), *found[4:]],
    "a gang that ran minutes later": lambda found: [found[0], later(found[1], 300 * 10**9), *found[2:]],
    "a gang that ran earlier": lambda found: [later(found[0], 300 * 10**9), *found[1:]],
    "a gang of another session": lambda found: [found[0], replace(found[1], run_id="another"), *found[2:]],
    "a gang of another number": lambda found: [found[0], replace(found[1], launch=7), *found[2:]],
}


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("kind", FORGED)
def test_launches_that_did_not_run_side_by_side_are_no_pair(kind, rounds):
    found = pairs(4, rounds)
    assert {summary.no_number for summary in summarize(found)} == {None}
    for summary in summarize(FORGED[kind](found)):
        assert summary.no_number.name == "contradiction"
        assert "of a pair" in summary.no_number.message
