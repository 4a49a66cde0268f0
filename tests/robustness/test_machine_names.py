"""A machine over several nights: what its name has to do with it, and what not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.files import store
from gpubench.harness import machine
from gpubench.spec.errors import UsageError
from gpubench.spec.record import to_json
from tests.builders import make_machine, make_record
from tests.harness.trees import write
from tests.robustness.conftest import one_now

RUN = ("run", "--frameworks", "fake", "--strategies", "single", "--devices", "1", "--quiet")
UNDER_A_NAME = """
import platform, sys
platform.node = lambda: sys.argv.pop(1)
name = platform.node()
platform.node = lambda: name
from gpubench.cli.commands import main
main()
"""

Night = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def night(tmp_path: Path) -> Night:
    """The real command in a container of the given host name."""

    def run(host: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", UNDER_A_NAME, host, *words],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=tmp_path,
            env={**os.environ, "container": "podman", "COLUMNS": "160"},
            check=False,
        )

    return run


def machines(folder: Path, name: str) -> set[tuple[str, str | None]]:
    return {(r.machine.name, r.machine.name_from) for r in store.load(store.find(name, folder / "results")).records}


def test_nightly_containers_are_one_machine_to_resume_and_to_compare(night, tmp_path):
    one = (*RUN, "--results", "nights/results")
    first = night("0123456789ab", *one, "--launches", "1", "--save", "one")
    assert first.returncode == 0, first.stderr
    resumed = night("ba9876543210", *one, "--launches", "3", "--resume", "one")
    assert resumed.returncode == 0, resumed.stderr
    assert machines(tmp_path / "nights", "one") == {("0123456789ab", "container"), ("ba9876543210", "container")}
    shown = night("cccccccccccc", "show", "one", "--results", "nights/results", "--json")
    assert [row["launches"] for row in json.loads(shown.stdout)] == [3]
    assert night("cccccccccccc", *RUN, "--launches", "3", "--save", "two").returncode == 0
    compared = night("dddddddddddd", "compare", "nights", "two", "--fail-if-slower", "99%", "--json")
    assert compared.returncode == 0, compared.stderr
    assert "machine" not in {factor["factor"] for factor in json.loads(compared.stdout)["factors"]}


def test_a_name_that_was_given_is_the_machines(night, tmp_path):
    named = night("0123456789ab", *RUN, "--launches", "1", "--save", "one", "--machine", "rig")
    assert named.returncode == 0, named.stderr
    assert machines(tmp_path, "one") == {("rig", "given")}
    assert night("ba9876543210", *RUN, "--launches", "2", "--resume", "one").returncode == 0
    assert machines(tmp_path, "one") == {("rig", "given")}  # it need not be given again
    other = night("ba9876543210", *RUN, "--launches", "3", "--resume", "one", "--machine", "other")
    assert other.returncode == 2
    assert "name: rig there, other here" in other.stderr


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 101])
def test_a_name_that_could_be_no_files_is_refused(name):
    with pytest.raises(UsageError, match="cannot name a machine"):
        machine.describe(name)


@pytest.mark.parametrize(
    ("change", "told"),
    one_now(
        ({"driver": "550.1"}, "driver: driver 550.1 there, no driver here"),
        ({"cpu_quota_cores": 3.0}, "cpu limit: CPU limit of 3 there, no CPU limit here"),
        ({"os": "Linux 1.0"}, "os: Linux 1.0 there"),
    ),
)
def test_a_run_is_not_continued_where_the_machine_has_changed(night, tmp_path, change, told):
    assert night("0123456789ab", *RUN, "--launches", "1", "--save", "one").returncode == 0
    path = store.find("one", tmp_path / "results")
    [record] = store.load(path).records
    path.write_text(to_json(replace(record, machine=replace(record.machine, **change))) + "\n")
    done = night("0123456789ab", *RUN, "--launches", "2", "--resume", "one")
    assert done.returncode == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("host", "mark", "environment", "generated"),
    [
        ("0123456789ab", ".dockerenv", {}, True),
        ("0123456789ab", "run/.containerenv", {}, True),
        ("0123456789ab", None, {"container": "podman"}, True),
        ("0123456789ab", None, {}, False),  # on the bare machine it is somebody's choice
        ("benchbox", ".dockerenv", {}, False),  # docker run --hostname
        ("bench-7d4b9c6f5-x2x7k", None, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
    ],
)
def test_which_host_names_a_container_made_up(tmp_path, host, mark, environment, generated):
    root = write(tmp_path, {mark: ""} if mark else {})
    assert machine.name_is_generated(host, root, environment) is generated


def test_the_name_of_a_continued_run_is_kept():
    given = make_record(machine=replace(make_machine(name="rig"), name_from="given"))
    this = replace(make_machine(name="box"), name_from="host")
    assert machine.named_as(this, [given]).name == "rig"
    assert machine.named_as(this, [make_record()]) is this
