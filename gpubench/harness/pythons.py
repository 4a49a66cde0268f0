"""The Pythons of this machine: which versions are installed, which version a program is, and what one can import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

Version = tuple[int, int]

QUESTION_SECONDS = 20
VERSION_QUESTION = "import sys; print('%d.%d' % sys.version_info[:2])"  # Python 2 understands it too
PACKAGE_QUESTION = """
import sys
from importlib.util import find_spec
spec = find_spec(sys.argv[1])
print("yes" if spec and spec.origin and spec.submodule_search_locations else "no")
"""


def own_version() -> Version:
    return sys.version_info[:2]


def words(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def version_of(program: Path) -> Version | None:
    """The version of Python that a program is; None where it does not answer as Python does."""
    major, dot, minor = (_answer([str(program), "-S", "-c", VERSION_QUESTION]) or "").partition(".")
    return (int(major), int(minor)) if dot and major.isdecimal() and minor.isdecimal() else None


@cache
def _own_has(name: str, python_path: str | None) -> bool:
    return _answer([sys.executable, "-P", "-c", PACKAGE_QUESTION, name]) == "yes"


def own_has(name: str) -> bool:
    """Whether this Python, started as a worker is, would import the package `name`; it is looked for, not imported.

    A folder without an `__init__.py` is a namespace to Python and no package of code; a file of that name is none
    either. What lies in the current folder does not count: a worker does not look there.
    """
    return _own_has(name, os.environ.get("PYTHONPATH"))


def file_in_the_way(name: str) -> str | None:
    """The name of a file that every Python would import in place of the package `name`, because of PYTHONPATH."""
    path = os.environ.get("PYTHONPATH")
    for entry in path.split(os.pathsep) if path else ():
        if (Path(entry) / name / "__init__.py").is_file():
            return None
        if (Path(entry) / f"{name}.py").is_file():
            return f"{name}.py"
    return None


def installed(versions: Iterable[Version]) -> tuple[Path, Version] | None:
    """The first of these versions of CPython that is installed: on PATH, or made by pyenv or uv. None where none is."""
    from python_discovery import get_interpreter

    environment = _with_pyenv(os.environ)
    for version in versions:
        if found := get_interpreter(
            f"cpython{words(version)}", env=environment, predicate=lambda p: not p.free_threaded
        ):
            return Path(found.system_executable or found.executable), version
    return None


def _with_pyenv(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with all that pyenv has installed on PATH. Its own entry there shows the versions in use only."""
    root = Path(environment.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv"))  # some users have no home
    folders = sorted(str(folder) for folder in root.glob("versions/*/bin"))
    return {**environment, "PATH": os.pathsep.join([environment.get("PATH", os.defpath), *folders])}


def _answer(command: list[str]) -> str | None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=QUESTION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None
