"""`--until` measures what it names and no more, ends at the first block that has it, and says how long it takes."""

import re
import sys

import pytest

from gpubench.analysis.precision import MOST_LAUNCHES, blocks_needed, half_width, met, unresolved
from gpubench.analysis.scaling import summarize
from gpubench.analysis.stats import FEWEST_TO_STOP
from gpubench.files import store
from gpubench.harness import plan as plans
from gpubench.harness.settings import to_toml
from gpubench.spec.until import Until
from tests.analysis.test_pairs import paired

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
    done = gpubench(*RANKS, "--until", "7%", "--python", f"fake={noisy_python}", "--budget", "90s", timeout=150)
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


def test_how_long_it_takes_is_told_before_from_an_earlier_run_and_is_not_absurd(gpubench, records, fake):
    fake(**STEADY, real_time=True)
    words = (*RANKS, "--until", "5%", "--launches", "4")
    first = gpubench(*words, "--save", "first")
    assert first.returncode == 0, first.stderr
    assert "Efficiency to ± 5 %: how long it takes is told after the first pairs." in first.stderr
    assert re.search(r"more at least \([0-9]+ pairs of [0-9]+ s\), by what was measured so far", first.stderr)
    dry = gpubench(*words, "--dry-run")
    assert re.search(r"Efficiency to ± 5 %: about .* pairs of [0-9]+ s\), by 0001_first", dry.stdout)
    low, high = told_seconds(dry.stdout.partition("Efficiency")[2])
    found = pairs_of(records("first"))
    took = sum(r.warmup.seconds + 2 * sum(one.seconds for one in r.rounds) for r in found)
    assert 0.5 * took < low <= high < 6 * took
    unlike = gpubench("run", "--frameworks", "fake", "--strategies", "replicas", "--until", "5%", "--dry-run")
    assert "is told after the first pairs" in unlike.stdout


def test_the_blocks_needed_hold_the_number_that_it_takes():
    # logs 0, 0.02, 0.01: s = 0.01; at 2 degrees of freedom the quartiles of chi-squared are 0.5754 and 2.7726, so that
    # s lies in 0.0085 to 0.0186. ± 2 % of t(k-1) s / sqrt(k) at 96.5 %: k = 4 has 1.833 s, 6 has 1.164 s, 7 has 1.032 s
    records = paired([1.8, 1.8 * 1.0202, 1.8 * 1.01005])
    until = Until(0.02)
    assert blocks_needed(records, until, unresolved(records, until)) == (4, 6)
    assert blocks_needed(records, Until(1e-6), unresolved(records, until)) == (MOST_LAUNCHES, MOST_LAUNCHES)
    assert blocks_needed(records[:2], until, unresolved(records, until)) is None


def test_three_pairs_are_too_few_however_narrow_their_interval(paired):
    three, four = (gang(paired([1.8] * k)) for k in (3, 4))
    assert half_width(three, "efficiency") == half_width(four, "efficiency") == pytest.approx(0)
    assert [met(one, Until(0.02)) for one in (three, four)] == [False, True]


def test_a_suites_launches_do_not_count_where_until_does():
    asked = plans.of_settings({"suite": "standard", "until": Until(0.01)})
    assert asked.launches < FEWEST_TO_STOP
    assert plans.of_settings({"suite": "standard", "until": Until(0.01), "launches": 7}).launches == 7
    assert 'until = "throughput=0.01"' in to_toml(plans.of_settings({"until": Until(0.01, "throughput")}))
