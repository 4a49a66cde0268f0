"""A gang works whatever launcher, folder or kernel it was started in."""

import errno
import os
import signal
import sys
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

from gpubench.harness.gang.local import LocalGang, _readable_at_end_of
from gpubench.harness.gang.surroundings import kept_away, surroundings

LAUNCHED = {
    "DMLC_ROLE": "server",
    "RANK": "3",
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "10.0.0.1",
    "TF_CONFIG": "{}",
    "SLURM_PROCID": "3",
    "OMPI_COMM_WORLD_RANK": "3",
    "KERAS_MAX_STEPS_PER_EPOCH": "1",
}


def test_a_launcher_s_variables_and_the_user_s_files_do_not_reach_a_worker():
    shell = {**LAUNCHED, "PATH": "/bin", "KERAS_HOME": "/home/me/.keras", "NCCL_DEBUG": "WARN"}
    kept = {"PATH": "/bin", "KERAS_HOME": os.devnull, "NCCL_CONF_FILE": os.devnull, "NCCL_DEBUG": "WARN"}
    assert surroundings(shell) == kept
    assert kept_away(shell) == sorted(LAUNCHED)


def test_a_worker_sees_no_launcher_and_its_record_names_what_was_kept_away(fake, run_fake, monkeypatch):
    for name, value in LAUNCHED.items():
        monkeypatch.setenv(name, value)
    fake(refuse_variables=sorted(LAUNCHED))
    record = run_fake("ranks", 2)
    assert record.outcome.status == "ok", record.outcome
    assert record.environment_kept_away is not None
    assert set(LAUNCHED) <= set(record.environment_kept_away)


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
@pytest.mark.usefixtures("no_process_left")
def test_a_gang_needs_no_pidfd(fake, run_fake, monkeypatch, error):
    def no_pidfd(*_: int) -> int:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "pidfd_open", no_pidfd, raising=False)
    fake()
    assert run_fake("ranks", 2).outcome.status == "ok"
    fake(misbehave={"rank": 1, "how": "die", "phase": "step"})
    outcome = run_fake("ranks", 2).outcome
    assert (outcome.status, outcome.rank) == ("rank_died", 1)


def test_the_end_of_a_child_is_seen_and_its_exit_code_is_left_to_be_read():
    child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "raise SystemExit(7)"])
    end = _readable_at_end_of(child)
    assert os.read(end, 1) == b""  # waits for it
    os.close(end)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_end_of_a_child_that_was_reaped_already_is_seen_too():
    child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    end = _readable_at_end_of(child)
    assert os.read(end, 1) == b""
    os.close(end)


ODD = os.fsdecode(b"odd #?%20%\n\xff '\"dir")


def test_ranks_meet_in_a_folder_of_any_name(tmp_path):
    gang = LocalGang.__new__(LocalGang)
    gang.scratch = tmp_path / ODD
    address = gang.address(2)
    assert address.isascii()
    url = urlsplit(address)
    assert (url.scheme, url.query, url.fragment) == ("file", "", "")
    assert unquote_to_bytes(url.path) == os.fsencode(tmp_path / ODD / "rendezvous2")


def test_a_whole_run_works_in_a_temporary_folder_of_any_name(fake, gpubench, tmp_path):
    fake()
    (tmp_path / ODD).mkdir()
    words = ("run", "--frameworks", "fake", "--devices", "2", "--launches", "1", "--strategies", "ranks")
    done = gpubench(*words, TMPDIR=str(tmp_path / ODD))
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path / ODD) == []
