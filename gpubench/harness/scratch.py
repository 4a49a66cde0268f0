"""Temporary folders that go with their process, and those of dead processes, which nobody else would remove.

A folder holds a file that its process keeps locked. The kernel lets go of the lock however the process ends, so a
folder of this user's whose lock can be had is a dead run's.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gpubench.harness import interrupts

PREFIX = "gpubench-run-"
LOCK = "lock"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder for as long as the block lasts. OSError where none can be made."""
    _remove_what_dead_runs_left()
    with interrupts.deferred():
        folder, lock = _make()
    try:
        yield folder
    finally:
        with interrupts.deferred():
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _make() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except BaseException:
            folder.rmdir()
            raise
        if _is_locked(lock) and (folder / LOCK).exists():
            return folder, lock
        os.close(lock)  # another run came between the file and its lock, and took the folder for a dead run's


@functools.cache
def _remove_what_dead_runs_left() -> None:
    """Once a process: each folder is a look into the temporary folder, which others share."""
    with contextlib.suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    lock = os.open(path / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _is_locked(lock):
            shutil.rmtree(path)
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held by a live run; or the file system knows no locks, and then nothing is removed
        return False
    return True
