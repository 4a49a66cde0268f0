"""`--resume NAME` goes on with that run's own plan; what is no run is refused at once and left as it is."""

import re
import shutil
import tomllib

import pytest
from click.testing import CliRunner

from gpubench.cli.commands import main
from gpubench.files import store
from gpubench.harness import machine
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Plan, of_settings, resolved
from gpubench.harness.settings import from_toml, to_toml
from gpubench.spec.record import Machine
from gpubench.spec.until import Until

FAKE = ("run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1,2", "--no-paired")
BOX = Machine(name="box", os="Linux", cpu="cpu", cores=2, memory_bytes=2**30, nvml_reason="no library")


@pytest.fixture
def journal(tmp_path):
    return lambda: next((tmp_path / "results").rglob("*.jsonl"))


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """What `gpubench WORDS` says, which must end as wrong usage before anything is launched."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 2, result.output
        return result.output

    return run


def ids(path):
    return [(record.case.id, record.launch) for record in store.load(path).records]


def test_resume_alone_does_what_the_whole_run_would_have_done(gpubench, journal, tmp_path):
    words = ("--launches", "2", "--seed", "7", "--per-device-batch", "16,32", "--suite", "standard")
    whole = gpubench(*FAKE, *words, "--save", "whole")
    assert whole.returncode == 0, whole.stderr
    path = journal()
    expected = store.load(path).records
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]))
    done = gpubench("run", "--resume", "whole")
    assert done.returncode == 0, done.stderr
    records = store.load(path).records
    assert path.read_bytes().startswith(b"".join(lines[:5]))
    assert [(r.case, r.launch, r.devices) for r in records] == [(r.case, r.launch, r.devices) for r in expected]
    assert {r.case.per_device_batch for r in records} == {16, 32}
    assert {(len(r.rounds), r.schedule.seed) for r in records} == {(10, 7)}  # the standard suite's rounds


def test_a_run_whose_first_launch_never_ended_is_continued_too(gpubench, journal):
    gpubench(*FAKE, "--launches", "1", "--budget", "0s", "--save", "first")
    assert journal().read_text() == ""
    journal().write_bytes(b'{"schema":1,"record')
    done = gpubench("run", "--resume", "first")
    assert done.returncode == 0, done.stderr
    assert len(ids(journal())) == 3


def test_the_same_selection_may_be_given_again_and_more_launches_are_the_plan_from_then_on(gpubench, journal):
    gpubench(*FAKE, "--launches", "1", "--save", "first")
    gpubench(*FAKE, "--launches", "2", "--resume", "first", "--budget", "0s")
    assert len(ids(journal())) == 3
    assert gpubench("run", "--resume", "first").returncode == 0
    assert len(ids(journal())) == 6


def test_what_contradicts_the_plan_is_refused_and_changes_nothing(gpubench, refused, journal):
    gpubench(*FAKE, "--launches", "2", "--budget", "0s", "--save", "first")
    kept = store.plan_file(journal())
    before = kept.read_bytes()
    for words, told in (
        (("--seed", "3"), "was started with seed 0, and 3 contradicts that"),
        (("--launches", "1"), "It can only get more of them"),
        (("--devices", "2,1,3"), "was started with devices 1, 2, and 1, 2, 3 contradicts that"),
        (("--frameworks", "torch"), "was started with frameworks fake, and torch contradicts that"),
        (("--strategies", "single"), "was started with strategies fake:single, fake:ranks"),
        (("--per-device-batch", "16"), "was started with per_device_batch its default, and 16 contradicts that"),
        (("--per-device-batch", "auto"), "and 'auto' contradicts that"),
        (("--paired",), "was started with paired 'no'"),
        (("--suite", "full"), "was started with suite 'quick'"),
        (("--save", "other"), "leave --save other out"),
    ):
        assert told in refused("run", "--resume", "first", *words)
    assert kept.read_bytes() == before
    assert journal().read_text() == ""


@pytest.mark.parametrize("word", ["nosuch", "", " "])
def test_a_name_that_is_none_is_an_error_before_anything_else(refused, monkeypatch, word):
    monkeypatch.setattr(machine, "describe", lambda: pytest.fail("it looked for devices"))
    told = refused("run", "--resume", word, "--workloads", "nosuch")
    assert re.search("There is no run|name of the run is empty", told)


@pytest.mark.parametrize("content", ['{"a": 1}\n', '{"a": 1}', "notes\nof mine", "", "\x00\x01"])
def test_a_file_that_is_no_journal_is_refused_and_left_as_it_is(refused, tmp_path, content):
    (tmp_path / "notes.jsonl").write_text(content)
    for words in ((), FAKE[1:], ("--dry-run",)):
        assert "holds no record of gpubench" in refused("run", "--resume", "notes.jsonl", *words)
    assert (tmp_path / "notes.jsonl").read_text() == content
    assert [path.name for path in tmp_path.iterdir()] == ["notes.jsonl"]


def test_text_at_the_end_that_is_no_part_of_a_record_is_not_cut_off(gpubench, refused, journal):
    gpubench(*FAKE, "--launches", "1", "--save", "first")
    journal().write_bytes(journal().read_bytes() + b"a note of mine")
    before = journal().read_bytes()
    assert "ends with what is no record" in refused("run", "--resume", "first", "--launches", "2")
    assert journal().read_bytes() == before


def test_a_journal_from_before_plans_is_continued_by_its_selection(gpubench, refused, journal):
    gpubench(*FAKE, "--launches", "1", "--save", "first")
    store.plan_file(journal()).unlink()
    assert "holds other cases" in refused("run", "--resume", "first")
    assert not store.plan_file(journal()).exists()
    assert gpubench(*FAKE, "--launches", "2", "--resume", "first").returncode == 0
    assert len(ids(journal())) == 6
    assert gpubench("run", "--resume", "first", "--launches", "3").returncode == 0  # now its plan is kept
    assert len(ids(journal())) == 9


def test_a_run_goes_on_with_its_own_python(gpubench, refused, journal, tmp_path):
    (tmp_path / "mine").write_text('#!/bin/sh\nexport GPUBENCH_FAKE=\'{"step_seconds": 0.05}\'\nexec python3 "$@"\n')
    (tmp_path / "mine").chmod(0o755)
    words = ("run", "--frameworks", "fake", "--strategies", "single", "--no-paired", "--devices", "1")
    gpubench(*words, "--launches", "1", "--python", "fake=mine", "--save", "first")
    assert gpubench("run", "--resume", "first", "--launches", "2").returncode == 0
    rates = [sum(one.samples for one in r.rounds) / sum(one.seconds for one in r.rounds) for r in records(journal())]
    assert rates[0] == pytest.approx(rates[1])
    other = shutil.copy(tmp_path / "mine", tmp_path / "other")
    assert "was started with python" in refused("run", "--resume", "first", "--python", f"fake={other}")


def records(path):
    return store.load(path).records


def test_plans_and_trials_are_no_runs_and_do_not_disturb_packing(fake, gpubench, journal, tmp_path):
    fake(step_seconds=0.01, sample_seconds=0.001, largest_batch=70)
    gpubench(*FAKE, "--launches", "1", "--per-device-batch", "knee", "--save", "first")
    assert journal().with_suffix(".trials").stat().st_size > 0
    assert [path.name for path in (tmp_path / "results").rglob("*.jsonl")] == ["0001_first.jsonl"]
    assert gpubench("pack", "first", "-o", "first.gpubench.zip").returncode == 0
    assert gpubench("unpack", "first.gpubench.zip", "-o", "there").returncode == 0
    assert gpubench("show", "there").returncode == 0


@pytest.mark.parametrize("until", [None, Until(0.01), Until(0.07, "throughput"), Until(1e-9, "throughput")])
def test_a_plan_is_the_same_after_it_was_written_and_read(until):
    asked = of_settings({"frameworks": ("fake",), "per_device_batch": (16, 32), "until": until, "budget_seconds": 1e-5})
    plan = resolved(asked, BOX, Interpreters())
    text = to_toml(plan)
    assert Plan(**from_toml(tomllib.loads(text), "here")) == plan
    assert resolved(plan, BOX, Interpreters()) == plan
