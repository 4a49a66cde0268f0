"""The energy of a round from a counter, worked out by hand: when it is taken, and how far off it may be."""

from __future__ import annotations

import pytest

from gpubench.telemetry.energy import Energy, energy_of
from gpubench.telemetry.means import Point

SECOND = 10**9


def every_second(*values: float) -> list[Point]:
    return [(i * SECOND, value) for i, value in enumerate(values)]


def energy(counter: list[Point], watts: list[Point], mean: float | None, limit: float | None = None) -> Energy:
    """Of the round from 1 s to 3 s."""
    return energy_of(counter, watts, mean, 1 * SECOND, 3 * SECOND, limit)


def test_the_counter_is_taken_and_the_power_stands_beside_it():
    found = energy(every_second(0, 100, 200, 300, 400), every_second(*[101] * 5), 101)
    assert (found.joules, found.source) == (200, "counter")
    assert found.integrated_joules == pytest.approx(202)
    assert found.problem is None


def test_the_error_is_a_refresh_at_the_highest_power_and_what_a_line_misses_of_a_step():
    # Refreshed each second: 1 s x 300 W. Power from 100 to 300 W within a gap of 1 s, at both edges: 2 x 200 x 1 / 4.
    found = energy(every_second(0, 100, 300, 600, 700), every_second(100, 300, 300, 300, 100), 250)
    assert found.error_joules == pytest.approx(300 + 100)


def test_without_power_the_error_comes_from_the_steepest_step_of_the_counter():
    found = energy(every_second(0, 100, 300, 600, 700), [], None)
    assert found.error_joules == pytest.approx(300 + 2 * 200 / 4)
    assert (found.joules, found.integrated_joules) == (500, None)


@pytest.mark.parametrize(
    ("counter", "words"),
    [
        (every_second(500, 600, 20, 120, 220), "fell"),
        (every_second(7, 7, 7, 7, 7), "stood still"),
        (every_second(0, 0, 5000, 10000, 10000), "5000 W, and the limit is 300 W"),
        (every_second(0, 100, 200)[1:], "not read at both edges"),
    ],
    ids=["reset", "stuck", "more than the limit", "no reading behind"],
)
def test_a_counter_that_cannot_be_right_gives_way_to_power_and_says_why(counter: list[Point], words: str):
    found = energy(counter, every_second(*[100] * 5), 100, limit=300)
    assert (found.joules, found.source) == (pytest.approx(200), "integrated power")
    assert words in (found.problem or "")


def test_a_counter_and_a_power_that_disagree_are_both_kept():
    found = energy(every_second(0, 100, 200, 300, 400), every_second(*[300] * 5), 300)
    assert (found.joules, found.source, found.integrated_joules) == (200, "counter", 600)
    assert found.problem == "the counter says 200 J and the power over time 600 J"


def test_a_counter_that_is_off_by_no_more_than_its_refresh_is_no_problem():
    found = energy(every_second(0, 100, 200, 300, 400), every_second(*[120] * 5), 120)
    assert (found.joules, found.integrated_joules, found.error_joules) == (200, 240, 120)
    assert found.problem is None


def test_nothing_known_is_no_energy():
    assert energy([], [], None) == Energy()


def test_a_constant_counter_is_no_energy_in_a_short_round_either():
    flat = [(t, 5_000.0) for t in range(0, 10**9, 10**8)]
    with_power = energy_of(flat, [], 300.0, 10**8, 6 * 10**8, 700.0)
    assert (with_power.joules, with_power.source) == (pytest.approx(150.0), "integrated power")
    assert with_power.problem == "the counter made no step in so short a round"
    without = energy_of(flat, [], None, 10**8, 6 * 10**8, 700.0)
    assert (without.joules, without.problem) == (None, "the counter made no step in so short a round")
    assert energy_of(flat, [], 0.0, 10**8, 6 * 10**8, 700.0).joules is None
