"""Which Pythons are here, which of them a framework fits, and what is taken for a framework."""

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.harness import pythons, registry
from gpubench.harness.environments import Environment, SetupError
from gpubench.harness.interpreters import Interpreters
from gpubench.spec.errors import UsageError
from gpubench.spec.framework import OLDEST_PYTHON, Pythons

OWN = sys.version_info[:2]
NEVER = (3, 99)


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def only_here(tmp_path, monkeypatch):
    """No Python is found but this test's own and what the test makes."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GPUBENCH_HOME", str(tmp_path / "home"))
    for name in ("UV_PYTHON_INSTALL_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_every_framework_says_which_pythons_it_fits():
    declared = {f.name: f.pythons for f in registry.frameworks().values() if f.distribution}
    assert all(fitting and fitting.why and fitting.oldest == OLDEST_PYTHON for fitting in declared.values())
    assert declared["mxnet"].versions() == [(3, 12), (3, 11)]


@pytest.mark.parametrize("where", ["bin", "pyenv/versions/3.99.1/bin"])
def test_a_python_is_found_on_path_and_among_those_of_pyenv(only_here, where):
    folder = only_here / where
    folder.mkdir(parents=True)
    (folder / f"python{pythons.words(OWN)}").symlink_to(Path(sys.executable).resolve())
    found = pythons.installed([NEVER, OWN])
    assert found is not None
    assert found[1] == OWN
    assert pythons.version_of(found[0]) == OWN


def test_a_python_that_is_not_installed_is_not_found(only_here):
    assert pythons.installed([NEVER]) is None


def test_an_environment_is_made_with_another_python_where_this_one_does_not_fit_and_that_is_said(
    only_here, monkeypatch
):
    framework = replace(registry.framework("fake"), pythons=Pythons(newest=OWN, why="what it needs has no build"))
    monkeypatch.setattr(pythons, "own_version", lambda: NEVER)
    said = []
    base, version = Environment.of(framework).base_python(said.append)
    assert version == OWN
    assert pythons.version_of(base) == OWN
    assert said == [f"what it needs has no build; its environment is made with Python {pythons.words(OWN)} ({base})"]


def test_where_no_python_fits_the_setup_fails_with_the_reason_and_says_so_again_when_cases_are_skipped(only_here):
    why = "it needs a Python of tomorrow"
    framework = replace(
        registry.framework("fake"),
        name="madeup",
        distribution="madeup",
        pythons=Pythons(oldest=NEVER, newest=NEVER, why=why),
    )
    with pytest.raises(SetupError, match=r"no Python 3\.99 was found on PATH or among those") as raised:
        Environment.of(framework).make("cpu", lambda text: None)
    assert why in str(raised.value)
    assert "What was printed" not in str(raised.value)  # nothing was
    assert "To do: install Python 3.99, then run `gpubench setup madeup` again" in str(raised.value)
    lacking = Interpreters().lacking(framework)
    assert lacking.startswith("no Python with madeup: its setup failed: ")
    assert why in lacking
    assert "To do: install Python 3.99" in lacking


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 3.6", "is Python 3.6; a worker needs Python 3.11 or newer"),
        ("echo 2.7", "is Python 2.7; a worker needs Python 3.11 or newer"),
        ("echo hello", "does not answer as Python does"),
        ("exit 3", "does not answer as Python does"),
    ],
)
def test_a_program_that_no_worker_can_run_in_is_refused_before_anything_starts(tmp_path, script, message):
    named = program(tmp_path / "python", script)
    with pytest.raises(UsageError) as raised:
        Interpreters.parse([f"torch={named}"], ["torch"])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_program_is_refused(tmp_path):
    (tmp_path / "notes").write_text("no program")
    with pytest.raises(UsageError, match="does not answer as Python does"):
        Interpreters.parse([f"torch={tmp_path / 'notes'}"], ["torch"])


@pytest.mark.parametrize("kind", ["folder on PYTHONPATH", "folder here", "package here", "file here"])
def test_what_only_bears_the_name_of_a_framework_is_not_taken_for_it(only_here, monkeypatch, kind):
    what, where = kind.split(" ", 1)
    (only_here / "madeup").mkdir()
    if what == "package":
        (only_here / "madeup" / "__init__.py").write_text("")
    if what == "file":
        (only_here / "madeup.py").write_text("")
    monkeypatch.chdir(only_here)
    monkeypatch.syspath_prepend("")
    if where == "on PYTHONPATH":
        monkeypatch.setenv("PYTHONPATH", str(only_here))
    framework = replace(registry.framework("fake"), name="madeup", distribution="madeup")
    assert Interpreters().find(framework) is None
    assert "gpubench setup madeup" in Interpreters().lacking(framework)


def test_a_file_on_pythonpath_that_hides_a_framework_is_named(only_here, monkeypatch):
    (only_here / "madeup.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/nowhere", str(only_here)]))
    framework = replace(registry.framework("fake"), name="madeup", distribution="madeup")
    assert Interpreters({"madeup": Path(sys.executable)}).find(framework) is None
    assert "a file madeup.py in a folder of PYTHONPATH hides madeup" in Interpreters().lacking(framework)


def test_a_package_on_pythonpath_is_found(only_here, monkeypatch):
    (only_here / "madeup").mkdir()
    (only_here / "madeup" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(only_here))
    framework = replace(registry.framework("fake"), name="madeup", distribution="madeup")
    assert Interpreters().find(framework) == Path(sys.executable)
