"""The journal: written so that nothing finished is lost, read so that nothing broken is believed."""

import json
import subprocess
import threading
from pathlib import Path

import pytest

from gpubench import store
from gpubench.spec.errors import GpubenchError, UsageError
from gpubench.spec.record import to_json
from tests.builders import make_record


@pytest.fixture
def journal(tmp_path):
    return store.Journal.create(tmp_path, "box", "first")


def test_what_is_written_is_read_back_the_same(journal):
    written = [make_record(launch=launch) for launch in (1, 2, 3)]
    for record in written:
        journal.append(record)
    run = store.load(journal.path)
    assert run.records == written
    assert run.name == "first"
    assert run.warnings == []


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
    with pytest.raises(GpubenchError, match=r"No space left on device.*free some space"):
        for launch in range(1, 1000):
            journal.append(make_record(launch=launch))
            written = launch
    assert 0 < written < 999
    run = store.load(journal.path)
    assert [record.launch for record in run.records] == list(range(1, written + 1))
    assert run.warnings == []
