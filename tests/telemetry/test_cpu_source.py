"""The source for CPU shares, on made-up /proc and /sys trees whose figures are worked out by hand."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpubench.spec.case import Device
from gpubench.telemetry import rapl
from gpubench.telemetry.cpu import CpuSource

ONE_CORE = Device(kind="cpu", id="core 0", name="CPU", cores=(0,))
PACKAGE = Device(kind="cpu", id="cores 0,2", name="CPU", cores=(0, 2))


def write(path: Path, text: str | int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def write_ticks(root: Path, core0: str, core2: str = "0 0 0 0 0 0 0 0 0 0") -> None:
    write(root / "proc/stat", f"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 {core0}\ncpu2 {core2}\nintr 1 2 3")


def write_package(root: Path, microjoules: int, folder: str = "intel-rapl:0", name: str = "package-0") -> Path:
    zone = root / "sys/class/powercap" / folder
    write(zone / "name", name)
    write(zone / "max_energy_range_uj", 1000_000_000)
    write(zone / "energy_uj", microjoules)
    return zone


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two cores, 0 and 2, of one package; core 1 is offline."""
    write_ticks(tmp_path, "100 0 0 100 0 0 0 0 0 0", "100 0 0 100 0 0 0 0 0 0")
    for core in (0, 2):
        write(tmp_path / f"sys/devices/system/cpu/cpu{core}/topology/physical_package_id", 0)
        write(tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq", 2_000_000 + core * 500_000)
    return tmp_path


def test_utilisation_is_the_busy_share_of_the_shares_own_cores(root: Path):
    source = CpuSource([ONE_CORE, PACKAGE], root)
    # core 0: user +30, system +10, irq +5, softirq +5 are busy; idle +40, iowait +6 are not; steal +4 is others'.
    # core 2: idle +100.
    write_ticks(root, "130 0 10 140 6 5 5 4 0 0", "100 0 0 200 0 0 0 0 0 0")
    one_core, package = source.sweep()
    assert (one_core.id, one_core.values["utilization_percent"], one_core.values["steal_percent"]) == ("core 0", 50, 4)
    assert (package.id, package.values["utilization_percent"], package.values["steal_percent"]) == ("cores 0,2", 25, 2)


def test_each_sweep_tells_about_the_time_since_the_one_before(root: Path):
    source = CpuSource([ONE_CORE], root)
    write_ticks(root, "110 0 0 100 0 0 0 0 0 0")
    assert source.sweep()[0].values["utilization_percent"] == 100
    write_ticks(root, "110 0 0 110 0 0 0 0 0 0")
    assert source.sweep()[0].values["utilization_percent"] == 0


def test_each_core_of_a_share_has_its_mean_between_two_edges(root: Path):
    source = CpuSource([ONE_CORE, PACKAGE], root)
    source.sweep(edge=True)
    write_ticks(root, "130 0 0 130 0 0 0 0 0 0", "110 0 0 130 0 0 0 0 0 0")
    source.sweep()
    write_ticks(root, "190 0 0 110 0 0 0 0 0 0", "110 0 0 190 0 0 0 0 0 0")
    one_core, package = source.sweep(edge=True)
    assert one_core.gpm is None  # its utilisation is that of its core
    assert package.gpm is not None
    # core 0: 90 of 100 ticks; core 2: 10 of 100.
    assert package.gpm.values == {"core_0_utilization_percent": 90, "core_2_utilization_percent": 10}


def test_a_sweep_within_one_tick_of_the_clock_has_no_utilisation(root: Path):
    (sample,) = CpuSource([ONE_CORE], root).sweep()
    assert "utilization_percent" not in sample.values
    assert "utilization_percent" not in sample.problems


def test_what_a_sweep_came_too_soon_for_is_in_the_next_one(root: Path):
    source = CpuSource([ONE_CORE], root)
    write_ticks(root, "103 0 0 100 0 0 0 0 0 0")
    assert "utilization_percent" not in source.sweep(edge=True)[0].values
    write_ticks(root, "103 0 0 103 0 0 0 0 0 0")
    assert source.sweep()[0].values["utilization_percent"] == 50


def test_frequency_is_the_mean_of_the_shares_cores(root: Path):
    source = CpuSource([ONE_CORE, PACKAGE], root)
    one_core, package = source.sweep()
    assert (one_core.values["sm_clock_mhz"], package.values["sm_clock_mhz"]) == (2000, 2500)


def test_frequency_comes_from_cpuinfo_where_cpufreq_is_missing(root: Path):
    for core in (0, 2):
        (root / f"sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").unlink()
    write(root / "proc/cpuinfo", "processor : 0\ncpu MHz : 2100.5\n\nprocessor : 2\ncpu MHz : 2300.5\n")
    assert [sample.values["sm_clock_mhz"] for sample in CpuSource([ONE_CORE, PACKAGE], root).sweep()] == [
        2100.5,
        2200.5,
    ]


def test_energy_of_a_whole_package_is_its_counter_with_the_wrap_taken_out(root: Path):
    zone = write_package(root, 999_000_000)
    write_package(root, 5, folder="intel-rapl:0:0", name="core")  # a part of the package, counted in it already
    source = CpuSource([PACKAGE], root)
    assert source.sweep()[0].values["energy_joules"] == 0
    write(zone / "energy_uj", 2_000_000)  # 1 J up to the wrap at 1000 J, and 2 J behind it
    (sample,) = source.sweep()
    assert sample.values["energy_joules"] == pytest.approx(3)
    assert (sample.values["power_watts"] or 0) > 0


def test_a_part_of_a_package_has_no_energy_of_its_own(root: Path):
    write_package(root, 1)
    source = CpuSource([ONE_CORE], root)
    assert "cores 0,2" in source.header().unavailable["core 0"]["energy_joules"]
    (sample,) = source.sweep()
    assert not {"energy_joules", "power_watts"} & set(sample.values)


def test_a_machine_without_rapl_says_so(root: Path):
    assert "no RAPL" in CpuSource([PACKAGE], root).header().unavailable["cores 0,2"]["power_watts"]


def test_a_refused_counter_explains_how_to_open_it(root: Path, monkeypatch: pytest.MonkeyPatch):
    write_package(root, 1)

    def refuse(self: rapl._Zone) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(rapl._Zone, "grow", refuse)
    assert "sudo chmod" in CpuSource([PACKAGE], root).header().unavailable["cores 0,2"]["energy_joules"]


def test_a_core_that_is_not_there_is_named(root: Path):
    source = CpuSource([Device(kind="cpu", id="core 1", name="CPU", cores=(1,))], root)
    assert source.header().unavailable["core 1"]["utilization_percent"] == "this machine has no core 1"
    assert source.sweep() == []


def test_a_core_that_goes_offline_gives_no_utilisation_from_then_on(root: Path):
    source = CpuSource([PACKAGE], root)
    write(root / "proc/stat", "cpu0 200 0 0 200 0 0 0 0 0 0")
    (sample,) = source.sweep()
    assert sample.values["utilization_percent"] is None
    assert "offline" in sample.problems["utilization_percent"]


def test_a_machine_without_proc_has_a_reason(tmp_path: Path):
    assert "/proc/stat" in (CpuSource([ONE_CORE], tmp_path).header().reason or "")


def test_the_temperature_is_that_of_the_hottest_package(root: Path, monkeypatch: pytest.MonkeyPatch):
    readings = [SimpleNamespace(current=61.0), SimpleNamespace(current=74.5)]
    monkeypatch.setattr(
        "psutil.sensors_temperatures", lambda: {"nvme": [SimpleNamespace(current=90.0)], "k10temp": readings}
    )
    (sample,) = CpuSource([ONE_CORE], root).sweep()
    assert sample.values["temperature_celsius"] == 74.5


def test_host_memory_in_use_is_between_nothing_and_all(root: Path):
    (sample,) = CpuSource([ONE_CORE], root).sweep()
    assert 0 < (sample.values["memory_used_bytes"] or 0) < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
