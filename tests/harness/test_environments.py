"""Managed environments: made once, found again, and never half-made."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.harness import environments
from gpubench.harness.environments import Environment
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.registry import framework
from gpubench.spec.errors import GpubenchError, UsageError


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """The fake framework, as if it had to be installed: its requirements are a file of the test's."""
    monkeypatch.setenv("GPUBENCH_HOME", str(tmp_path / "home"))
    fake = framework("fake")
    folder = tmp_path / "fake"
    folder.mkdir()
    for file in fake.folder.glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    (folder / "requirements-cpu.txt").write_text("")
    return replace(fake, name="madeup", distribution="madeup", folder=folder)


def test_an_environment_is_made_once_and_found(made_up):
    environment = Environment.of(made_up)
    assert Interpreters().find(made_up) is None
    said = []
    environment.make("cpu", said.append)
    assert Interpreters().find(made_up) == environment.python
    again = []
    environment.make("cpu", again.append)
    assert said
    assert again == []


def test_an_environment_for_other_requirements_is_made_anew(made_up):
    environment = Environment.of(made_up)
    environment.make("cpu", lambda text: None)
    (made_up.folder / "requirements-cpu.txt").write_text("# other versions\n")
    assert not environment.matches("cpu")


def test_an_install_that_fails_says_why_and_is_not_taken_for_made(made_up, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    (made_up.folder / "requirements-cpu.txt").write_text("surely-no-such-package==1\n")
    environment = Environment.of(made_up)
    with pytest.raises(
        GpubenchError, match=r"madeup is not set up: .*No matching distribution found for surely-no-such"
    ):
        environment.make("cpu", lambda text: None)
    assert not environment.ready
    assert "its setup failed: the installation failed: No matching" in Interpreters().lacking(made_up)


def test_a_python_that_is_named_comes_first(made_up):
    named = Interpreters.parse([f"madeup={sys.executable}"], ["madeup"])
    assert named.find(made_up) == Path(sys.executable)


def test_a_framework_in_this_python_needs_no_environment(made_up):
    assert Interpreters().find(replace(made_up, name="json")) == Path(sys.executable)


@pytest.mark.parametrize("word", ["madeup", "nope=/usr/bin/env", "madeup=/no/such/file"])
def test_a_python_option_that_makes_no_sense_is_refused(word):
    with pytest.raises(UsageError, match="--python"):
        Interpreters.parse([word], ["madeup"])


def test_discovery_tells_what_a_framework_finds_or_why_it_could_not(made_up):
    assert Interpreters().discover(framework("fake"))["version"] == "1"
    broken = replace(made_up, package="broken", distribution="")
    (broken.folder / "device.py").write_text("raise ImportError('libsomething.so is missing')")
    assert "libsomething.so is missing" in Interpreters().discover(broken)["reason"]


def test_home_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUBENCH_HOME", str(tmp_path))
    assert environments.home() == tmp_path
