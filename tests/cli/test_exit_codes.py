"""Whoever gates on `gpubench run` gets red, or "not resolved", and never green without a number."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpubench.analysis.precision import unresolved
from gpubench.analysis.scaling import summarize
from gpubench.analysis.shortfall import shortfall
from gpubench.cli.commands import main
from gpubench.spec import errors
from gpubench.spec.record import Check
from gpubench.spec.until import Until
from tests.builders import make_case, make_launches, make_lost, make_record

README = (Path(__file__).parents[2] / "README.md").read_text()
FAKE = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2", "--launches", "1", "--no-paired")
ONE, TWO = make_case("single", 1), make_case("ddp", 2)
UNEQUAL = Check(name="world_size", severity="severe", message="the framework counted 1 device")
LOADED = Check(name="foreign_load", severity="severe", message="other processes took 40 %")


def test_the_readme_and_the_help_have_the_codes_that_the_errors_carry():
    rows = {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE)}
    assert rows == errors.EXIT_CODES
    text = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert all(f"{code} {meaning}" in text for code, meaning in errors.EXIT_CODES.items())
    kinds = (errors.GpubenchError, errors.UsageError, errors.NothingToRunError, errors.NotResolvedError)
    assert [kind.exit_code for kind in kinds] == [1, 2, 3, 4]


def test_a_case_whose_number_a_check_took_away_is_red_and_named(gpubench, fake):
    fake(world_size=1)
    done = gpubench(*FAKE)
    assert done.returncode == 1
    assert "resnet20-fake-ranks-2x" in done.stderr
    assert "has no number: world size: the framework counted 1 device" in done.stderr
    assert "fake-single" not in done.stderr.partition("Saved in")[2].partition("\ngpubench: ")[2]


def test_a_launch_that_died_is_red_and_named(gpubench, fake):
    fake(misbehave={"rank": 1, "phase": "build", "how": "die"})
    done = gpubench(*FAKE)
    assert done.returncode == 1
    assert re.search(r"gpubench: resnet20-fake-ranks-2x\S+ has no number: rank died", done.stderr)


def test_cases_that_the_budget_left_without_a_launch_are_not_resolved(gpubench):
    done = gpubench(*FAKE, "--budget", "0s")
    assert done.returncode == 4
    assert len(re.findall(r"gpubench: not resolved: \S+ has no number: no launch of it was started", done.stderr)) == 3


def test_an_interval_that_stays_too_wide_is_not_resolved(gpubench):
    done = gpubench(*FAKE, "--until", "1%", "--budget", "0s")
    assert done.returncode == 4
    cases, one = [ONE], make_launches(ONE, [100, 120, 90])
    of_throughput = Until(0.01, "throughput")
    (told,) = shortfall(cases, summarize(one), until=of_throughput).unresolved
    assert "has its throughput known to ± " in told
    assert "was to be known to ± 1 %" in told
    (told,) = shortfall(cases, summarize(one[:1]), until=of_throughput).unresolved
    assert "has no interval of its throughput" in told
    (told,) = shortfall(cases, summarize(make_launches(ONE, [100.0] * 3)), until=of_throughput).unresolved
    assert "too few launches" in told
    assert shortfall(cases, summarize(make_launches(ONE, [100.0] * 5)), until=of_throughput).unresolved == ()
    assert shortfall(cases, summarize(one), until=Until(0.01)).unresolved == ()  # one device has no efficiency


def test_what_was_asked_for_by_its_name_and_cannot_run_is_not_passed_over(gpubench):
    done = gpubench("run", "--frameworks", "fake", "--strategies", "gpu_only", "--devices", "1", "--launches", "1")
    assert done.returncode == 3
    assert "gpu_only was asked for, and nothing of it can run here: needs a GPU by design" in done.stderr
    unnamed = gpubench("run", "--frameworks", "fake", "--devices", "1", "--launches", "1")
    assert unnamed.returncode == 0  # the same strategy, as a part of all there is


def test_a_dry_run_of_nothing_ends_as_the_run_would(gpubench, tmp_path):
    words = ("run", "--frameworks", "mxnet", "--dry-run")
    assert gpubench(*words, GPUBENCH_HOME=str(tmp_path)).returncode == 3


def test_launches_set_aside_take_the_number_away_once_too_few_count():
    busy = [make_record(ONE, launch=launch, checks=[LOADED]) for launch in (1, 2)]
    quiet = [make_record(ONE, launch=launch) for launch in (3, 4, 5)]
    assert shortfall([ONE], summarize(busy + quiet)).failed == ()
    (told,) = shortfall([ONE], summarize(busy + quiet[:1])).failed
    assert "foreign load" in told
    assert "1 of 3 launches count" in told


def test_a_lost_launch_is_red_although_others_gave_a_number_unless_it_was_repeated():
    lost = make_lost(ONE, "timeout", "build took longer than 600 s", launch=2)
    good = make_launches(ONE, [100.0, 101.0])
    (told,) = shortfall([ONE], summarize([*good, lost])).failed
    assert "lost launch 2: timeout: build took longer than 600 s" in told
    repeated = make_record(ONE, launch=2, started_at="2026-01-02T00:00:00+00:00")
    assert shortfall([ONE], summarize([*good, lost, repeated])).failed == ()


def test_a_case_of_other_work_asks_for_no_more_launches():
    good = make_launches(ONE, [100.0, 120.0, 90.0])
    other = [make_record(TWO, launch=launch, checks=[UNEQUAL]) for launch in (1, 2, 3)]
    assert unresolved([*good, *other], Until(0.01, "throughput")) == {ONE.id}
    assert unresolved([*good, *other], Until(0.01)) == set()


def test_a_case_whose_last_four_launches_failed_asks_for_no_more():
    good = make_launches(ONE, [100.0, 120.0, 90.0, 110.0])
    lost = [make_lost(ONE, "timeout", "no answer", launch=launch) for launch in (4, 5, 6, 7)]
    until = Until(0.01, "throughput")
    assert unresolved([*good, *lost[:3]], until) == {ONE.id}
    assert unresolved([*good, *lost], until) == set()


@pytest.mark.parametrize(("redirection", "code"), [(">&-", 0), (">/dev/full", 0), ("2>&-", 0), ("2>/dev/full", 0)])
def test_a_run_ends_as_it_went_whoever_takes_its_output(gpubench, tmp_path, redirection, code):
    command = f"{sys.executable} -m gpubench.cli {' '.join(FAKE)} {redirection}"
    script = tmp_path / "run.sh"
    script.write_text(command)
    done = subprocess.run(["bash", str(script)], check=False, timeout=120, capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    assert len(next((tmp_path / "results").rglob("*.jsonl")).read_text().splitlines()) == 3


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_a_table_that_nobody_gets_is_no_success(gpubench, tmp_path, redirection):
    command = f"{sys.executable} -m gpubench.cli list {redirection}"
    done = subprocess.run(["bash", "-c", command], check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search("^gpubench: ", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr
