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


SIMULATED = 2000  # measurements; the standard error of a coverage of 95 % is then half a percent


def simulated(rate: float, noise: float, launches: int, seed: int) -> np.ndarray:
    """Throughputs of launches, shape (SIMULATED, launches): five rounds each, which vary by half of `noise` more."""
    random = np.random.default_rng(seed)
    between = np.exp(random.normal(0, noise, (SIMULATED, launches, 1)))
    rounds_seconds = 1 / (rate * between) * np.exp(random.normal(0, noise / 2, (SIMULATED, launches, 5)))
    return 5 / rounds_seconds.sum(axis=-1)


@pytest.mark.parametrize("noises", [(0.002, 0.002), (0.005, 0.02), (0.05, 0.01), (0.05, 0.05)])
@pytest.mark.parametrize("launches", [5, 10])
def test_the_interval_of_a_ratio_covers_the_truth_as_often_as_it_says(launches, noises):
    above, below = simulated(180, noises[0], launches, seed=1), simulated(100, noises[1], launches, seed=2)
    if launches < stats.BOOTSTRAP_LAUNCHES:
        low, high = stats.welch_log_ratio_interval(above, below)
    else:  # a part at a time, as each has thousands of resamples
        parts = zip(np.split(above, 10), np.split(below, 10), strict=True)
        bounds = [stats.bootstrap_median_ratio_interval(*part) for part in parts]
        low, high = (np.concatenate(bound) for bound in zip(*bounds, strict=True))
    assert 0.93 <= np.mean((low <= 1.8) & (high >= 1.8)) <= 0.97


@pytest.mark.parametrize(("launches", "noise"), [(5, 0.002), (5, 0.05), (10, 0.02)])
def test_the_interval_of_a_throughput_covers_the_truth_as_often_as_it_says(launches, noise):
    rates = simulated(100, noise, launches, seed=3)
    if launches < stats.BOOTSTRAP_LAUNCHES:
        low, high = stats.t_log_interval(rates)
    else:
        bounds = [stats.bootstrap_median_interval(part) for part in np.split(rates, 10)]
        low, high = (np.concatenate(bound) for bound in zip(*bounds, strict=True))
    assert 0.93 <= np.mean((low <= 100) & (high >= 100)) <= 0.97


def test_pooled_rounds_would_not_cover_which_is_why_launches_are_the_samples():
    random = np.random.default_rng(4)
    rounds = 100 * np.exp(random.normal(0, 0.02, (2000, 5, 1)) + random.normal(0, 0.005, (2000, 5, 20)))
    low, high = stats.t_log_interval(rounds.reshape(2000, 100))
    assert np.mean((low <= 100) & (high >= 100)) < 0.6


@pytest.mark.parametrize(
    ("launches", "interval"), [(5, "welch_log_ratio_interval"), (12, "bootstrap_median_ratio_interval")]
)
def test_what_is_simulated_is_what_is_used(launches, interval):
    above, below = (simulated(rate, 0.02, launches, seed=5)[0] for rate in (180, 100))
    low, high = getattr(stats, interval)(above, below)
    assert stats.ratio_interval(launches_at(*above), launches_at(*below)) == Interval(
        pytest.approx(low), pytest.approx(high)
    )


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


def test_an_interval_holds_the_figure_that_it_stands_beside():
    # Nine launches in two camps, 5 at 100 and 4 at 272: the median is 100, and the t interval of the mean begins at 105
    rates = [100.0] * 5 + [100 * math.e] * 4
    assert stats.t_log_interval(rates)[0] > 104
    interval = stats.rate_interval(launches_at(*rates))
    assert interval is not None
    assert interval.low == 100


def test_launches_needed_is_the_first_count_that_settles_it_in_four_of_five():
    # k = 6: t(10) = 2.2281 and 0.8791, 3.1072 * 0.02 / sqrt(6) = 0.02537 fits 0.026;
    # k = 5: t(8) = 2.3060 and 0.8889, 3.1949 * 0.02 / sqrt(5) = 0.02858 does not
    assert stats.launches_needed(0.02, 0.026) == 6
    assert stats.launches_needed(1.0, 0.001) is None


def test_so_many_launches_as_needed_settle_it_about_four_times_in_five():
    noise, distance = 0.02, 0.03
    needed = stats.launches_needed(math.hypot(noise, noise), distance)
    assert needed is not None
    random = np.random.default_rng(6)
    above = math.exp(distance) * np.exp(random.normal(0, noise, (4000, needed)))
    low, _ = stats.welch_log_ratio_interval(above, np.exp(random.normal(0, noise, (4000, needed))))
    assert 0.78 <= np.mean(low > 1) <= 0.90


def test_a_trend_is_the_change_along_the_least_squares_line():
    # Logs 0, 0.1, 0.1, 0.2 at 0..3: slope (1.5*0.2 + 0.5*0.1 - 0.5*0.1)/5 = 0.06, over 3 rounds 0.18
    changes = stats.trends(np.exp([[0.0, 0.1, 0.1, 0.2], [0.3, 0.3, 0.3, 0.3]]))
    assert changes == pytest.approx([0.18, 0.0])


def test_a_slope_stands_out_only_from_noise_that_is_smaller():
    x = np.array([-2.0, -1, 0, 1, 2])
    # residuals r of sum of squares 0.014 and no slope: error sqrt(0.014 / 3 / 10) = 0.0216; t(3, 99 %) = 5.841: 0.1262
    r = np.array([0.05, -0.05, 0, -0.05, 0.05]) + np.array([-0.02, 0.04, -0.04, 0.04, -0.02])
    r = (r - r.mean()) * math.sqrt(0.014 / np.sum((r - r.mean()) ** 2))
    assert stats.clear_slope(x, 0.127 * x + r, n_means=1) == pytest.approx(0.127)
    assert stats.clear_slope(x, 0.125 * x + r, n_means=1) is None


def test_no_slope_stands_out_of_too_few_launches():
    assert stats.clear_slope(np.array([-1.0, 0, 1]), np.array([-1.0, 0, 1]), n_means=1) is None
    assert stats.clear_slope(np.zeros(9), np.zeros(9), n_means=1) is None


@pytest.mark.parametrize("launches", [30, 31])
def test_medians_of_many_resampled_launches_fall_as_if_all_of_them_were_drawn(launches, monkeypatch):
    monkeypatch.setattr(stats, "_RESAMPLES", 100_000)
    rates = np.random.default_rng(4).normal(100, 5, launches)
    by_rank = stats._resampled_medians(rates, np.random.default_rng(0))
    drawn = np.median(rates[np.random.default_rng(1).integers(launches, size=(100_000, launches))], axis=-1)
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        # The share of medians up to one value is known to 0.2 %, from either.
        value = np.quantile(drawn, share)
        assert np.mean(by_rank <= value) == pytest.approx(np.mean(drawn <= value), abs=0.01)
