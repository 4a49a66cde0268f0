"""The command as a user meets it: output, exit codes, and one message for each mistake."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpubench.cli.commands import main
from gpubench.files import store

README = (Path(__file__).parent.parent / "README.md").read_text()
FAKE = ("run", "--frameworks", "fake", "--devices", "1,2", "--launches", "1")


def test_every_command_has_help_with_an_example_and_a_line_in_the_readme():
    for name, command in main.commands.items():
        text = CliRunner().invoke(main, [name, "--help"]).output
        assert "Example" in text, name
        assert f"gpubench {name}" in text, name
        assert f"gpubench {name}" in README, name
        assert all(option.help for option in command.params if option.param_type_name == "option"), name


def test_run_measures_and_shows_and_saves(gpubench, tmp_path):
    done = gpubench(*FAKE, "--save", "first")
    assert done.returncode == 0, done.stderr
    assert "CPU shares" in done.stdout
    assert re.search(r"ranks +2 .* 640 +320 ", done.stdout)
    assert re.search(r"\[5/5\] .* samples/s on CPU shares", done.stderr)
    assert "0001_first.jsonl" in done.stderr
    shown = gpubench("show", "first")
    assert shown.returncode == 0
    assert shown.stdout == done.stdout


def test_show_speaks_csv_markdown_and_json(gpubench):
    gpubench(*FAKE)
    table = list(csv.DictReader(io.StringIO(gpubench("show", "--format", "csv").stdout)))
    rows = json.loads(gpubench("show", "--json").stdout)
    assert len(table) == len(rows) == 7
    assert {row["samples_per_second"] for row in table} == {"320.0", "640.0", ""}
    assert "| --- " in gpubench("show", "--format", "markdown").stdout


def test_report_writes_a_page_and_its_plots(gpubench, tmp_path):
    gpubench(*FAKE)
    done = gpubench("report", "last", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    assert "<html" in (tmp_path / "page.html").read_text()
    assert [path.suffix for path in sorted((tmp_path / "page.plots").iterdir())] == [".png", ".svg"]
    [measured, made] = re.findall(r"\b2\d{3}-\d\d-\d\d \d\d:\d\d UTC", (tmp_path / "page.html").read_text())[:2]
    assert measured <= made


def test_plots_are_of_the_kind_width_and_title_that_were_asked_for(gpubench, tmp_path):
    gpubench(*FAKE)
    done = gpubench("report", "last", "-o", "page.html", "--plots", "pdf", "--width", "84mm", "--title", "Ours")
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in (tmp_path / "page.plots").iterdir()] == [".pdf"]
    for wrong in (["--plots", "gif"], ["--width", "3.3"], ["--width", "1in"], ["--width", "nan"], ["--title", " "]):
        refused = gpubench("report", "last", "-o", "other.html", *wrong)
        assert refused.returncode == 2
        assert wrong[0] in refused.stderr
    assert not (tmp_path / "other.html").exists()


def test_a_run_file_from_elsewhere_reads_the_same(gpubench, tmp_path):
    shown = gpubench(*FAKE).stdout
    (path,) = (tmp_path / "results").rglob("*.jsonl")
    moved = tmp_path / "from a vendor.jsonl"
    path.rename(moved)
    assert gpubench("show", str(moved)).stdout == shown


def test_a_broken_line_is_skipped_with_a_warning_and_counted(gpubench, tmp_path):
    gpubench(*FAKE)
    (path,) = (tmp_path / "results").rglob("*.jsonl")
    path.write_text(path.read_text() + '{"schema": 1, "record_id": ')
    done = gpubench("show")
    assert done.returncode == 0
    assert "1 line of 0001_run.jsonl skipped" in done.stderr
    assert "torn" in done.stderr


def test_dry_run_says_what_would_run_and_what_would_not_and_why(gpubench, tmp_path):
    done = gpubench(*FAKE, "--dry-run")
    assert "run   resnet20-fake-ranks-2x" in done.stdout
    assert re.search(r"skip  resnet20-fake-gpu_only-1x\S+: needs a GPU by design", done.stdout)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("run", "--frameworks", "pytorch"), 2, "no framework 'pytorch'; did you mean torch"),
        (("run", "--workloads", "resnet5"), 2, "no workload 'resnet5'"),
        (("run", "--strategies", "dpp"), 2, "no strategy 'dpp'; did you mean"),
        (("run", "--devices", "two"), 2, "takes counts such as 1,2,4"),
        (("run", "--frameworks", "fake", "--devices", "999"), 2, "ask for 1 to"),
        (("run", "--suite", "quikc"), 2, "no suite 'quikc'; did you mean quick"),
        (("run", "--plan", "nowhere.toml"), 2, "Cannot read nowhere.toml"),
        (("run", "--frameworks", "fake", "--save", "../up"), 2, "cannot be a run's name"),
        (("run", "--frameworks", "fake", "--python", "fake=/no/such"), 2, "there is no program /no/such"),
        (("run", "--python", "nope"), 2, "--python takes NAME=PATH"),
        (("run", "--frameworks", "fake", "--results", "/proc/here"), 2, "Choose another folder with --results"),
        (("run", "--frameworks", "fake", "--strategies", "gpu_only", "--devices", "2"), 3, "needs a GPU by design"),
        (("run", "--frameworks", "fake", "--device-kind", "gpu"), 2, "No GPU was found"),
        (("show", "nothing"), 2, "There is no run 'nothing': there is none in results"),
        (("report", "nothing"), 2, "There is no run 'nothing': there is none in results"),
        (("setup", "pytorch"), 2, "did you mean torch"),
        (("list", "ddpp"), 2, "did you mean ddp"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_a_mistake_gets_one_message_and_an_exit_code(gpubench, words, code, message):
    done = gpubench(*words)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_to_run_has_its_own_exit_code(gpubench, tmp_path):
    done = gpubench("run", "--frameworks", "mxnet", GPUBENCH_HOME=str(tmp_path))
    assert done.returncode == 3
    assert "gpubench setup mxnet" in done.stderr


def test_a_page_that_cannot_be_written_is_named(gpubench):
    gpubench(*FAKE)
    done = gpubench("report", "last", "-o", "/proc/page.html")
    assert done.returncode == 2
    assert "Cannot write /proc/page.html" in done.stderr


def test_who_looks_for_multi_gpu_model_is_told_its_successor(gpubench):
    done = gpubench("list", "multi_gpu_model")
    assert "tensorflow:in_graph" in done.stdout
    assert "multi_gpu_model" in done.stdout


def test_list_as_json_holds_every_combination(gpubench):
    listed = json.loads(gpubench("list", "--json").stdout)
    assert {w["name"]: w["parameters"] for w in listed["workloads"]} == {
        "mlp": 101_770,
        "resnet20": 272_474,
        "resnet50": 25_557_032,
    }
    assert len(listed["strategies"]) == 9


def test_progress_goes_to_stderr_and_quiet_silences_it(gpubench):
    done = gpubench(*FAKE, "--quiet")
    assert "[1/5]" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_runs_get_their_own_numbers(gpubench, tmp_path):
    for _ in range(2):
        gpubench(*FAKE, "--save", "again")
    assert [path.name for path in sorted((tmp_path / "results").rglob("*.jsonl"))] == [
        "0001_again.jsonl",
        "0002_again.jsonl",
    ]
    assert store.find("again", tmp_path / "results").name == "0002_again.jsonl"


@pytest.mark.parametrize("word", ["report", "pack"])
def test_no_command_replaces_a_run_or_a_device_by_what_it_makes(gpubench, tmp_path, word):
    gpubench(*FAKE)
    (journal,) = (tmp_path / "results").rglob("*.jsonl")
    before = journal.read_bytes()
    for target in (str(journal), "/dev/full"):
        done = gpubench(word, "last", "-o", target)
        assert done.returncode == 2
        assert "so it is not replaced" in done.stderr
    assert journal.read_bytes() == before
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--seed", "99999999999999999999"), "seed must be"),
        (("--per-device-batch", "99999999999999999999"), "per_device_batch must be"),
        (("--launches", "1000000000"), "launches must be"),
        (("--budget", "5hs"), "--budget takes a time"),
        (("--frameworks", ""), "--frameworks is empty"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(gpubench, words, message):
    done = gpubench("run", "--frameworks", "fake", *words)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("text", ["wait_quiet_seconds = nan", "budget_seconds = -inf", "suite = [1]"])
def test_a_plan_file_with_nonsense_is_refused(gpubench, tmp_path, text):
    (tmp_path / "plan.toml").write_text(text)
    done = gpubench("run", "--frameworks", "fake", "--plan", "plan.toml", timeout=30)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_naming_a_thing_twice_measures_it_once(gpubench):
    words = ("--workloads", "mlp,mlp", "--precision", "fp32,fp32", "--scaling", "weak,weak", "--devices", "1")
    done = gpubench("run", "--frameworks", "fake,fake", *words, "--dry-run")
    cases = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("run")]
    assert len(cases) == len(set(cases)) == 3


def test_nobody_reading_the_progress_is_no_reason_to_stop(gpubench, tmp_path):
    command = f"{sys.executable} -m gpubench.cli {' '.join(FAKE)} 2>&1 >/dev/null | head -1"
    subprocess.run(["bash", "-c", command], check=False, timeout=120, capture_output=True)
    records = store.load(store.find("last", tmp_path / "results")).records
    assert sum(record.outcome.status == "ok" for record in records) == 5


def test_resume_refuses_what_is_no_part_of_what_is_asked_for(gpubench, tmp_path):
    gpubench(*FAKE, "--save", "first")
    (journal,) = (tmp_path / "results").rglob("*.jsonl")
    before = journal.read_bytes()
    other = gpubench("run", "--frameworks", "fake", "--workloads", "mlp", "--resume", "first")
    assert other.returncode == 2
    assert "was started with workloads resnet20, and mlp contradicts that" in other.stderr
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text('{"a": 1}\n')
    assert gpubench(*FAKE, "--resume", str(foreign)).returncode == 2
    assert journal.read_bytes() == before
    assert foreign.read_text() == '{"a": 1}\n'


def test_a_terminal_without_width_or_unicode_still_shows_the_table(gpubench):
    gpubench(*FAKE)
    shown = gpubench("show", COLUMNS="0", PYTHONIOENCODING="ascii")
    assert shown.returncode == 0
    assert "ranks" in shown.stdout
