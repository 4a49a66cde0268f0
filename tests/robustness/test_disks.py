"""Disks that are full, folders that cannot be written, and two runs that want the same one."""

import os

from gpubench.files import store

FEW = ("--strategies", "single", "--devices", "1")


def test_a_disk_that_fills_in_mid_run_ends_the_run_with_its_finished_records_safe(harness, mounted):
    disk = mounted("size=96k")
    done = harness.run("run", "--frameworks", "fake", *FEW, "--launches", "200", "--results", str(disk))
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "free some space" in done.stderr
    assert "Traceback" not in done.stderr
    run = store.load(store.find("last", disk))
    assert 3 < len(run.records) < 200
    assert run.warnings == []
    assert [record.launch for record in run.records] == list(range(1, len(run.records) + 1))
    harness.assert_nothing_left()


def test_a_disk_that_is_full_from_the_start_is_named(harness, mounted):
    disk = mounted("size=8k,nr_inodes=3")
    done = harness.run("run", "--frameworks", "fake", *FEW, "--launches", "1", "--results", str(disk))
    assert done.returncode in (1, 2)
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_on_a_read_only_file_system_is_named_before_anything_runs(harness, mounted):
    disk = mounted("ro")
    done = harness.run("run", "--frameworks", "fake", *FEW, "--launches", "1", "--results", str(disk))
    assert done.returncode == 2
    assert "Read-only file system" in done.stderr
    assert "--results" in done.stderr
    assert "Traceback" not in done.stderr


def test_two_runs_at_once_into_one_folder_get_a_journal_each(harness):
    both = [harness.start(*harness.bench(*FEW, "--launches", "5", "--save", "same")) for _ in range(2)]
    for process in both:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    for number in (1, 2):
        run = store.load(harness.journal(number))
        assert [record.launch for record in run.records] == [1, 2, 3, 4, 5]
        assert len({record.run_id for record in run.records}) == 1
    harness.assert_nothing_left()


def test_a_failed_launch_is_recorded_also_where_a_folder_has_a_name_that_is_no_text(harness, tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    die = {"misbehave": {"rank": 0, "phase": "step", "how": "die"}}
    words = ("run", "--frameworks", "fake", *FEW, "--launches", "1", "--results", str(folder))
    done = harness.run(*words, fake=die)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (record,) = store.load(store.find("last", folder)).records
    assert record.outcome.status == "rank_died"
