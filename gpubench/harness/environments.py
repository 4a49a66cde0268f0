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
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

import gpubench
from gpubench.files.untrusted import read_bytes, read_tail
from gpubench.harness import pythons
from gpubench.harness.gang.surroundings import surroundings
from gpubench.harness.setup_failures import Failure, failure_of
from gpubench.spec.errors import GpubenchError, UsageError
from gpubench.spec.framework import Framework

HEARTBEAT_SECONDS = 20
MARKER = "gpubench-environment.json"
LARGEST_NOTE = 1 << 20  # bytes of what is kept about an environment, and of what is read of a setup's log
_UNREADABLE = (OSError, UsageError, ValueError, RecursionError)
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
            marker = json.loads(read_bytes(self.folder / MARKER, LARGEST_NOTE))
        except _UNREADABLE:
            return False
        wanted = self.requirements(device_kind).read_text()
        return self.ready and isinstance(marker, dict) and marker.get("requirements") == wanted

    @property
    def failure(self) -> Failure | None:
        """Why the last setup failed; None where it did not, or where there was none."""
        try:
            failure = Failure(**json.loads(read_bytes(self._failure_file, LARGEST_NOTE)))
        except (*_UNREADABLE, TypeError):
            return None
        return failure if isinstance(failure.why, str) and isinstance(failure.to_do, str) else None

    @property
    def log(self) -> Path:
        """What the programs of all setups have printed."""
        return self.folder.parent / f"{self.framework.name}.log"

    @property
    def _failure_file(self) -> Path:
        return self.folder.parent / f"{self.framework.name}.failure.json"

    def make(self, device_kind: str, log: Callable[[str], None]) -> float:
        """Make it anew and see that the framework imports; returns the seconds taken.

        SetupError where it fails; the failure is kept, so that whoever looks for the framework later can say why it
        is not there.
        """
        began = time.monotonic()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / f"{self.framework.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two setups at once: the second finds it made
            if self.matches(device_kind):
                return time.monotonic() - began
            try:
                self._make(device_kind, log)
            except SetupError as error:
                self._failure_file.write_text(json.dumps(asdict(error.failure)))
                raise
            self._failure_file.unlink(missing_ok=True)
        return time.monotonic() - began

    def _make(self, device_kind: str, log: Callable[[str], None]) -> None:
        base, version = self.base_python(log)
        requirements = self.requirements(device_kind)
        shutil.rmtree(self.folder, ignore_errors=True)
        log(f"making a virtual environment, then installing {_first(requirements)} and what it needs")
        # Not the standard library's venv: Debian's Python cannot make one with pip in it.
        virtualenv = [sys.executable, "-P", "-m", "virtualenv", "--quiet", "--no-periodic-update", "-p", str(base)]
        self._run([*virtualenv, str(self.folder)], "making a virtual environment", log)
        # Only what is imported is compiled, when it is: a third of the files at most.
        pip = [str(self.python), "-P", "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        self._run([*pip, "--quiet", "-r", str(requirements)], "the installation", log)
        log("importing it for the first time")
        self._run(discovery(self.python, self.framework), "the first import", log)
        (self.folder / MARKER).write_text(
            json.dumps({"requirements": requirements.read_text(), "python": pythons.words(version)})
        )

    def base_python(self, log: Callable[[str], None]) -> tuple[Path, pythons.Version]:
        """The Python to make the environment with: this one where the framework fits it, else another one."""
        fitting = self.framework.pythons
        own = pythons.own_version()
        if fitting is None or fitting.fit(own):
            return Path(sys.executable), own
        found = pythons.installed(fitting.versions())
        if found is None:
            wanted = " or ".join(pythons.words(version) for version in fitting.versions())
            raise SetupError(
                self,
                Failure(
                    why=f"{fitting.why}, gpubench runs in Python {pythons.words(own)}, and no Python {wanted} was "
                    "found on PATH or among those of pyenv and uv",
                    to_do=f"install Python {pythons.words(fitting.newest)}, then run `gpubench setup "
                    f"{self.framework.name}` again",
                ),
            )
        python, version = found
        log(f"{fitting.why}; its environment is made with Python {pythons.words(version)} ({python})")
        return found

    def _run(self, command: list[str], what: str, log: Callable[[str], None]) -> None:
        with self.log.open("ab") as output:
            start = output.tell()
            output.write(f"$ {' '.join(command)}\n".encode())
            output.flush()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=surroundings(os.environ)
            )
            began = time.monotonic()
            while (code := _wait(process, HEARTBEAT_SECONDS)) is None:
                log(f"still at it after {time.monotonic() - began:.0f} s")
        if code != 0:
            said = read_tail(self.log, min(LARGEST_NOTE, self.log.stat().st_size - start))
            raise SetupError(self, failure_of(what, code, said.decode(errors="replace")))


class SetupError(GpubenchError):
    """An environment could not be made; `failure` says why and what to do."""

    def __init__(self, environment: Environment, failure: Failure) -> None:
        self.failure = failure
        told = f"{environment.framework.name} is not set up: {failure.why}.\n  To do: {failure.to_do}."
        if environment.log.is_file():  # not where it failed before any program was started
            told += f"\n  What was printed meanwhile: {environment.log}"
        super().__init__(told)


def _first(requirements: Path) -> str:
    """The first package that a requirements file names: the framework itself."""
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    return next((line for line in lines if line), "nothing")


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
