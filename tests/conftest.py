"""What tests of the whole tool share: a machine with the fake framework on it, and no other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpubench.analysis.checks.environment import harmful

pytest_plugins = ["pytester"]


def pytest_configure() -> None:
    """A shell that starts the tests in the background has them ignore Ctrl-C, and so would all that they start."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in harmful(os.environ):  # a machine may need one, and every record of the tests would own up to it
        del os.environ[name]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets how the fake framework behaves: `fake(step_seconds=0.1)`."""

    def behave(**behaviour: object) -> None:
        monkeypatch.setenv("GPUBENCH_FAKE", json.dumps(behaviour))

    return behave


@pytest.fixture
def gpubench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the real command in an empty folder: `gpubench("run", "--frameworks", "fake")`."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, timeout: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gpubench.cli", *words],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "COLUMNS": "160", **variables},
            check=False,
        )

    return run


@pytest.fixture
def no_process_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test that leaves a process behind, whoever started it: all inherit its token."""
    import psutil

    token = uuid.uuid4().hex
    monkeypatch.setenv("GPUBENCH_TEST_TOKEN", token)

    def mine() -> list[list[str]]:
        return [
            process.info["cmdline"]
            for process in psutil.process_iter(["cmdline", "environ"])
            if process.pid != os.getpid() and (process.info["environ"] or {}).get("GPUBENCH_TEST_TOKEN") == token
        ]

    yield
    deadline = time.monotonic() + 10  # orphans are ended by the kernel, a moment after their parent
    while mine() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert mine() == []
