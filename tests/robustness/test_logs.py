"""Logs: of a size that a disk bears, and no launch depends on one."""

import os
import shutil
import subprocess
import threading

import pytest

from gpubench.harness.gang import log as logs
from gpubench.harness.gang.log import Log
from tests.robustness.conftest import wait_until

FEW = ("--strategies", "single", "--devices", "1", "--launches", "1")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(logs, "HEAD_BYTES", 1000)
    monkeypatch.setattr(logs, "TAIL_BYTES", 100)


def printed(log, content):
    with os.fdopen(log.writing, "wb") as file:
        file.write(content)
    log.close()
    return log.path.read_bytes() if log.path.exists() else None


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 1100])
def test_what_fits_is_kept_whole(tmp_path, small, size):
    content = os.urandom(size)
    assert printed(Log(tmp_path / "a.log"), content) == content


def test_of_what_does_not_fit_beginning_and_end_are_kept_and_the_rest_is_counted(tmp_path, small):
    content = b"a" * 1000 + b"b" * 123_456 + b"c" * 100
    kept = printed(Log(tmp_path / "a.log"), content)
    assert kept == b"a" * 1000 + b"\n[gpubench: 123,456 bytes are left out here]\n" + b"c" * 100


def test_a_worker_that_prints_without_end_is_not_held_up_and_its_log_is_small(harness):
    fake = {"misbehave": {"rank": 0, "phase": "step", "how": "flood", "megabytes": 100}}
    done = harness.run(*harness.bench(*FEW), fake=fake)
    assert done.returncode == 0, done.stderr
    (log,) = harness.results.rglob("*.log")
    assert log.stat().st_size < 16 << 20
    assert b"bytes are left out here" in log.read_bytes()


def test_a_log_folder_that_is_gone_is_made_again(harness):
    process = harness.start(*harness.bench(*FEW, "--launches", "4"))
    wait_until(lambda: harness.finished() >= 1)
    shutil.rmtree(harness.journal().with_suffix(".logs"))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert {record.outcome.status for record in harness.records()} == {"ok"}


def test_a_launch_goes_on_without_a_log_where_none_can_be_made_and_still_has_its_last_words(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    log = Log(in_the_way / "a.log")
    os.write(log.writing, b"last words")
    os.close(log.writing)
    log.close()
    assert log.last(100) == b"last words"
    assert log.problem == "File exists"  # and is no folder


def test_a_disk_that_is_full_of_files_costs_the_logs_and_the_series_and_no_record(harness, mounted):
    disk = mounted("size=8m,nr_inodes=8")
    done = harness.run("run", "--frameworks", "fake", *FEW, "--launches", "5", "--results", str(disk))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("could not be written to a file of their own") == 1
    (journal,) = disk.rglob("*.jsonl")
    assert journal.read_bytes().count(b"\n") == 5


def test_a_child_that_holds_the_log_open_holds_nothing_else_up(tmp_path):
    log = Log(tmp_path / "a.log")
    child = subprocess.Popen(["sleep", "60"], stdout=log.writing)
    os.write(log.writing, b"said")
    os.close(log.writing)
    closing = threading.Thread(target=log.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    child.kill()
    child.wait()
    assert log.path.read_bytes() == b"said"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("mine.txt")], ids=["a pipe", "a link"])
def test_what_another_has_put_in_place_of_a_log_is_replaced_and_neither_opened_nor_followed(tmp_path, make):
    (tmp_path / "mine.txt").write_text("mine")
    make(tmp_path / "a.log")
    assert printed(Log(tmp_path / "a.log"), b"said") == b"said"
    assert (tmp_path / "mine.txt").read_text() == "mine"
