"""docs/plans.md tells of every setting that there is, and of no other; files with a mistake name it."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpubench
from gpubench.cli.commands import main
from gpubench.harness import batch, quiet
from gpubench.harness.plan import SUITES, Plan, chosen, of_settings
from gpubench.harness.settings import KEYS, from_toml
from gpubench.spec.errors import UsageError

PAGE = (Path(gpubench.__file__).parent.parent / "docs" / "plans.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): cells[1:]
    for line in PAGE.splitlines()
    if line.startswith("| `") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 6
}


def test_the_page_has_every_setting_of_a_plan_with_what_it_may_be():
    assert list(ROWS) == list(KEYS) == [field.name for field in fields(Plan)]
    assert {key: cells[0] for key, cells in ROWS.items()} == {key: kind.words for key, kind in KEYS.items()}


@pytest.mark.parametrize(
    "key", ["launches", "rounds", "round_seconds", "until", "budget_seconds", "wait_quiet_seconds"]
)
def test_the_page_has_the_numbers_that_the_suites_have(key):
    values = {getattr(plan, key) for plan in SUITES.values()}
    told = {float(number) for number in re.findall(r"[0-9.]+", ROWS[key][2])}
    assert told == {value for value in values if value is not None}
    assert (ROWS[key][2] == "none") == (values == {None})


@pytest.mark.parametrize("key", ["device_kind", "precision", "scaling", "paired"])
def test_the_page_has_the_words_that_the_suites_have(key):
    assert {str(getattr(plan, key)).strip("(),'") for plan in SUITES.values()} == {ROWS[key][2].strip('`"')}


@pytest.mark.parametrize("key", KEYS)
def test_every_example_is_a_plan(key):
    settings = from_toml(tomllib.loads(f"{key} = {ROWS[key][3].strip('`')}"), "page")
    assert getattr(of_settings(settings), key) == settings[key]


def test_the_page_has_the_limits_of_the_search_and_of_quiet():
    assert f"a step takes over {batch.SLOWEST_STEP_SECONDS:g} s" in " ".join(PAGE.split())
    assert f"over {batch.MEMORY_SHARE:.0%}".replace("%", " %") in " ".join(PAGE.split())
    assert f"reaches {batch.KNEE:.0%}".replace("%", " %") in " ".join(PAGE.split())
    assert batch.FINEST == 8
    assert f"under {quiet.BUSY_PERCENT:g} % busy for {quiet.QUIET_SECONDS:g} s" in " ".join(PAGE.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload = ['mlp']", "there is no setting 'workload'; did you mean workloads"),
        ("launches = true", "launches must be a whole number; got True"),
        ("launches = 'three'", "launches must be a whole number; got 'three'"),
        ("launches = 2.0", "launches must be a whole number; got 2.0"),
        ("launches = -1", "launches must be 1 to 10,000; got -1"),
        ("rounds = 0", "rounds must be 1 to 20,000; got 0"),
        ("seed = -1", "seed must be 0 to 2,147,483,647; got -1"),
        ("devices = []", "devices must be a whole number or a list of them; got []"),
        ("devices = [1, 'two']", "devices must be a whole number or a list of them"),
        ("devices = [1, true]", "devices must be a whole number or a list of them"),
        ("devices = [[1]]", "devices must be a whole number or a list of them"),
        ("devices = 0", "devices must be 1 to 1,000,000; got 0"),
        ("workloads = []", "workloads must be a name or a list of names; got []"),
        ("workloads = ''", "workloads must be a name or a list of names; got ''"),
        ("workloads = 3", "workloads must be a name or a list of names; got 3"),
        ("precision = 'fp23'", "no precision 'fp23'; did you mean fp32"),
        ("scaling = 'week'", "no scaling 'week'; did you mean weak"),
        ("device_kind = 'gpus'", "no device kind 'gpus'; did you mean gpu"),
        ("paired = 'yess'", "no value of paired 'yess'; did you mean yes"),
        ("paired = true", "paired must be a name; got True"),
        (
            "per_device_batch = [16, 'auto']",
            'per_device_batch must be a whole number, a list of them, "auto" or "knee"',
        ),
        ("per_device_batch = 'most'", 'per_device_batch must be a whole number, a list of them, "auto" or "knee"'),
        ("per_device_batch = []", "per_device_batch must be"),
        ("per_device_batch = [16, 0]", "per_device_batch must be 1 to 1,000,000,000; got 0"),
        ("round_seconds = nan", "round_seconds is not a finite number"),
        ("round_seconds = -1", "round_seconds must be over 0 and under an hour; got -1"),
        ("until = true", 'until must be a number, or a text such as "throughput=0.01"; got True'),
        ("until = 'speed=0.01'", "until must be a number, or"),
        ("until = 'throughput'", "until must be a number, or"),
        ("until = 'throughput=1'", "until must be over 0 and under 1"),
        ("until = 1", "until must be over 0 and under 1"),
        ("until = 0", "until must be over 0 and under 1"),
        ("budget_seconds = -1", "budget_seconds must be 0 or more"),
        ("budget_seconds = inf", "budget_seconds is not a finite number"),
        ("budget_seconds = '20m'", "budget_seconds must be a number; got '20m'"),
        ("wait_quiet_seconds = 1", "wait_quiet_seconds must be 1.5 or more, and finite: it takes so long"),
        ("suite = 'quikc'", "no suite 'quikc'; did you mean quick"),
        ("suite = 1", "suite must be a name; got 1"),
        ("python = 3", "python must be NAME=PATH or a list of them; got 3"),
        (f"seed = {'9' * 300}", "seed is a whole number beyond TOML's 64 bits"),
    ],
)
def test_a_mistake_in_a_plan_file_names_the_key_and_what_it_may_be(tmp_path, text, message):
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=re.escape(message)):
        chosen(None, file, {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--devices", "0"), "--devices takes counts"),
        (("--devices", ""), "--devices is empty"),
        (("--launches", "0"), "launches must be 1 to 10,000; got 0"),
        (("--launches", "2.5"), "not a valid integer"),
        (("--seed", "-1"), "seed must be 0 to"),
        (("--precision", ","), "--precision is empty"),
        (("--per-device-batch", ""), "--per-device-batch is empty"),
        (("--per-device-batch", "0"), "per_device_batch must be 1 to"),
        (("--per-device-batch", "16,auto"), "auto and knee find one batch, so each stands alone"),
        (("--per-device-batch", "16,x"), "takes a number, numbers such as 16,32,64, auto or knee"),
        (("--until", "0%"), "until must be over 0"),
        (("--until", "speed=1%"), "write --until efficiency=1% or --until throughput=1%"),
        (("--until", "throughput=1"), "--until throughput=1 lacks its unit: write --until throughput=1%."),
        (("--until", "throughput="), "takes a percentage"),
        (("--wait-quiet", "1s"), "wait_quiet_seconds must be 1.5 or more"),
    ],
)
def test_a_mistake_in_an_option_is_one_message(words, message):
    done = CliRunner().invoke(main, ["run", "--frameworks", "fake", *words])
    assert done.exit_code == 2
    assert message in done.output


def test_a_count_or_a_batch_named_twice_is_measured_once(gpubench):
    words = ("run", "--frameworks", "fake", "--strategies", "ranks", "--per-device-batch", "16,16,32", "--dry-run")
    done = gpubench(*words, "--devices", "2,2,1")
    cases = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("run")]
    assert len(cases) == len(set(cases)) == 6


def test_an_option_goes_over_the_file_and_the_file_over_the_suite(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text('suite = "full"\nlaunches = 7\nrounds = 3\n')
    plan = chosen("standard", file, {"launches": 2})
    assert (plan.suite, plan.launches, plan.rounds, plan.round_seconds) == ("standard", 2, 3, 2.0)
