"""Intervals against arithmetic by hand, and their coverage against simulated noise of known size."""

import math

import numpy as np
import pytest

from gpubench.analysis import stats
from gpubench.analysis.stats import Interval, Launch


def launches_at(*rates: float) -> list[Launch]:
    return [Launch((1000,), (1000 / rate,)) for rate in rates]


def test_throughput_of_a_launch_is_all_samples_over_all_seconds_not_a_mean_of_rates():
    # 100 in 1 s and 100 in 3 s: 200 / 4 = 50, where the mean of 100 and 33.3 would be 66.7
    assert Launch((100, 100), (1.0, 3.0)).samples_per_second == pytest.approx(50)


def test_the_interval_of_a_throughput_is_students_t_on_logs():
    # Logs 0, 0, 0.3: mean 0.1, s = sqrt((0.01 + 0.01 + 0.04) / 2) = 0.173205, t(2) = 4.302653, half = 0.430265
    low, high = stats.t_log_interval(np.exp([0.0, 0.0, 0.3]))
    assert math.log(low) == pytest.approx(0.1 - 0.430265, abs=1e-6)
    assert math.log(high) == pytest.approx(0.1 + 0.430265, abs=1e-6)


def test_the_interval_of_a_ratio_is_welchs_on_logs():
    # Variances of the means 0.01/3 and 0.04/4 add up to 0.0133333; Satterthwaite's degrees of freedom are
    # 0.0133333**2 / ((0.01/3)**2 / 2 + (0.04/4)**2 / 3) = 4.5714; t = 2.6460; half = 2.6460 * 0.115470 = 0.30554
    above = np.exp(0.5 + 0.1 * np.array([-1.0, 0.0, 1.0]))
    below = np.exp(0.2 * math.sqrt(3) / 2 * np.array([-1.0, -1.0, 1.0, 1.0]))
    low, high = stats.welch_log_ratio_interval(above, below)
    assert math.log(low) == pytest.approx(0.5 - 0.30554, abs=2e-4)
    assert math.log(high) == pytest.approx(0.5 + 0.30554, abs=2e-4)


def test_launches_without_any_spread_give_an_interval_of_no_width():
    assert stats.ratio_interval(launches_at(200, 200, 200), launches_at(100, 100, 100)) == Interval(
        pytest.approx(2.0), pytest.approx(2.0)
    )


def test_fewer_than_three_launches_give_no_interval():
    assert stats.rate_interval(launches_at(100, 101)) is None
    assert stats.ratio_interval(launches_at(200, 201, 202), launches_at(100, 101)) is None


def test_one_launch_has_no_noise_rather_than_a_noise_of_zero():
    assert stats.noise(launches_at(100)) is None
    assert stats.noise(launches_at(100, 100)) == 0


@pytest.mark.parametrize(("launches", "noise"), [(5, 0.005), (5, 0.05), (10, 0.02)])
def test_welch_covers_the_true_ratio_as_often_as_it_says(launches, noise):
    random = np.random.default_rng(1)
    above = 1.8 * np.exp(random.normal(0, noise, size=(20_000, launches)))
    below = np.exp(random.normal(0, 2 * noise, size=(20_000, launches)))
    low, high = stats.welch_log_ratio_interval(above, below)
    assert 0.93 <= np.mean((low <= 1.8) & (high >= 1.8)) <= 0.97


def test_students_t_covers_the_true_throughput_as_often_as_it_says():
    low, high = stats.t_log_interval(100 * np.exp(np.random.default_rng(2).normal(0, 0.02, size=(20_000, 5))))
    assert 0.93 <= np.mean((low <= 100) & (high >= 100)) <= 0.97


def test_the_bootstrap_covers_the_true_ratio_with_ten_launches():
    random = np.random.default_rng(3)
    hits = 0
    for _ in range(300):
        above, below = (
            [Launch((1000,) * 3, tuple(1000 / rate * np.exp(random.normal(0, 0.003, 3)))) for rate in rates]
            for rates in (180 * np.exp(random.normal(0, 0.02, 10)), 100 * np.exp(random.normal(0, 0.02, 10)))
        )
        interval = stats.ratio_interval(above, below)
        assert interval is not None
        hits += interval.low <= 1.8 <= interval.high
    assert 0.93 <= hits / 300 <= 0.985  # the standard error of this simulation is 0.012


def test_the_bootstrap_gives_the_same_interval_every_time():
    above, below = launches_at(*range(190, 200)), launches_at(*range(95, 105))
    assert stats.ratio_interval(above, below) == stats.ratio_interval(above, below)


def test_the_bootstrap_of_ten_equal_launches_is_their_throughput():
    assert stats.rate_interval([Launch((100, 300), (1.0, 3.0))] * 10) == Interval(
        pytest.approx(100), pytest.approx(100)
    )


def test_rounds_of_one_launch_do_not_narrow_the_interval():
    one_round = [Launch((100,), (1.0 + 0.1 * i,)) for i in range(3)]
    many_rounds = [Launch((100,) * 50, (1.0 + 0.1 * i,) * 50) for i in range(3)]
    few, many = stats.rate_interval(one_round), stats.rate_interval(many_rounds)
    assert few is not None
    assert many is not None
    assert many.high - many.low == pytest.approx(few.high - few.low)


def test_launches_needed_is_the_first_count_whose_half_width_fits():
    needed = stats.launches_needed(0.02, 0.03)
    # k = 4: t(6) = 2.4469, 2.4469 * 0.02 / 2 = 0.02447 fits; k = 3: t(4) = 2.7764, 0.03206 does not
    assert needed == 4
    assert stats.launches_needed(1.0, 0.001) is None
