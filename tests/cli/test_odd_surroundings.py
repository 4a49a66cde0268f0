"""Locales, terminals, homes and streams as they are: the result, or one message, and never a traceback."""

import os
import subprocess
import sys

import pytest

C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SURROUNDINGS = [
    C,
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"COLUMNS": "0", "TERM": "dumb"},
    {"HOME": None},
    {"HOME": "/proc/nowhere", "MPLCONFIGDIR": "/proc/nowhere"},
]
COMMANDS = ["--help", "run --help", "list", "show a", "compare a a --json", "report a -o page.html"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run in it."""
    folder = tmp_path_factory.mktemp("surroundings")
    words = ["run", "--frameworks", "fake", "--strategies", "ranks", "--devices", "1", "--launches", "1", "--save", "a"]
    subprocess.run([sys.executable, "-m", "gpubench.cli", *words], cwd=folder, check=True, capture_output=True)
    return folder


def gpubench(folder, command, redirection="", variables=None):
    env = {**os.environ, **(variables or {})}
    return subprocess.run(
        ["bash", "-c", f"{sys.executable} -m gpubench.cli {command} {redirection}"],
        cwd=folder,
        env={name: value for name, value in env.items() if value is not None},
        capture_output=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("variables", SURROUNDINGS, ids=lambda each: "-".join(each))
def test_every_surrounding_gets_its_result(folder, variables):
    for command in COMMANDS:
        done = gpubench(folder, command, variables=variables)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout, command
        assert b"Traceback" not in done.stderr, command


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full", "2>&-", "2>/dev/full", "<&-", ">&- 2>&-"])
def test_a_stream_that_takes_nothing_ends_in_one_message(folder, redirection):
    for command in ("--help", "list", "show a"):
        done = gpubench(folder, command, redirection)
        assert done.returncode in (0, 1), command
        assert b"Traceback" not in done.stdout + done.stderr, command
        assert b"Exception ignored" not in done.stderr, command
        if redirection == ">/dev/full":
            assert (done.returncode, b"No space left" in done.stderr) == (1, True), command
