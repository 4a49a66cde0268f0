"""The journal: written so that nothing finished is lost, read so that nothing broken is believed."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.files import line, reducing, store
from gpubench.spec.errors import GpubenchError, UsageError
from gpubench.spec.record import to_json
from tests.builders import make_record


@pytest.fixture
def journal(tmp_path):
    return store.Journal.create(tmp_path, "box", "first")


def test_what_is_written_is_read_back_the_same(journal):
    made = [make_record(launch=launch) for launch in (1, 2, 3)]
    written = [journal.append(record) for record in made]
    run = store.load(journal.path)
    assert run.records == written
    assert run.name == "first"
    assert run.warnings == []


def test_series_lie_apart_and_a_trace_can_be_drawn_again(journal):
    made = [make_record(launch=launch, record_id=f"{launch:032}") for launch in (1, 2)]
    for record in made:
        journal.append(record)
    first, second = (record.whole() for record in reducing.with_traces(reducing.load(journal.path)).records)
    assert first.telemetry.devices == made[0].telemetry.devices
    assert (journal.path.parent / second.telemetry.series_file).is_file()
    assert second.telemetry.devices[0].series == {}, "one trace a case is drawn; the others need not fill the memory"
    assert second.telemetry.devices[0].rounds == made[1].telemetry.devices[0].rounds


def test_a_trace_that_is_gone_costs_the_trace_alone(journal):
    made = [journal.append(make_record(launch=launch, record_id=f"{launch:032}")) for launch in (1, 2)]
    (journal.path.parent / made[0].telemetry.series_file).unlink()
    run = reducing.with_traces(reducing.load(journal.path))
    assert [record.launch for record in run.records] == [1, 2]
    assert [bool(record.whole().telemetry.devices[0].time_ns) for record in run.records] == [False, True]
    assert len(run.warnings) == 1
    assert "launch 1: no trace: Cannot read the series" in run.warnings[0]


def test_where_all_traces_are_gone_one_warning_says_so(journal):
    for launch in range(1, 6):
        journal.append(make_record(launch=launch, record_id=f"{launch:032}"))
    shutil.rmtree(journal.path.with_suffix(".series"))
    (warning,) = reducing.with_traces(reducing.load(journal.path)).warnings
    assert "launch 1: no trace" in warning
    assert warning.endswith("(so it is with 4 more)")


def test_the_series_of_another_launch_are_no_trace_of_this_one(journal):
    record = make_record(record_id="1" * 32)
    hour_ns = 3600 * 10**9
    later = [replace(one, start_ns=one.start_ns + hour_ns, end_ns=one.end_ns + hour_ns) for one in record.rounds]
    journal.append(replace(record, rounds=later))
    run = reducing.with_traces(reducing.load(journal.path))
    assert run.records[0].whole().telemetry.devices[0].time_ns == []
    assert "has no reading from the time of its rounds" in run.warnings[0]


def test_series_that_cannot_be_written_apart_stay_in_the_record(journal):
    journal.path.with_suffix(".series").write_text("in the way")
    told = []
    journal.say = told.append
    record = make_record()
    first, written = (journal.append(replace(record, record_id=n * 32)) for n in "12")
    assert written.telemetry.devices == record.telemetry.devices
    assert written.telemetry.series_inside == "FileExistsError: File exists"
    assert store.load(journal.path).records == [first, written]
    (only,) = told
    assert "could not be written to a file of their own (FileExistsError: File exists); they stay in the rec" in only


@pytest.mark.parametrize("error", [MemoryError(), ImportError("cannot map libarrow.so"), OSError(28, "No space left")])
def test_a_record_never_depends_on_its_series_file(journal, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("gpubench.files.series.save", fail)
    record = make_record()
    journal.append(record)
    (read,) = store.load(journal.path).records
    assert read.telemetry.devices == record.telemetry.devices
    assert type(error).__name__ in read.telemetry.series_inside


@pytest.mark.parametrize(
    ("limit", "of_record"),
    [("LARGEST_LINE", len), ("MOST_VALUES", lambda text: text.count(",")), ("MOST_OBJECTS", lambda text: 1500)],
)
@pytest.mark.parametrize("is_rescued", [False, True])
def test_series_that_would_make_a_line_too_large_to_read_are_left_out_and_said_to_be(
    journal, monkeypatch, limit, of_record, is_rescued
):
    record = make_record()
    times = list(range(40_000))
    many = {"series": [1.0] * len(times), **{f"series{n}": [] for n in range(2000)}}
    devices = [replace(record.telemetry.devices[0], time_ns=times, series=many)]
    record = replace(record, telemetry=replace(record.telemetry, devices=devices))
    journal.path.with_suffix(".series").write_text("in the way")
    told = []
    journal.say = told.append
    monkeypatch.setattr(line, limit, of_record(to_json(record)) - 100)
    if is_rescued:
        journal.path.unlink()
        with pytest.raises(GpubenchError, match="deleted"):
            journal.append(record)
    else:
        journal.append(record)
        assert "too large to stay in the record, and are lost" in told[-1]
    (path,) = journal.path.parent.glob("*.jsonl")
    (read,) = store.load(path).records
    assert read.telemetry.devices
    assert read.telemetry.devices[0].time_ns == []
    assert "too large to stay in the record" in read.telemetry.series_inside


def test_a_record_that_cannot_be_written_leaves_no_series_behind(journal):
    journal.path.unlink()
    with pytest.raises(GpubenchError, match="deleted"):
        journal.append(make_record())
    assert list(journal.path.parent.rglob("*.parquet")) == []


def test_runs_are_numbered_beside_pytest_benchmarks_files(tmp_path):
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "0007_old.json").write_text("{}")
    assert store.Journal.create(tmp_path, "box", "new").path.name == "0008_new.jsonl"


def test_two_runs_at_once_take_different_numbers(tmp_path):
    paths = []
    create = lambda: paths.append(store.Journal.create(tmp_path, "box", "same").path)  # noqa: E731
    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path.name[:4] for path in paths}) == 8


def test_a_torn_last_line_is_recognised_and_the_rest_is_read(journal):
    for launch in (1, 2):
        journal.append(make_record(launch=launch))
    whole = journal.path.read_bytes()
    for cut in (2, 10, 200):
        journal.path.write_bytes(whole[:-cut])
        run = store.load(journal.path)
        assert [record.launch for record in run.records] == [1]
        assert len(run.warnings) == 1
        assert "line 2: skipped (torn: the run was cut off here)" in run.warnings[0]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("{}", "schema"),
        ("[]", "not a record"),
        ("\x00\x01", "not a record"),
        ('{"schema": 99}', "upgrade gpubench"),
        ('{"schema": 1}', "not a record of schema 1"),
        ("[" * 100_000, "not a record"),
        ('{"schema": NaN}', "not a record"),
        ('{"schema": 0}', "there was no schema before 1"),
        ('{"schema": 1, "more": ' + "[" * 100_000, "not a record"),
    ],
)
def test_a_line_that_is_no_record_is_skipped_and_said_so(journal, line, word):
    journal.append(make_record())
    with journal.path.open("a") as file:
        file.write(line + "\n")
    run = store.load(journal.path)
    assert len(run.records) == 1
    assert word in run.warnings[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [("launch", "one"), ("case", None), ("rounds", [{"index": 0}]), ("outcome", {"status": "great"})],
)
def test_a_field_of_the_wrong_type_is_named(field, value):
    record = json.loads(to_json(make_record()))
    record[field] = value
    with pytest.raises(ValueError, match=rf"\$\.{field}"):
        store.decode(json.dumps(record))


def test_a_file_without_any_record_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text("hello\n")
    with pytest.raises(UsageError, match="holds no readable record"):
        store.load(tmp_path / "x.jsonl")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 200, "a b"])
def test_a_name_that_is_no_file_name_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="cannot be a run's name"):
        store.Journal.create(tmp_path, "box", name)


def test_a_results_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Choose another folder with --results"):
        store.Journal.create(tmp_path / "file", "box", "first")


def test_a_run_is_found_by_number_name_path_and_last(tmp_path):
    paths = [store.Journal.create(tmp_path, "box", name).path for name in ("first", "second", "first")]
    assert store.find("first", tmp_path) == paths[2]
    assert store.find("2", tmp_path) == paths[1]
    assert store.find("0001", tmp_path) == paths[0]
    assert store.find("last", tmp_path) == paths[2]
    assert store.find(str(paths[0]), tmp_path / "elsewhere") == paths[0]
    with pytest.raises(UsageError, match="did you mean second"):
        store.find("secnd", tmp_path)


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a small file system here: " + mounted.stderr.decode().strip())
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_loses_no_finished_record(small_disk: Path):
    journal = store.Journal.create(small_disk, "box", "first")
    written = 0

    def fill() -> None:
        nonlocal written
        for launch in range(1, 1000):
            journal.append(make_record(launch=launch))
            written = launch

    with pytest.raises(GpubenchError, match=r"No space left on device.*free some space"):
        fill()
    journal.close()
    assert 0 < written < 999
    run = store.load(journal.path)
    assert [record.launch for record in run.records] == list(range(1, written + 1))
    assert run.warnings == []


def test_a_journal_that_is_deleted_in_mid_run_is_said_to_be(journal):
    journal.path.unlink()
    with pytest.raises(GpubenchError, match="was deleted or moved"):
        journal.append(make_record())


def cut(path):
    os.truncate(path, path.stat().st_size - 10)


def replace_file(path):
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def add(path):
    with path.open("a") as file:
        file.write("{}\n")


def spoil(path):
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"#" + content[101:])


def delete_folder(path):
    shutil.rmtree(path.parent)


SPOILT = {cut: "was cut off", replace_file: "was replaced", add: "was written to", spoil: "was changed"}
DAMAGES = {**SPOILT, Path.unlink: "was deleted", delete_folder: "was deleted"}


@pytest.mark.parametrize("at_the_end", [False, True])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_what_others_do_to_a_journal_is_noticed_and_no_finished_record_is_lost(journal, damage, at_the_end):
    before = [journal.append(make_record(launch=launch, record_id=f"{launch:032}")) for launch in (1, 2)]
    last = make_record(launch=3, record_id=f"{3:032}")
    damage(journal.path)
    with pytest.raises(GpubenchError, match=DAMAGES[damage]) as told:
        journal.see_that_it_stands(at_the_end=True) if at_the_end else journal.append_all([last])
    rescued = Path(re.search(r"finished records are in (\S+)\. ", str(told.value))[1])
    kept = store.load(rescued).records
    assert [record.launch for record in kept] == ([1, 2] if at_the_end else [1, 2, 3])
    assert kept[:2] == before
    assert rescued.parent == journal.path.parent
    journal.see_that_it_stands(at_the_end=True)  # told once


def test_a_journal_that_was_only_touched_stands(journal):
    journal.append(make_record(launch=1))
    os.utime(journal.path, (1, 1))
    journal.append(make_record(launch=2, record_id="2" * 32))
    journal.see_that_it_stands(at_the_end=True)


def test_a_run_that_is_being_written_cannot_be_continued_by_another(journal):
    journal.append(make_record(launch=1))
    with pytest.raises(UsageError, match="is being written by another gpubench"):
        store.Journal.reopen(journal.path)
    journal.append(make_record(launch=2))  # the first is not disturbed
    journal.close()
    assert len(store.Journal.reopen(journal.path).records) == 2


def test_a_process_that_is_killed_leaves_no_lock(tmp_path):
    code = f"""
import os, pathlib, signal
from gpubench.files import store
journal = store.Journal.create(pathlib.Path({str(tmp_path)!r}), "box", "first")
journal.keep_plan("launches = 1")
os.kill(os.getpid(), signal.SIGKILL)"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert store.Journal.reopen(tmp_path / "box" / "0001_first.jsonl").records == []


@pytest.mark.parametrize("cut", [1, 2, 10, 200])
def test_a_run_is_continued_behind_its_last_finished_record(journal, cut):
    for launch in (1, 2):
        journal.append(make_record(launch=launch))
    journal.close()
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-cut])
    again = store.Journal.reopen(journal.path)
    kept = [1, 2] if cut == 1 else [1]  # only its newline is missing: the record is whole
    assert [record.launch for record in again.records] == kept
    again.append(make_record(launch=3))
    run = store.load(journal.path)
    assert [record.launch for record in run.records] == [*kept, 3]
    assert run.warnings == []


def test_what_a_newer_gpubench_has_written_stays_when_a_run_is_continued(journal):
    journal.append(make_record())
    journal.close()
    with journal.path.open("a") as file:
        file.write('{"schema": 99}')
    store.Journal.reopen(journal.path).append(make_record(launch=2))
    run = store.load(journal.path)
    assert len(run.records) == 2
    assert "upgrade gpubench" in run.warnings[0]


def test_a_run_that_is_not_there_cannot_be_continued(tmp_path):
    with pytest.raises(UsageError, match=r"Cannot read .*0001_none.jsonl: No such file"):
        store.Journal.reopen(tmp_path / "0001_none.jsonl")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("launch",), -1, "launch is -1; it must be 0 to 1000000"),
        (("case", "n_devices"), 0, "case.n_devices is 0; it must be 1 to"),
        (("case", "global_batch"), 10**400, "an integer of about 398 digits"),
        (("case", "workload"), "x" * 65, "case.workload is 65 characters long, over 64"),
        (("machine", "os"), "x" * 10_001, "machine.os is 10001 characters long"),
        (("machine", "memory_bytes"), 2**63, "beyond 9223372036854775807"),
        (("machine", "devices", 0, "name"), "x" * 201, "name is 201 characters long"),
        (("observed", "parameters"), -1, r"observed.parameters is negative \(-1\)"),
        (("observed", "loss_first"), 1e300, "observed.loss_first is 1e\\+300, beyond"),
        *(
            (("started_at",), word, "started_at is no date and time")
            for word in ("yesterday", "2026-01-01T00:00:00", "")
        ),
        (("rounds", 1, "end_ns"), 5, "round 1 ends before it begins"),
        (("rounds", 1, "index"), 0, "two rounds have the same index"),
        (("rounds", 1, "steps"), 0, "round 1 has 0 steps"),
        (("rounds", 1, "samples"), -1, "round 1 has -1 samples"),
        (("rounds", 1, "rank_seconds"), [0.0], "round 1 took a rank no time that can be"),
        (("rounds", 1, "rank_seconds"), [1e10], "round 1 took a rank no time that can be"),
        (("rounds", 1, "rank_seconds"), [], "round 1 has no rank's time"),
        (("rounds", 1, "rank_cpu_seconds"), [1.0, 1.0], "round 1 has 1 wall times and 2 CPU times"),
        (("rounds", 1, "rank_cpu_seconds"), [-1.0], "rank_cpu_seconds is negative"),
        (("warmup", "seconds"), -2.5, r"warmup.seconds is negative \(-2.5\)"),
        (("telemetry", "devices", 0, "time_ns"), [1, 2], "values of utilization_percent at 2 times"),
        (("telemetry", "devices", 0, "rounds", 0, "power_watts"), -5.0, r"power_watts is negative \(-5\)"),
        (("telemetry", "series_file"), "../../etc/passwd", "series_file is no file beside the journal"),
        (("telemetry", "series_file"), "/etc/passwd", "series_file is no file beside the journal"),
        (("outcome", "log_tail"), ["x"] * 1_000_001, "outcome.log_tail has 1000001 entries"),
        (("software", "x" * 201), "1", "software has a name of 201 characters"),
    ],
)
def test_a_record_that_makes_no_sense_is_refused_with_one_sentence(path, value, sentence):
    record = json.loads(to_json(make_record()))
    holder = record
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    with pytest.raises(ValueError, match=sentence) as refused:
        store.decode(json.dumps(record))
    assert len(str(refused.value)) < 400


def test_temperatures_and_losses_may_lie_below_zero():
    record = json.loads(to_json(make_record()))
    record["observed"]["loss_last"] = -3.5
    record["telemetry"]["devices"][0]["rounds"][0]["temperature_celsius"] = -10.0
    assert store.decode(json.dumps(record)).observed.loss_last == -3.5


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_what_an_editor_does_to_a_file_does_no_harm(tmp_path, ending, mark):
    lines = [to_json(make_record(launch=launch)) for launch in (1, 2)]
    path = tmp_path / "edited.jsonl"
    path.write_bytes(mark + ending.join([*lines, ""]).encode())
    run = store.load(path)
    assert [record.launch for record in run.records] == [1, 2]
    assert run.warnings == []


def test_the_last_of_two_equal_keys_counts_and_its_type_too():
    line = to_json(make_record(launch=1))
    assert store.decode(line[:-1] + ',"launch":2}').launch == 2
    with pytest.raises(ValueError, match="launch"):
        store.decode(line[:-1] + ',"launch":"two"}')


def pipe(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


def loop(path):
    path.symlink_to(path)


def device(path):
    path.symlink_to("/dev/zero")


def unreadable(path):
    path.symlink_to("/proc/self/mem")  # a file, but reading it fails


def enormous(path):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def one_endless_line(path):
    with path.open("wb") as file:
        file.truncate(200 << 20)


def empty(path):
    path.touch()


def packed(path):
    path.write_bytes(gzip.compress((to_json(make_record()) + "\n").encode()))


def wide(path):
    path.write_text(to_json(make_record()) + "\n", encoding="utf-16")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (pipe, "no regular file"),
        (folder, "Is a directory"),
        (device, "no regular file"),
        (loop, "Too many levels of symbolic links"),
        (unreadable, "Cannot read"),
        (enormous, "is larger than 2048 MiB"),
        (one_endless_line, "longer than 32 MiB"),
        (empty, "cut off before its first launch had ended"),
        (packed, "holds no readable record"),
        (wide, "holds no readable record"),
    ],
)
def test_what_is_no_file_of_records_is_refused_at_once(tmp_path, make, words):
    path = tmp_path / "0001_odd.jsonl"
    make(path)
    with pytest.raises(UsageError, match=words):
        store.load(path)


def test_of_many_broken_lines_some_are_shown_and_all_are_counted(journal):
    journal.append(make_record())
    with journal.path.open("a") as file:
        file.write("broken\n" * 5000)
    run = store.load(journal.path)
    assert (len(run.records), len(run.warnings), run.skipped_lines) == (1, store.WARNINGS_TOLD, 5000)


def test_a_file_of_endless_blank_lines_is_refused(tmp_path):
    (tmp_path / "blank.jsonl").write_bytes(b"\n" * 1_000_001)
    with pytest.raises(UsageError, match="over 1,000,000 lines"):
        store.load(tmp_path / "blank.jsonl")


def test_a_warning_holds_nothing_that_a_terminal_would_obey(tmp_path):
    path = tmp_path / "0001_\x1b[31mred.jsonl"
    record = json.loads(to_json(make_record()))
    record["outcome"]["status"] = "\x1b]0;title\x07\u202e" * 100
    path.write_text(to_json(make_record()) + "\n" + json.dumps(record) + "\n")
    (warning,) = store.load(path).warnings
    assert warning.isprintable()
    assert len(warning) <= store.LONGEST_WARNING


def test_a_word_too_long_for_a_path_is_no_run(tmp_path):
    store.Journal.create(tmp_path, "box", "first")
    with pytest.raises(UsageError, match="There is no file x"):
        store.find("x" * 5000 + ".jsonl", tmp_path)
