"""`--until` measures what it names and no more, ends at the first block that has it, and says how long it takes."""

import re
import sys
import time
from dataclasses import replace

import pytest

from gpubench import forecast
from gpubench.analysis.precision import MOST_LAUNCHES, blocks_needed, half_width, met, unresolved
from gpubench.analysis.scaling import summarize
from gpubench.analysis.stats import FEWEST_TO_STOP
from gpubench.files import store
from gpubench.harness import plan as plans
from gpubench.harness.settings import to_toml
from gpubench.spec.until import Until
from tests.analysis.test_pairs import ONE, TWO, paired

RANKS = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2")
STEADY = {"step_seconds": 0.05, "communication_seconds": 0.01}


@pytest.fixture
def records(tmp_path):
    return lambda word="last": store.load(store.find(word, tmp_path / "results")).records


@pytest.fixture
def noisy_python(tmp_path):
    """A Python whose fake steps take another time in each process, 0.1 to 0.1255 s."""
    path = tmp_path / "noisy"
    path.write_text(
        "#!/bin/sh\n"
        "r=$(od -An -N1 -tu1 /dev/urandom)\n"
        'export GPUBENCH_FAKE="{\\"step_seconds\\": 0.1$(printf %03d $r)}"\n'
        f'exec {sys.executable} "$@"\n'
    )
    path.chmod(0o755)
    return path


def gang(records):
    (summary,) = [one for one in summarize(records) if one.case.n_devices == 2]
    return summary


def pairs_of(records):
    return [record for record in records if record.schedule and record.schedule.paired_as == "gang"]


def test_only_pairs_are_launched_and_the_first_block_that_reaches_the_target_ends_the_run(gpubench, records, fake):
    fake(**STEADY)
    done = gpubench(*RANKS, "--until", "2%")
    assert done.returncode == 0, done.stderr
    found = records()
    assert {(r.case.strategy, r.case.n_devices, r.schedule.paired_as) for r in found} == {
        ("single", 1, "baseline"),
        ("ranks", 2, "gang"),
    }
    assert [r.launch for r in pairs_of(found)] == list(range(1, FEWEST_TO_STOP + 1))
    assert {(r.schedule.until, r.schedule.until_of) for r in found} == {(0.02, "efficiency")}


def test_no_block_before_the_last_one_had_reached_the_target(gpubench, records, noisy_python):
    until = Until(0.07)
    words = ("run", "--frameworks", "fake", "--strategies", "replicas", "--devices", "1,2")
    done = gpubench(*words, "--until", "7%", "--python", f"fake={noisy_python}", "--budget", "90s", timeout=150)
    assert done.returncode == 0, done.stderr
    found = records()
    n = max(record.launch for record in found)
    reached = [met(gang([r for r in found if r.launch <= k]), until) for k in range(FEWEST_TO_STOP, n + 1)]
    assert reached == [False] * (len(reached) - 1) + [True]


def test_throughput_is_narrowed_by_launches_of_every_case(gpubench, records, fake):
    fake(**STEADY)
    done = gpubench(*RANKS, "--until", "throughput=2%")
    assert done.returncode == 0, done.stderr
    counts = {}
    for record in records():
        assert record.schedule.pair_id is None
        assert record.schedule.until_of == "throughput"
        counts[record.case.id] = counts.get(record.case.id, 0) + 1
    assert list(counts.values()) == [FEWEST_TO_STOP] * 3


def test_without_pairs_an_efficiency_is_narrowed_by_launches_of_gang_and_baseline(gpubench, records, fake):
    fake(**STEADY)
    assert gpubench(*RANKS, "--until", "2%", "--no-paired").returncode == 0
    found = {(r.case.strategy, r.case.n_devices, r.launch) for r in records()}
    launches = range(1, FEWEST_TO_STOP + 1)
    assert found == {(*case, launch) for case in (("single", 1), ("ranks", 2)) for launch in launches}


def test_more_launches_may_be_asked_for_than_the_interval_takes(gpubench, records, fake):
    fake(**STEADY)
    assert gpubench(*RANKS, "--until", "2%", "--launches", "6").returncode == 0
    assert len(pairs_of(records())) == 6


def test_a_budget_ends_it_as_not_resolved_and_resume_goes_on_to_the_end(gpubench, records, fake):
    fake(**STEADY)
    done = gpubench(*RANKS, "--until", "2%", "--budget", "0s", "--save", "first")
    assert done.returncode == 4
    assert "not resolved: resnet20-fake-ranks-2x32-fp32 has no number" in done.stderr
    assert "The budget is spent" in done.stderr
    done = gpubench("run", "--resume", "first")
    assert done.returncode == 0, done.stderr
    before = records("first")
    assert len(pairs_of(before)) == FEWEST_TO_STOP
    again = gpubench("run", "--resume", "first")
    assert again.returncode == 0
    assert records("first") == before


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--devices", "1"), 2, "nothing of this has one"),
        (("--strategies", "single"), 2, "narrow throughputs with --until throughput=2%"),
        (("--strategies", "gpu_only", "--devices", "1,2"), 3, "needs a GPU by design"),
    ],
)
def test_where_nothing_has_an_efficiency_it_is_refused_before_anything_runs(gpubench, tmp_path, words, code, told):
    for dry in ((), ("--dry-run",)):
        done = gpubench("run", "--frameworks", "fake", *words, "--until", "2%", *dry)
        assert done.returncode == code, done.stderr
        assert told in done.stderr
    assert not list(tmp_path.rglob("*.jsonl"))


def test_an_older_run_with_until_is_continued(gpubench, records, fake, tmp_path):
    """Before, all cases were launched three times first, and a schedule did not say what was narrowed."""
    fake(**STEADY)
    gpubench(*RANKS, "--launches", "1", "--no-paired", "--save", "first")
    path = store.find("first", tmp_path / "results")
    path.write_bytes(path.read_bytes().replace(b'"until":null,"until_of":null', b'"until":0.02'))
    settings = store.plan_file(path)
    text = settings.read_text().replace('paired = "no"', 'paired = "yes"\nuntil = 0.02')
    settings.write_text(text)
    before = records("first")
    assert {(r.schedule.until, r.schedule.until_of) for r in before} == {(0.02, None)}
    done = gpubench("run", "--resume", "first")
    assert done.returncode == 0, done.stderr
    assert records("first")[: len(before)] == before
    assert len(pairs_of(records("first"))) == FEWEST_TO_STOP


def told_seconds(text):
    """The range of a forecast, in seconds."""
    match = re.search(r"about ([0-9]+) s(?: to ([0-9]+) s)?", text)
    assert match, text
    return int(match[1]), int(match[2] or match[1])


def test_how_long_it_takes_is_told_before_from_an_earlier_run_and_is_not_absurd(gpubench, records, fake, tmp_path):
    fake(step_seconds=0.02, real_time=True)
    (tmp_path / "plan.toml").write_text("rounds = 2\nround_seconds = 0.3\n")
    words = (*RANKS, "--plan", "plan.toml", "--until", "20%")
    began = time.monotonic()
    first = gpubench(*words, "--save", "first")
    whole = time.monotonic() - began
    assert first.returncode == 0, first.stderr
    assert "Efficiency to ± 20 %: how long it takes is told after the first pairs." in first.stderr
    assert re.search(r"more at least \(3 pairs of [0-9]+ s\), by what was measured so far", first.stderr)
    dry = gpubench(*words, "--dry-run")
    assert re.search(r"Efficiency to ± 20 %: about .* pairs of [0-9]+ s\), by 0001_first", dry.stdout)
    low, high = told_seconds(dry.stdout.partition("Efficiency")[2])
    halves = [r for r in records("first") if r.launch <= FEWEST_TO_STOP]
    took = sum(r.warmup.seconds + sum(one.seconds for one in r.rounds) for r in halves)
    assert took < high  # starting comes on top
    assert low <= whole + FEWEST_TO_STOP  # records have whole seconds
    unlike = gpubench("run", "--frameworks", "fake", "--strategies", "replicas", "--until", "5%", "--dry-run")
    assert "is told after the first pairs" in unlike.stdout


def test_the_time_of_a_block_is_that_from_start_to_start():
    # pairs that began at 0, 11, 23 and 33 s: 11, 12 and 10 s, in the middle 11
    records = []
    for i, second in enumerate((0, 11, 23, 33)):
        began = f"2026-01-01T00:00:{second:02d}+00:00"
        records += [replace(each, started_at=began) for each in paired([1.8] * 4)[2 * i : 2 * i + 2]]
    block = forecast.Block(Until(0.02), (TWO,), paired=True)
    assert forecast.block_seconds(records, block) == 11
    assert forecast.block_seconds(records[:2], block) is None
    assert forecast.block_seconds(records, replace(block, paired=False)) is None
    assert block.words(4, 6, 11.0) == "Efficiency to ± 2 %: about 44 s to 66 s (4 to 6 pairs of 11 s)"
    both = replace(block, cases=(TWO, ONE))
    assert both.words(2, None, 60.0, " more") == (
        "Efficiency to ± 2 %: about 2 min more at least (2 blocks of 2 pairs of 60 s)"
    )


def test_the_blocks_needed_hold_the_number_that_it_takes():
    # logs 0, 0.02, 0.01: s = 0.01; at 2 degrees of freedom the quartiles of chi-squared are 0.5754 and 2.7726, so that
    # s lies in 0.0085 to 0.0186. t(k-1) s / sqrt(k) at 96.5 %: 1.83 * 0.0085 = 0.0156 at k = 4 fits 0.02;
    # 1.17 * 0.0186 = 0.0218 at k = 6 does not, 1.04 * 0.0186 = 0.0193 at k = 7 does
    records = paired([1.8, 1.8 * 1.0202, 1.8 * 1.01005])
    until = Until(0.02)
    assert blocks_needed(records, until, unresolved(records, until)) == (4, 7)
    assert blocks_needed(records, Until(1e-6), unresolved(records, until)) == (MOST_LAUNCHES, MOST_LAUNCHES)
    assert blocks_needed(records[:2], until, unresolved(records, until)) is None


def test_three_pairs_are_too_few_however_narrow_their_interval():
    three, four = (gang(paired([1.8] * k)) for k in (3, 4))
    assert half_width(three, "efficiency") == half_width(four, "efficiency") == pytest.approx(0)
    assert [met(one, Until(0.02)) for one in (three, four)] == [False, True]


def test_a_suites_launches_do_not_count_where_until_does():
    asked = plans.of_settings({"suite": "standard", "until": Until(0.01)})
    assert asked.launches < FEWEST_TO_STOP
    assert plans.of_settings({"suite": "standard", "until": Until(0.01), "launches": 7}).launches == 7
    assert 'until = "throughput=0.01"' in to_toml(plans.of_settings({"until": Until(0.01, "throughput")}))
