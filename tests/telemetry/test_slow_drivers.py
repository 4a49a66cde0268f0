"""A driver whose every call takes long: it is asked less often, which is counted and said, and rounds have figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpubench.analysis.checks import doubts
from gpubench.spec.record import Telemetry
from gpubench.telemetry.calls import RARE_NS, SLOW_NS, tiers
from gpubench.telemetry.sampler import Sampler
from tests.builders import make_case, make_record
from tests.fakes.nvml import DEFAULT, gpu
from tests.telemetry.helpers import loading, make_round

PERIOD_SECONDS = 0.1


def in_tiers(seconds: Sequence[float], n: int = 1) -> tuple[list[int], ...]:
    """Where ten calls go, of which the first belongs to every tick and the last two to every five seconds."""
    calls = range(len(seconds))
    found = tiers(list(calls[:1]), list(calls[1:-2]), list(calls[-2:]), lambda call: seconds[call], n)
    return found.fast, found.slow, found.rare, found.left_out


def test_the_calls_of_a_quick_driver_are_where_they_belong():
    assert in_tiers([1e-4] * 10, 8) == ([0], [1, 2, 3, 4, 5, 6, 7], [8, 9], [])


def test_calls_that_do_not_fit_into_a_fifth_of_their_period_move_to_a_longer_one_or_are_left_out():
    # 0.1 s each: two fit into a fifth of a second, ten into one of five seconds
    assert in_tiers([0.1] * 10) == ([], [0, 1], [2, 3, 4, 5, 6, 7, 8, 9], [])
    assert in_tiers([0.15] * 10) == ([], [0], [1, 2, 3, 4, 5, 6], [7, 8, 9])


def test_the_first_call_is_made_however_slow_and_less_often():
    found = tiers([0], [1], [2], lambda call: 0.2, 8)
    assert (found.fast, found.slow, found.rare, found.left_out) == ([], [], [0], [1, 2])
    assert found.period_ns == 8 * 10**9  # a fifth of which are the 1.6 s that it takes over 8 GPUs
    assert tiers([0], [], [], lambda call: 0.003, 1).period_ns == SLOW_NS
    assert tiers([0], [], [], lambda call: 0.3, 1).period_ns == RARE_NS


@pytest.fixture(scope="module")
def slow(fake_nvml: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Telemetry, float, float]:
    """Two rounds of 3 s beside a driver that takes 0.1 s for each call, and when the first one was."""
    folder = tmp_path_factory.mktemp("slow")
    rounds = []
    with loading(fake_nvml, slow_all=100_000), Sampler([gpu(0)], folder, PERIOD_SECONDS) as sampler:
        sampler.wait_until_ready()
        since_ns = time.monotonic_ns()
        for index in range(2):
            sampler.edge()
            start = time.monotonic()
            time.sleep(3)
            rounds.append(make_round(start, time.monotonic(), index))
            sampler.edge()
        telemetry = sampler.telemetry([gpu(0)], rounds, since_ns, time.monotonic_ns())
    return telemetry, rounds[0].start_ns / 1e9, rounds[0].end_ns / 1e9


def test_ticks_that_a_slow_driver_misses_are_counted_and_the_period_is_the_one_that_was_kept(
    slow: tuple[Telemetry, float, float],
):
    telemetry, _, _ = slow
    assert telemetry.reason is None
    assert telemetry.period_seconds == pytest.approx(1)
    cost = telemetry.cost
    assert cost is not None
    assert cost.dropped_ticks > 3 * cost.sweeps
    assert cost.slowed_calls == ["fields at every sweep"]


def test_rounds_beside_a_slow_driver_have_figures_and_what_was_left_out_has_its_reason(
    slow: tuple[Telemetry, float, float],
):
    telemetry, start, end = slow
    (device,) = telemetry.devices
    figures = device.rounds[0]
    assert figures.energy_source == "counter"
    assert figures.energy_joules == pytest.approx(DEFAULT.energy_joules(0, start, end), abs=figures.energy_error_joules)
    assert figures.power_watts is not None
    assert figures.utilization_percent == pytest.approx(
        100 * DEFAULT.busy_seconds(0, start, end) / (end - start), abs=6
    )
    assert "it is left out, so that the others can be read" in device.unavailable["processes"]


def test_a_slow_driver_is_a_doubt(slow: tuple[Telemetry, float, float]):
    record = replace(make_record(make_case(device_kind="gpu")), telemetry=slow[0], rounds=[])
    (check,) = [check for check in doubts(record) if check.name == "sampled_seldom"]
    assert "were read every 1 s at best" in check.message
