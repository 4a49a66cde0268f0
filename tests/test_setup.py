"""`gpubench setup`: makes what it can, names what it cannot, and says so by its exit code."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from gpubench.cli.commands import main
from gpubench.harness import registry
from gpubench.harness.environments import Environment
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.setup_failures import failure_of
from gpubench.spec.framework import Pythons

TOMORROW = Pythons(oldest=(3, 99), newest=(3, 99), why="it has no build yet")


@pytest.fixture
def frameworks(tmp_path, monkeypatch):
    """Three frameworks that have to be installed: `good`, `bad` and `worse`, of which only the first can be."""
    monkeypatch.setenv("GPUBENCH_HOME", str(tmp_path / "home"))
    fake = registry.framework("fake")
    folder = tmp_path / "fake"
    folder.mkdir()
    for file in fake.folder.glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    (folder / "requirements-cpu.txt").write_text("# nothing\n")
    good = replace(fake, name="good", distribution="good", folder=folder, hidden=False)
    bad, worse = (replace(good, name=name, distribution=name, pythons=TOMORROW) for name in ("bad", "worse"))
    known = {framework.name: framework for framework in (bad, good, worse)}
    monkeypatch.setattr(registry, "frameworks", lambda: known)
    return known


def setup(*names):
    return CliRunner().invoke(main, ["setup", "--device-kind", "cpu", *names])


def test_a_framework_that_is_named_and_cannot_be_made_is_an_error_after_the_others_are_made(frameworks):
    done = setup("bad", "good")
    assert done.exit_code == 1
    assert "good: ready" in done.output
    assert "bad is not set up: " in done.output
    assert "To do: install Python 3.99" in done.output
    assert Environment.of(frameworks["good"]).ready


def test_without_names_what_cannot_be_made_is_said_and_is_no_error(frameworks):
    done = setup()
    assert done.exit_code == 0
    assert "good: ready" in done.output
    assert "bad is not set up: " in done.output
    assert "worse is not set up: " in done.output


def test_without_names_it_is_an_error_where_nothing_could_be_made(frameworks):
    del frameworks["good"]
    done = setup()
    assert done.exit_code == 3
    assert "worse is not set up: " in done.output


def test_a_folder_that_cannot_be_written_is_named_with_what_to_do(frameworks, monkeypatch):
    monkeypatch.setenv("GPUBENCH_HOME", "/proc/nowhere")
    done = setup("good")
    assert done.exit_code == 1
    assert "let GPUBENCH_HOME name a folder that you may write to" in done.output
    assert "Traceback" not in done.output


def test_a_setup_that_succeeds_forgets_why_an_earlier_one_failed(frameworks):
    broken = replace(frameworks["good"], pythons=TOMORROW)
    frameworks["good"] = broken
    setup("good")
    assert "its setup failed" in Interpreters().lacking(broken)
    frameworks["good"] = replace(broken, pythons=None)
    assert setup("good").exit_code == 0
    assert Environment.of(broken).failure is None


@pytest.mark.parametrize(
    ("printed", "why", "to_do"),
    [
        (
            "WARNING: Retrying: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution\n"
            "ERROR: Could not find a version that satisfies the requirement torch==2 (from versions: none)\n"
            "ERROR: No matching distribution found for torch==2\n",
            "No matching distribution found for torch==2",
            "pip could not reach its package index",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n\n",
            "Could not install packages due to an OSError: [Errno 28] No space left on device",
            "free some disk space",
        ),
        ("ERROR: No matching distribution found for a==1", "No matching distribution found", "no such build"),
        (
            'Traceback (most recent call last):\n  File "x.py"\nImportError: libx.so is missing. To do: install x\n',
            "libx.so is missing",
            "install x",
        ),
        ("something odd \x1b[31m\n", "something odd", "see what was printed"),
        ("", "exit code 7", "see what was printed"),
    ],
)
def test_the_reason_of_a_failure_is_what_was_printed_and_what_helps(printed, why, to_do):
    failure = failure_of("the installation", 7, printed)
    assert failure.why.startswith(f"the installation failed: {why}")
    assert failure.to_do.startswith(to_do) or to_do in failure.to_do
    assert "\x1b" not in failure.why
