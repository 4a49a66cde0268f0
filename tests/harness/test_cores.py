"""Which hardware threads share a core, and which cores are alike: from trees as real kernels show them."""

from __future__ import annotations

import os

import pytest

from gpubench.harness import cores, machine
from gpubench.spec.errors import UsageError
from tests.builders import make_machine
from tests.harness.trees import cores as tree
from tests.harness.trees import write


@pytest.fixture
def usable(monkeypatch):
    def use(*cpus: int) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(cpus))

    return use


def numbered(*values: object) -> dict[int, str]:
    return {cpu: str(value) for cpu, value in enumerate(values)}


def test_threads_of_a_core_on_x86_are_numbered_far_apart(tmp_path, usable):
    usable(*range(8))
    root = tree(tmp_path, *["0,4", "1,5", "2,6", "3,7"] * 2, topology__core_id=numbered(0, 1, 2, 3, 0, 1, 2, 3))
    assert cores.usable_cores(root) == cores.Cores([(0, 4), (1, 5), (2, 6), (3, 7)], [])


def test_without_hyper_threading_each_cpu_is_a_core(tmp_path, usable):
    usable(0, 1, 2, 3)
    assert cores.usable_cores(tree(tmp_path, "0", "1", "2", "3")).like == [(0,), (1,), (2,), (3,)]


def test_equal_core_ids_in_two_clusters_of_an_arm64_machine_are_two_cores(tmp_path, usable):
    usable(0, 1, 2, 3)
    root = tree(
        tmp_path,
        *"0123",
        topology__core_id=numbered(0, 1, 0, 1),
        topology__physical_package_id=numbered(0, 0, 0, 0),
        topology__cluster_id=numbered(0, 0, 1, 1),
        cpu_capacity=numbered(1024, 1024, 1024, 1024),
    )
    assert cores.usable_cores(root) == cores.Cores([(0,), (1,), (2,), (3,)], [])


def test_equal_core_ids_on_two_sockets_are_two_cores(tmp_path, usable):
    usable(0, 1, 2, 3)
    root = tree(
        tmp_path,
        *["0,2", "1,3"] * 2,
        topology__core_id=numbered(0, 0, 0, 0),
        topology__physical_package_id=numbered(0, 1, 0, 1),
    )
    assert cores.usable_cores(root).like == [(0, 2), (1, 3)]


def test_of_big_and_little_cores_on_arm64_the_big_ones_make_shares(tmp_path, usable):
    usable(*range(6))
    root = tree(tmp_path, *"012345", cpu_capacity=numbered(446, 446, 446, 446, 1024, 1024))
    assert cores.usable_cores(root) == cores.Cores([(4,), (5,)], [(0,), (1,), (2,), (3,)])


HYBRID = ["0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7"]  # two performance cores with two threads, four others
CLOCKS = numbered(5_200_000, 5_200_000, 5_400_000, 5_400_000, *[3_900_000] * 4)


def test_of_a_hybrid_intel_cpu_the_performance_cores_make_shares(tmp_path, usable):
    usable(*range(8))
    root = tree(tmp_path, *HYBRID, cpufreq__cpuinfo_max_freq=CLOCKS)
    marked = {"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"}
    expected = cores.Cores([(0, 1), (2, 3)], [(4,), (5,), (6,), (7,)])
    assert cores.usable_cores(root) == expected  # by their clocks
    assert cores.usable_cores(write(root, marked)) == expected


def test_where_only_efficiency_cores_may_be_used_they_make_shares(tmp_path, usable):
    usable(4, 5, 6, 7)
    root = tree(tmp_path, *HYBRID, cpufreq__cpuinfo_max_freq=CLOCKS)
    write(root, {"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"})
    assert cores.usable_cores(root) == cores.Cores([(4,), (5,), (6,), (7,)], [])


def test_a_favoured_core_is_like_the_others(tmp_path, usable):
    usable(0, 1, 2)
    root = tree(tmp_path, *"012", cpufreq__cpuinfo_max_freq=numbered(5_000_000, 5_500_000, 5_000_000))
    assert len(cores.usable_cores(root).like) == 3


def test_dense_cores_with_as_many_threads_are_left_out_by_their_clock(tmp_path, usable):
    usable(0, 1, 2, 3)
    root = tree(tmp_path, "0-1", "0-1", "2-3", "2-3", cpufreq__cpuinfo_max_freq=numbered(*[5100] * 2, *[3300] * 2))
    assert cores.usable_cores(root) == cores.Cores([(0, 1)], [(2, 3)])


def test_a_core_of_which_one_thread_may_be_used_is_no_equal_of_a_whole_one(tmp_path, usable):
    usable(0, 1, 2)
    assert cores.usable_cores(tree(tmp_path, "0-1", "0-1", "2-3", "2-3")) == cores.Cores([(0, 1)], [(2,)])


def test_the_newer_name_of_the_file_serves_as_well(tmp_path, usable):
    usable(0, 1)
    write(tmp_path, {f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list": "0-1" for cpu in (0, 1)})
    assert cores.usable_cores(tmp_path).like == [(0, 1)]


@pytest.mark.parametrize("listed", [None, "", "none", "0-x"])
def test_where_the_kernel_does_not_say_each_cpu_is_a_core(tmp_path, usable, listed):
    usable(0, 1)
    root = tmp_path if listed is None else tree(tmp_path, listed, listed)
    assert cores.usable_cores(root).like == [(0,), (1,)]


def test_unlike_cores_are_named_where_there_are_too_few_equal_ones(monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: cores.Cores([(4,), (5,)], [(0,), (1,)]))
    with pytest.raises(UsageError, match="needs 3 devices, 2 found: 2 other cores are slower or cut"):
        machine.devices("cpu", 3, make_machine())
