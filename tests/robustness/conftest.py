"""The real command as a process that tests may do violence to, and a look at what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpubench.files import store

PATIENCE_SECONDS = 60.0


def one_now(first: Any, *others: Any) -> list[Any]:
    """A test's parameters, where each takes seconds: the first is tried for every change, and the others nightly."""
    return [first, *(pytest.param(*_words(each), marks=pytest.mark.nightly) for each in others)]


def _words(each: Any) -> tuple[Any, ...]:
    return each if isinstance(each, tuple) else (each,)


@dataclass
class Harness:
    """Runs of the command whose processes, and all that these start, carry a mark of their own."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    def start(
        self, *words: str, fake: dict[str, Any] | None = None, module: str = "gpubench.cli", **changes: Any
    ) -> subprocess.Popen[str]:
        """`gpubench WORDS`, with the fake framework behaving as told. `changes` go to Popen."""
        self.scratch.mkdir(exist_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "GPUBENCH_TEST_MARK": self.mark,
            "GPUBENCH_FAKE": json.dumps(fake or {}),
            "TMPDIR": str(self.scratch),
            "COLUMNS": "160",
        }
        command = [sys.executable, "-m", module, *words]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=environment, **pipes, **changes)

    def run(self, *words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, **settings)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def bench(self, *words: str) -> tuple[str, ...]:
        """The words of a run on the fake framework into this harness's results."""
        return ("run", "--frameworks", "fake", "--quiet", "--results", str(self.results), *words)

    def processes(self) -> list[psutil.Process]:
        """Everything that is alive and carries the mark."""
        found = psutil.process_iter(["environ", "status"])
        return [
            process
            for process in found
            if (process.info["environ"] or {}).get("GPUBENCH_TEST_MARK") == self.mark
            and process.info["status"] != psutil.STATUS_ZOMBIE
        ]

    def workers(self) -> list[psutil.Process]:
        return [one for one in self.processes() if any(word.endswith("worker/__main__.py") for word in words_of(one))]

    def assert_nothing_left(self) -> None:
        """Orphans are ended by the kernel, a moment after their parent; the sampler looks for its parent by itself."""
        wait_until(lambda: not self.processes(), 15)

    def journal(self, number: int = 1) -> Path | None:
        return next(iter(self.results.rglob(f"{number:04}_*.jsonl")), None)

    def finished(self) -> int:
        """Records on the disk so far, counted by their line ends."""
        path = self.journal()
        return path.read_bytes().count(b"\n") if path else 0

    def records(self) -> list[Any]:
        path = self.journal()
        assert path is not None
        return store.load(path).records


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def wait_until(holds: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
    """Until it holds; what it is can be read in the traceback where it does not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.01)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    one = Harness(tmp_path)
    yield one
    for process in one.processes():  # only where a test has failed
        process.kill()


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """`mounted("size=256k")`: a real file system of its own, in memory."""
    made: list[Path] = []

    def mount(options: str) -> Path:
        disk = tmp_path / f"disk{len(made)}"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a file system here: {done.stderr.strip()}")
        made.append(disk)
        return disk

    yield mount
    for disk in made:
        subprocess.run(["umount", str(disk)], check=True)
