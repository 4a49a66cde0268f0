"""Attribution of series to rounds, worked out by hand. One period is one second here."""

from __future__ import annotations

import pytest

from gpubench.spec.record import RoundTelemetry
from gpubench.telemetry.attribution import attribute
from gpubench.telemetry.means import growth, held_mean, is_covered, linear_mean
from gpubench.telemetry.source import Gpm
from tests.telemetry.helpers import make_round

SECOND = 10**9


def attributed(
    series: dict[str, list[float | None]], start: float, end: float, first: int = 0, power_average_seconds: float = 0
) -> RoundTelemetry:
    """The round from `start` to `end`, with samples at first, first + 1, … seconds."""
    n_samples = max((len(values) for values in series.values()), default=0)
    time_ns = [(first + i) * SECOND for i in range(n_samples)]
    return attribute(make_round(start, end, index=7), time_ns, series, SECOND, power_average_seconds)


def test_utilisation_tells_about_the_time_since_the_sample_before():
    # Samples at 0..4 s. 1.5-2 s: what was read at 2 s (50); 2-3 s: 100; 3-3.5 s: what was read at 4 s (20).
    got = attributed({"utilization_percent": [0, 0, 50, 100, 20]}, 1.5, 3.5)
    assert got.utilization_percent == pytest.approx((0.5 * 50 + 1 * 100 + 0.5 * 20) / 2)


def test_no_device_that_trains_uses_no_memory():
    got = attributed({"memory_used_bytes": [0, 0, 0, 0, 0]}, 1.5, 3.5)
    assert got.memory_used_bytes is None
    assert got.unavailable["memory_used_bytes"].startswith("it read 0")
    assert attributed({"memory_used_bytes": [0, 0, 0, 7, 0]}, 1.5, 3.5).memory_used_bytes == 7


def test_unevenly_spaced_samples_weigh_by_their_time():
    # 1 s at 10 and 3 s at 90: (10 + 270) / 4
    points = [(0, 0.0), (1 * SECOND, 10.0), (4 * SECOND, 90.0)]
    assert held_mean(points, 0, 4 * SECOND) == pytest.approx(70)


def test_power_is_a_mean_of_trapezoids_interpolated_at_the_edges():
    # 100 W at 0 s to 300 W at 2 s, then down to 100 W at 4 s. At 1 s and at 3 s it is 200 W.
    points = [(0, 100.0), (2 * SECOND, 300.0), (4 * SECOND, 100.0)]
    assert linear_mean(points, 1 * SECOND, 3 * SECOND) == pytest.approx(250)


def test_energy_is_the_counter_interpolated_at_the_edges():
    # 10, 110, 210, 410 J at 0..3 s: at 0.5 s it is 60, at 2.5 s it is 310.
    got = attributed({"energy_joules": [10, 110, 210, 410]}, 0.5, 2.5)
    assert (got.energy_joules, got.energy_source) == (pytest.approx(250), "counter")


def test_energy_without_a_counter_is_power_integrated_and_says_so():
    # 0.5-2.5 s of 100, 200, 200, 200 W at 0..3 s: 150 W at 0.5 s, so (150 + 200)/2 x 0.5 + 200 x 1.5
    got = attributed({"power_watts": [100, 200, 200, 200]}, 0.5, 2.5)
    assert (got.energy_joules, got.energy_source) == (pytest.approx(387.5), "integrated power")
    assert got.power_watts == pytest.approx(387.5 / 2)


@pytest.mark.parametrize("counter", [[500, 600, 20, 120], [500, 500, 500, 500]], ids=["reset", "stuck"])
def test_a_counter_that_fell_or_stood_still_gives_way_to_integrated_power(counter: list[float | None]):
    got = attributed({"energy_joules": counter, "power_watts": [100, 100, 100, 100]}, 0.5, 2.5)
    assert (got.energy_joules, got.energy_source) == (pytest.approx(200), "integrated power")


def test_a_counter_that_was_not_read_behind_the_round_gives_no_growth():
    assert growth([(1 * SECOND, 10.0), (2 * SECOND, 20.0)], 1 * SECOND, 3 * SECOND) is None
    assert growth([(1 * SECOND, 10.0), (2 * SECOND, 20.0)], 0, 2 * SECOND) is None


def test_without_a_counter_and_without_power_there_is_no_energy():
    got = attributed({"utilization_percent": [1, 2, 3, 4]}, 0.5, 2.5)
    assert (got.energy_joules, got.energy_source, got.power_watts) == (None, None, None)


def test_a_power_that_is_an_average_leaves_out_the_first_time_of_the_round():
    # An average of the last second still holds idle time until 1.2 s after the start: 400 W counts, 100 and 300 do not.
    got = attributed({"power_watts": [100, 100, 300, 400, 400, 400, 400]}, 1, 6, power_average_seconds=1)
    # from 2.2 s: 320 W at 2.2, 400 W at 3 and later
    assert got.power_watts == pytest.approx((0.8 * 360 + 3 * 400) / 3.8)
    assert attributed({"power_watts": [100, 300, 400]}, 0, 2, power_average_seconds=1).power_watts is None


def test_memory_and_temperature_are_the_highest_in_the_round_and_the_clock_is_a_mean():
    series: dict[str, list[float | None]] = {
        "memory_used_bytes": [900, 100, 300, 200, 900],
        "temperature_celsius": [90, 50, 60, 55, 90],
        "sm_clock_mhz": [1000, 1000, 2000, 1000, 1000],
    }
    got = attributed(series, 1, 3)
    assert (got.memory_used_bytes, got.temperature_celsius) == (300, 60)
    assert got.sm_clock_mhz == pytest.approx(1500)
    assert (got.index, got.samples) == (7, 3)


def test_a_round_with_fewer_than_two_samples_has_no_figures():
    got = attributed(
        {"utilization_percent": [50, 50, 50], "energy_joules": [1, 2, 3], "power_watts": [5, 5, 5]}, 0.5, 1.5
    )
    few = "too few samples in the round, or a long time without one"
    reasons = dict.fromkeys(["power_watts", "energy_joules", "utilization_percent"], few)
    assert got == RoundTelemetry(index=7, samples=1, unavailable=reasons)


def test_a_round_without_any_sample_has_no_figures():
    assert attributed({}, 0, 10) == RoundTelemetry(index=7, samples=0)


def test_a_failed_sample_is_bridged():
    got = attributed({"power_watts": [100, None, 100, 100]}, 0, 3)
    assert got.power_watts == pytest.approx(100)


def test_a_device_that_was_lost_in_the_middle_has_no_mean_over_the_whole_round():
    values: list[float | None] = [50] * 30 + [None] * 30
    assert attributed({"utilization_percent": values}, 0, 59).utilization_percent is None
    assert attributed({"utilization_percent": values}, 0, 29).utilization_percent == pytest.approx(50)


@pytest.mark.parametrize(("hole_seconds", "covered"), [(9, True), (11, False)])
def test_a_hole_of_more_than_a_tenth_of_the_round_is_too_long(hole_seconds: int, covered: bool):
    points = [(t * SECOND, 1.0) for t in range(100) if not 40 < t < 40 + hole_seconds]
    assert is_covered(points, 0, 99 * SECOND, SECOND) is covered


def test_the_drivers_buffer_goes_before_snapshots_where_it_tells_about_all_of_the_round():
    history = [(t * SECOND // 2, 100.0 if t % 2 else 0.0) for t in range(1, 13)]  # half a second each, to 6 s
    snapshots: dict[str, list[float | None]] = {"utilization_percent": [100] * 8}
    times = [i * SECOND for i in range(8)]
    got = attribute(make_round(1, 5), times, snapshots, SECOND, history=history)
    assert (got.utilization_percent, got.utilization_source) == (pytest.approx(50), "driver's buffer")
    assert got.unavailable == {}
    got = attribute(make_round(1, 5), times, snapshots, SECOND, history=history[:4])  # only to 2 s
    assert (got.utilization_percent, got.utilization_source) == (pytest.approx(100), "snapshots")


def test_a_byte_counter_grows_between_the_edges_and_has_none_where_it_wrapped():
    good: dict[str, list[float | None]] = {
        "pcie_tx_bytes": [0, None, 400, None, 800],  # read at every second sample
        "pcie_rx_bytes": [2**32 - 10, None, 20, None, 40],
    }
    got = attributed(good, 1, 3)
    assert got.pcie_tx_bytes == 400  # from 200 to 600
    assert got.pcie_rx_bytes is None
    assert got.unavailable == {"pcie_rx_bytes": "the counter fell: it wrapped, or was reset"}


def test_a_byte_counter_that_was_read_before_the_round_only_says_so():
    got = attributed({"pcie_tx_bytes": [0, 100, 200, None, None]}, 1, 3)
    assert got.unavailable == {"pcie_tx_bytes": "the counter was not read at both edges"}


def test_throttle_time_is_by_cause_and_a_counter_that_stands_still_says_none():
    got = attributed({"throttle_power_ns": [0, 10, 20, 30, 40], "throttle_thermal_ns": [5, 5, 5, 5, 5]}, 1, 3)
    assert got.throttle_ns == {"power": 20, "thermal": 0}


def test_event_reasons_are_named_and_being_idle_is_none():
    got = attributed({"clock_event_reasons": [0x1, 0x4, 0x0, 0x40, 0x8]}, 1, 3)
    assert got.clock_event_reasons == ["power cap", "thermal (hardware)"]  # 0x8 came after the round


@pytest.mark.parametrize(
    ("start", "end", "taken"), [(1.0, 3.0, True), (0.97, 3.03, True), (0.5, 3.0, False), (1.0, 2.5, False)]
)
def test_monitoring_counts_where_its_edges_are_the_rounds(start: float, end: float, taken: bool):
    one = Gpm(start_ns=int(start * SECOND), end_ns=int(end * SECOND), values={"sm_active_percent": 70})
    got = attribute(make_round(1, 3), [], {}, SECOND, gpm=[one])
    assert got.gpm == ({"sm_active_percent": 70} if taken else {})
    assert ("gpm" in got.unavailable) is not taken


def test_xids_belong_to_the_round_that_they_fell_into():
    got = attribute(make_round(1, 3), [], {}, SECOND, xids=[(SECOND // 2, 13), (2 * SECOND, 79)])
    assert got.xids == [79]


def test_the_drivers_average_of_power_leaves_out_the_time_before_the_round():
    # From 2.2 s on: 320 W at 2.2, 400 W at 3 and later.
    got = attributed({"power_average_watts": [100, 100, 300, 400, 400, 400, 400]}, 1, 6)
    assert got.power_average_watts == pytest.approx((0.8 * 360 + 3 * 400) / 3.8)


def test_bytes_read_just_outside_the_edges_are_what_they_were_at_the_edges():
    # Idle until 1 s and from 3 s on; read at 0.97, 2 and 3.03 s. A straight line would lose some of the first second.
    times = [int(t * SECOND) for t in (0.97, 2, 3.03)]
    got = attribute(make_round(1, 3), times, {"pcie_tx_bytes": [0, 500, 1000]}, SECOND)
    assert got.pcie_tx_bytes == 1000


def test_a_round_that_is_shorter_than_the_average_says_so():
    got = attributed({"power_average_watts": [100, 100, 300, 400]}, 1, 2)
    assert got.power_average_watts is None
    assert "too short for a power that is an average" in got.unavailable["power_average_watts"]
