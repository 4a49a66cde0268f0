"""CPU quotas and cpusets of control groups: how they are read, that shares fit in them, and what throttling does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.analysis.checks import doubts, sets_aside
from gpubench.analysis.scaling import summarize
from gpubench.harness import cores, machine
from gpubench.harness.interpreters import Interpreters
from gpubench.harness.plan import Plan, cases
from gpubench.spec.errors import NothingToRunError, UsageError
from gpubench.spec.record import Machine, RunRecord
from gpubench.telemetry.cgroup import CpuGroups, CpuLimits, Throttling, throttled_between
from tests.builders import make_case, make_launches, make_machine, make_record
from tests.harness.trees import stat, version_1, version_2, write

NO_V1_LIMIT = {"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}


def v1(folder: str, quota: int | None, period: int = 100_000) -> dict[str, str]:
    values = NO_V1_LIMIT if quota is None else {"cpu.cfs_quota_us": str(quota), "cpu.cfs_period_us": str(period)}
    return {f"cpu,cpuacct{folder}/{name}": value for name, value in values.items()}


@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("/", {"cpu.max": "100000 100000"}, 1.0),  # a container with a namespace of its own: it sees no more
        ("/", {"cpu.max": "max 100000"}, None),
        ("/", {}, None),  # the true root has no such file
        ("/job", {"cpu.max": "max 100000", "job/cpu.max": "150000 100000"}, 1.5),
        ("/a/b/c", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "400000 100000", "a/b/c/cpu.max": "max 100000"}, 0.5),
        ("/a/b", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "30000 10000"}, 3.0),
        ("/gone", {"cpu.max": "200000 100000"}, 2.0),  # a folder that is hidden: what is above it still holds
        ("/../../outside", {"cpu.max": "200000 100000"}, 2.0),  # a namespace's process that came from elsewhere
    ],
)
def test_the_lowest_quota_of_all_levels_counts_in_version_2(tmp_path, group, files, cores):
    limits = CpuGroups(version_2(tmp_path, group, files)).limits()
    assert (limits.quota_cores, limits.source) == (cores, cores and "cpu.max")


@pytest.mark.parametrize(
    ("group", "mounted", "files", "cores"),
    [
        ("/docker/abc", "/docker/abc", v1("", 100_000), 1.0),  # without a namespace: the path is the host's
        ("/docker/abc", "/docker/abc", v1("", None), None),
        ("/", "/", v1("", 250_000, 50_000), 5.0),
        ("/kubepods/pod/box", "/", {**v1("/kubepods/pod", 100_000), **v1("/kubepods/pod/box", 300_000)}, 1.0),
        ("/kubepods/pod/box", "/", {**v1("/kubepods/pod", 400_000), **v1("/kubepods/pod/box", 300_000)}, 3.0),
    ],
)
def test_the_lowest_quota_of_all_levels_counts_in_version_1(tmp_path, group, mounted, files, cores):
    limits = CpuGroups(version_1(tmp_path, group, files, mounted)).limits()
    assert (limits.quota_cores, limits.source) == (cores, cores and "cpu.cfs_quota_us")


def test_on_a_host_with_both_versions_the_quota_is_found_where_the_controller_is(tmp_path):
    version_1(tmp_path, "/job", v1("/job", 120_000))
    mounts = tmp_path / "proc/self/mountinfo"
    unified = "32 29 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
    mounts.write_text(f"{unified}\n{mounts.read_text()}")
    write(tmp_path, {"sys/fs/cgroup/unified/job/cgroup.procs": "1"})
    assert CpuGroups(tmp_path).limits() == CpuLimits(1.2, "cpu.cfs_quota_us", None)


def test_no_control_groups_are_no_limit(tmp_path):
    assert CpuGroups(tmp_path).limits() == CpuLimits()
    assert CpuGroups(tmp_path).throttling() == {}


@pytest.mark.parametrize("text", ["", "max", "0 100000", "100000 0", "many few", "1 2 3"])
def test_a_quota_that_is_none_is_no_limit(tmp_path, text):
    assert CpuGroups(version_2(tmp_path, "/", {"cpu.max": text})).limits().quota_cores is None


@pytest.mark.parametrize(
    ("make", "files", "group"),
    [
        (version_2, {"job/cpuset.cpus.effective": "0-1,4"}, "/job"),
        (version_2, {"cpuset.cpus.effective": "0-1,4", "job/cpu.max": "max 1"}, "/job"),  # not enabled further down
        (version_1, {"cpuset/cpuset.effective_cpus": "0-1,4", "cpuset/cpuset.cpus": "0-7"}, "/"),
        (version_1, {"cpuset/cpuset.cpus": "0-1,4"}, "/"),
    ],
)
def test_the_cpuset_is_that_of_the_nearest_level_that_has_one(tmp_path, monkeypatch, make, files, group):
    root = write(make(tmp_path, group, files), {"sys/devices/system/cpu/online": "0-7"})
    assert CpuGroups(root).limits().cpuset == {0, 1, 4}
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert cores.usable_cpus(root) == [0, 1, 4]
    this = machine.describe(root=root)
    assert (this.cores, this.cpuset) == (3, "0-1,4")


def test_a_cpuset_of_all_cpus_is_no_limit(tmp_path):
    root = version_2(tmp_path, "/", {"cpuset.cpus.effective": "0-3"})
    assert machine.describe(root=write(root, {"sys/devices/system/cpu/online": "0-3"})).cpuset is None


# Shares


@pytest.fixture
def cores_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def use(*found: tuple[int, ...]) -> None:
        monkeypatch.setattr(machine, "physical_cores", lambda: list(found))

    return use


def limited(quota: float | None) -> Machine:
    return replace(make_machine(), devices=[], cpu_quota_cores=quota, cpu_quota_source="cpu.max")


@pytest.mark.parametrize(
    ("threads", "quota", "count", "shares"),
    [
        (1, None, 2, [(0, 1), (2, 3)]),
        (1, 4.0, 2, [(0, 1), (2, 3)]),
        (1, 3.9, 2, [(0,), (1,)]),
        (1, 3.0, 2, [(0,), (1,)]),
        (1, 2.0, 2, [(0,), (1,)]),
        (1, 1.0, 1, [(0,)]),
        (1, 1.99999, 2, [(0,), (1,)]),
        (2, 8.0, 2, [(0, 1, 4, 5), (2, 3, 6, 7)]),
        (2, 4.0, 2, [(0, 4), (1, 5)]),
        (2, 3.0, 1, [(0, 4)]),
        (2, 2.0, 2, [(0,), (1,)]),  # too low for whole cores: one thread of each
        (2, 1.0, 1, [(0,)]),
    ],
)
def test_shares_fit_in_the_quota(cores_of, threads, quota, count, shares):
    cores_of(*[tuple(range(core, 4 * threads, 4)) for core in range(4)])
    found = machine.devices("cpu", count, limited(quota))
    assert [share.cores for share in found] == shares
    assert quota is None or sum(len(share.cores) for share in found) <= quota + 0.01


def test_two_shares_in_a_quota_of_one_core_are_refused_with_the_reason(cores_of):
    cores_of((0,), (1,))
    with pytest.raises(UsageError, match=r"2 CPU shares need a CPU quota of 2 cores, and cpu\.max allows 1"):
        machine.devices("cpu", 2, limited(1.0))
    plan = Plan(frameworks=("fake",), strategies=("single", "ranks"), devices=(1, 2))
    found = cases(plan, limited(1.0), Interpreters(), strict_devices=False)
    assert {one.case.n_devices for one in found.runnable} == {1}
    assert {one.reason for one in found.skipped} == {
        "needs 2 devices, 1 found: 2 CPU shares need a CPU quota of 2 cores, and cpu.max allows 1"
    }
    with pytest.raises(UsageError, match=r"--devices 2: .* \(2 CPU shares need a CPU quota of 2 cores"):
        cases(plan, limited(1.0), Interpreters(), strict_devices=True)


def test_less_than_one_core_is_no_share_at_all(cores_of):
    cores_of((0,), (1,))
    assert machine.devices("cpu", machine.most_devices("cpu", limited(0.5)), limited(0.5)) == []
    with pytest.raises(NothingToRunError, match=r"a CPU share needs a CPU quota of 1 core, and cpu\.max allows 0\.5"):
        cases(Plan(frameworks=("fake",)), limited(0.5), Interpreters(), strict_devices=False)


# Throttling


@pytest.mark.parametrize(
    ("make", "folder", "version"), [(version_2, "", 2), (version_1, "cpu,cpuacct", 1)], ids=["v2", "v1"]
)
def test_what_stopped_a_round_is_what_its_level_counted_in_between(tmp_path, make, folder, version):
    level = f"{folder}/job/cpu.stat".lstrip("/")
    groups = CpuGroups(make(tmp_path, "/job", {level: stat(10, 3, 0.5, version)}))
    before = groups.throttling()
    write(tmp_path, {f"sys/fs/cgroup/{level}": stat(20, 9, 1.25, version)})
    assert throttled_between(before, groups.throttling()) == Throttling(10, 6, pytest.approx(0.75))


def test_the_level_that_stopped_longest_counts(tmp_path):
    files = {"cpu.stat": stat(0, 0, 0), "a/cpu.stat": stat(5, 0, 0), "a/b/cpu.stat": stat(5, 1, 0.1)}
    groups = CpuGroups(version_2(tmp_path, "/a/b", files))
    before = groups.throttling()
    version_2(tmp_path, "/a/b", {"a/cpu.stat": stat(15, 8, 0.9), "a/b/cpu.stat": stat(15, 2, 0.2)})
    assert throttled_between(before, groups.throttling()) == Throttling(10, 8, pytest.approx(0.9))


def test_without_a_quota_nothing_is_throttled_and_nothing_recorded(tmp_path):
    groups = CpuGroups(version_2(tmp_path, "/", {"cpu.stat": "usage_usec 5\nuser_usec 4\nsystem_usec 1"}))
    assert throttled_between(groups.throttling(), groups.throttling()) is None
    groups = CpuGroups(version_2(tmp_path, "/", {"cpu.stat": stat(0, 0, 0)}))
    assert throttled_between(groups.throttling(), groups.throttling()) is None


def throttled(record: RunRecord, share: float) -> RunRecord:
    """The record with so much of the wanted CPU time withheld in each round."""
    rounds = [
        replace(
            each,
            cpu_periods=20,
            cpu_throttled_periods=15,
            cpu_throttled_seconds=sum(each.rank_cpu_seconds) * share / (1 - share),
        )
        for each in record.rounds
    ]
    return replace(record, rounds=rounds)


@pytest.mark.parametrize(
    ("share", "severities"), [(0.0, []), (0.005, []), (0.05, ["warning"]), (0.3, ["severe"]), (0.5, ["severe"])]
)
def test_throttling_is_doubted_by_the_share_of_cpu_time_that_it_withheld(share, severities):
    found = [check for check in doubts(throttled(make_record(), share)) if check.name == "cpu_throttled"]
    assert [check.severity for check in found] == severities
    assert all(f"withheld {100 * share:.0f} %" in check.message for check in found)
    assert all("45 of 60 periods" in check.message for check in found)


def test_a_throttled_launch_is_set_aside_and_the_others_keep_their_number():
    records = make_launches(make_case(), [100.0, 100.0, 50.0, 100.0])
    [summary] = summarize([records[0], records[1], throttled(records[2], 0.5), records[3]])
    assert [aside.launch for aside in summary.set_aside] == [2]
    assert sets_aside(summary.set_aside[0].check)
    assert summary.samples_per_second == pytest.approx(100.0)
    [alone] = summarize([throttled(record, 0.5) for record in records])
    assert alone.samples_per_second is None
    assert alone.no_number is not None
    assert alone.no_number.name == "cpu throttled"


def test_a_round_keeps_what_its_quota_counted(run_fake, monkeypatch):
    counts = iter(range(100))

    def counted(self: CpuGroups) -> dict[Path, Throttling]:
        number = next(counts)
        return {Path("/group"): Throttling(10 * number, 4 * number, 0.25 * number)}

    monkeypatch.setattr(CpuGroups, "throttling", counted)
    record = run_fake("single", 1)
    seen = {(each.cpu_periods, each.cpu_throttled_periods, each.cpu_throttled_seconds) for each in record.rounds}
    assert seen == {(10, 4, 0.25)}


# A real quota

GROUPS = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")]
IN_THE_GROUP = """
import sys, time
sys.stdin.readline()
from gpubench.harness import machine
from gpubench.telemetry.cgroup import CpuGroups, throttled_between
this = machine.describe()
print(this.cpu_quota_cores, machine.most_devices("cpu", this), flush=True)
sys.stdin.readline()
groups = CpuGroups()
before, end = groups.throttling(), time.monotonic() + 60
found = None
while (found is None or not found.throttled_seconds) and time.monotonic() < end:
    found = throttled_between(before, groups.throttling())
print(found.throttled_periods > 0, found.throttled_seconds > 0, found.periods >= found.throttled_periods)
"""


class Group:
    """A control group of this test's own, of either version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._is_v2 = (folder.parent / "cgroup.controllers").exists()

    def limit(self, quota_us: int) -> None:
        """Of each 100 ms."""
        if self._is_v2:
            (self.folder / "cpu.max").write_text(f"{quota_us} 100000")
        else:
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota_us))


@pytest.fixture
def group() -> Iterator[Group]:
    parents = [p for p in GROUPS if (p / "cgroup.controllers").exists() or (p / "cpu.cfs_quota_us").exists()]
    if not parents:
        pytest.skip("this machine shows no cpu controller")
    made = Group(parents[0] / f"gpubench-test-{os.getpid()}")
    try:
        made.folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        made.limit(100_000)
    except OSError as error:
        made.folder.rmdir()
        pytest.skip(f"no CPU quota can be set here: {error.strerror}")
    yield made
    made.folder.rmdir()


def test_a_real_quota_is_found_and_its_throttling_counted(group):
    command = [sys.executable, "-c", IN_THE_GROUP]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            (group.folder / "cgroup.procs").write_text(str(process.pid))
        except OSError as error:
            process.kill()
            pytest.skip(f"no process can be moved into a control group here: {error.strerror}")
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline().split() == ["1.0", "1"]
        group.limit(5_000)  # so little that it is used up however busy this machine is
        output, _ = process.communicate("\n", timeout=120)
    assert output.split() == ["True"] * 3
