"""Managed virtual environments, one a framework: made by `gpubench setup`, found again by everything else."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

import gpubench
from gpubench.harness.gang.surroundings import surroundings
from gpubench.harness.outcomes import printable
from gpubench.spec.errors import GpubenchError
from gpubench.spec.framework import Framework

HEARTBEAT_SECONDS = 20
MARKER = "gpubench-environment.json"
WORKER = Path(gpubench.__file__).resolve().parent / "worker" / "__main__.py"


def discovery(python: Path, framework: Framework) -> list[str]:
    """The command that lets a framework say, as JSON on standard output, what it is and which devices it finds."""
    return [str(python), "-P", str(WORKER), "discover", framework.package, str(framework.folder)]


def home() -> Path:
    """Where environments live: `GPUBENCH_HOME`, else the checkout's `.gpubench`, else the user's data folder."""
    if named := os.environ.get("GPUBENCH_HOME"):
        return Path(named).expanduser().absolute()
    checkout = Path(gpubench.__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / "gpubench").is_dir():
        return checkout / ".gpubench"
    return Path(platformdirs.user_data_dir("gpubench"))


@dataclass(frozen=True, kw_only=True)
class Environment:
    """The managed environment of one framework, made or not."""

    framework: Framework
    folder: Path

    @classmethod
    def of(cls, framework: Framework) -> Environment:
        return cls(framework=framework, folder=home() / "envs" / framework.name)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def ready(self) -> bool:
        """Whether the setup of this environment ran to its end."""
        return (self.folder / MARKER).is_file() and self.python.exists()

    def requirements(self, device_kind: str) -> Path:
        return self.framework.folder / f"requirements-{'cuda' if device_kind == 'gpu' else 'cpu'}.txt"

    def matches(self, device_kind: str) -> bool:
        """Whether it holds what is asked for now, by the requirements that it was made from."""
        try:
            marker = json.loads((self.folder / MARKER).read_text())
        except (OSError, ValueError):
            return False
        return self.ready and marker.get("requirements") == self.requirements(device_kind).read_text()

    def make(self, device_kind: str, log: Callable[[str], None]) -> float:
        """Make it anew and see that the framework imports; returns the seconds taken. GpubenchError where it fails."""
        began = time.monotonic()
        requirements = self.requirements(device_kind)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / f"{self.framework.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two setups at once: the second finds it made
            if self.matches(device_kind):
                return time.monotonic() - began
            log(f"making a virtual environment, then installing {' '.join(requirements.read_text().split())}")
            shutil.rmtree(self.folder, ignore_errors=True)
            # Not the standard library's venv: Debian's Python cannot make one with pip in it.
            virtualenv = [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", str(self.folder)]
            self._run(virtualenv, "make a virtual environment", log)
            # Only what is imported is compiled, when it is: a third of the files at most.
            pip = [str(self.python), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
            self._run([*pip, "--quiet", "-r", str(requirements)], "install " + self.framework.summary, log)
            log("importing it for the first time")
            self._run(discovery(self.python, self.framework), f"import {self.framework.name}", log)
            (self.folder / MARKER).write_text(
                json.dumps({"requirements": requirements.read_text(), "python": sys.version.split()[0]})
            )
        return time.monotonic() - began

    def _run(self, command: list[str], what: str, log: Callable[[str], None]) -> None:
        with (self.folder.parent / f"{self.framework.name}.log").open("a") as output:
            output.write(f"$ {' '.join(command)}\n")
            output.flush()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=surroundings(os.environ)
            )
            began = time.monotonic()
            while (code := _wait(process, HEARTBEAT_SECONDS)) is None:
                log(f"still at it after {time.monotonic() - began:.0f} s")
        if code != 0:
            said = Path(output.name)
            tail = "\n".join("  " + printable(line) for line in said.read_text(errors="replace").splitlines()[-8:])
            raise GpubenchError(
                f"Could not {what} for {self.framework.name} (exit code {code}). The end of {said}:\n{tail}"
            )


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
