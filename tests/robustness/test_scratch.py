"""What a killed run left in the temporary folder goes with the next one, and nothing else does."""

import os
import signal

import pytest

from gpubench.harness import scratch
from tests.robustness.conftest import wait_until

FEW = ("--strategies", "single", "--devices", "1", "--launches", "1")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scratch._remove_what_dead_runs_left.cache_clear()
    yield tmp_path
    scratch._remove_what_dead_runs_left.cache_clear()


def left_by_a_dead_run(folder, name="gpubench-run-dead"):
    left = folder / name
    left.mkdir()
    (left / scratch.LOCK).touch()
    (left / "samples").touch()
    return left


def test_the_next_run_removes_what_a_killed_one_left(harness):
    process = harness.start(*harness.bench(*FEW, "--launches", "50"))
    wait_until(harness.workers)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert list(harness.scratch.iterdir())
    harness.assert_nothing_left()
    assert harness.run(*harness.bench(*FEW)).returncode == 0
    assert list(harness.scratch.iterdir()) == []


def test_a_live_runs_folder_stays(temporary):
    with scratch.scratch_folder() as live:
        scratch._remove_what_dead_runs_left.cache_clear()
        dead = left_by_a_dead_run(temporary)
        with scratch.scratch_folder():
            assert live.is_dir()
        assert not dead.exists()
    assert list(temporary.iterdir()) == []


def test_links_and_what_is_no_folder_of_a_run_stay(temporary, tmp_path_factory):
    precious = left_by_a_dead_run(tmp_path_factory.mktemp("elsewhere"))
    (temporary / "gpubench-run-link").symlink_to(precious)
    linked_lock = temporary / "gpubench-run-lock"
    linked_lock.mkdir()
    (linked_lock / scratch.LOCK).symlink_to(precious / scratch.LOCK)
    (temporary / "gpubench-run-file").touch()
    (temporary / "gpubench-run-empty").mkdir()
    with scratch.scratch_folder():
        pass
    assert len(list(temporary.iterdir())) == 4
    assert (precious / "samples").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make what belongs to another user")
def test_the_folder_of_another_user_stays(temporary):
    others = left_by_a_dead_run(temporary)
    os.chown(others, 12345, 12345)
    with scratch.scratch_folder():
        pass
    assert others.exists()
