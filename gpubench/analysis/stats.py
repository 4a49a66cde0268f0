"""Medians and intervals across launches. A launch, one fresh start of a case, is the unit of replication.

Steps and rounds within a launch are not independent of one another: pooled as if they were, a "95 %" interval covers
the truth about half the time. So every interval here comes from the spread between launches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95
POWER = 0.80  # how often a measurement with the launches needed should settle the question
# A run that goes on until its interval is narrow ends early where the spread happens to come out small, so that such
# intervals hold the truth more rarely than they say (Starr 1966, Annals of Mathematical Statistics 37). With this
# quantile and at least so many launches they hold it in 93 to 97 % of runs, as simulated in test_stopping.py.
SEQUENTIAL_QUANTILE = 0.965
FEWEST_TO_STOP = 4
FEWEST_LAUNCHES = 3  # for any interval
BOOTSTRAP_LAUNCHES = 10  # from here on a bootstrap of medians covers as it should
_RESAMPLES = 2000
_RANKED_FROM = 30  # launches

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A 95 % confidence interval, in the unit of the figure it belongs to."""

    low: float
    high: float

    def scaled(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Launch:
    """The timed rounds of one launch: samples counted and seconds taken, a number for each round."""

    samples: tuple[int, ...]
    seconds: tuple[float, ...]

    @cached_property
    def samples_per_second(self) -> float:
        """Total work over total time, the harmonic mean of the rounds' rates (Hoefler & Belli 2015, rule 3)."""
        return sum(self.samples) / sum(self.seconds)

    @property
    def rates(self) -> list[float]:
        """Samples per second of each round."""
        return [samples / seconds for samples, seconds in zip(self.samples, self.seconds, strict=True)]


def median_rate(launches: Sequence[Launch]) -> float:
    """The median across launches of samples per second."""
    return float(median(launch.samples_per_second for launch in launches))


def rate_interval(launches: Sequence[Launch], sequential: bool = False) -> Interval | None:
    """Of the throughput, in samples per second."""
    return median_interval([launch.samples_per_second for launch in launches], sequential)


def median_interval(values: Sequence[float], sequential: bool = False) -> Interval | None:
    """Of the median of one figure a launch: Student's t on logs, or from 10 launches a bootstrap of the median.

    `sequential` says that launches were added until an interval was narrow: it is then Student's t, a little wider,
    at any number. None under 3 launches.
    """
    if len(values) < FEWEST_LAUNCHES:
        return None
    if sequential:
        low, high = sequential_interval(values)
        return Interval(float(low), float(high))
    interval = t_log_interval if len(values) < BOOTSTRAP_LAUNCHES else bootstrap_median_interval
    return _around(median(values), interval(values))


def ratio_interval(above: Sequence[Launch], below: Sequence[Launch], sequential: bool = False) -> Interval | None:
    """Of throughput `above` over throughput `below`: Welch's t on logs, or from 10 launches a bootstrap.

    `sequential` as of `median_interval`. None under 3 launches on either side.
    """
    fewest = min(len(above), len(below))
    if fewest < FEWEST_LAUNCHES:
        return None
    a, b = ([launch.samples_per_second for launch in launches] for launches in (above, below))
    figure = median_rate(above) / median_rate(below)
    if sequential:
        return _around(figure, welch_log_ratio_interval(a, b, SEQUENTIAL_QUANTILE))
    interval = welch_log_ratio_interval if fewest < BOOTSTRAP_LAUNCHES else bootstrap_median_ratio_interval
    return _around(figure, interval(a, b))


def sequential_interval(values: ArrayLike) -> tuple[Floats, Floats]:
    """Student's t on logs over the last axis, widened where it does not hold the median, at `SEQUENTIAL_QUANTILE`."""
    low, high = t_log_interval(values, SEQUENTIAL_QUANTILE)
    middle = np.median(np.asarray(values, dtype=float), axis=-1)
    return np.minimum(low, middle), np.maximum(high, middle)


def sequential_stretch(launches: int) -> float:
    """How many times as wide, on logs, a sequential interval is as Student's t of so many launches at `CONFIDENCE`."""
    return float(_t(launches - 1, SEQUENTIAL_QUANTILE) / _t(launches - 1))


def half_width_at(spread: float, launches: int) -> float:
    """Half the width that a sequential interval of so many launches has, on logs, at such a standard deviation."""
    return float(_t(launches - 1, SEQUENTIAL_QUANTILE)) * spread / math.sqrt(launches)


def t_log_interval(values: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Student's t interval of the geometric mean, over the last axis: exp(m ± t(k-1) s/sqrt(k)), m and s of the logs.

    On logs because noise in a rate multiplies, and because an interval of a rate then never reaches below 0.
    """
    logs = np.log(np.asarray(values, dtype=float))
    k = logs.shape[-1]
    half = _t(k - 1, confidence) * logs.std(axis=-1, ddof=1) / math.sqrt(k)
    mean = logs.mean(axis=-1)
    return np.exp(mean - half), np.exp(mean + half)


def welch_log_ratio_interval(
    above: ArrayLike, below: ArrayLike, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Welch's interval of the ratio of two geometric means, over the last axis, variances not taken as equal.

    Welch 1947 (Biometrika 34) with the degrees of freedom of Satterthwaite 1946 (Biometrics Bulletin 2), on logs, where
    a ratio is a difference.
    """
    a, b = (np.log(np.asarray(values, dtype=float)) for values in (above, below))
    k_a, k_b = a.shape[-1], b.shape[-1]
    var_a, var_b = a.var(axis=-1, ddof=1) / k_a, b.var(axis=-1, ddof=1) / k_b
    var = var_a + var_b
    spread = var_a**2 / (k_a - 1) + var_b**2 / (k_b - 1)
    freedom = np.divide(var**2, spread, out=np.full_like(var, k_a + k_b - 2), where=spread > 0)
    half = _t(freedom, confidence) * np.sqrt(var)
    difference = a.mean(axis=-1) - b.mean(axis=-1)
    return np.exp(difference - half), np.exp(difference + half)


def bootstrap_median_interval(values: ArrayLike) -> tuple[Floats, Floats]:
    """Percentiles of the median of resampled launches, over the last axis.

    Whole launches are drawn, with replacement, and keep their rounds. In a bootstrap of two levels this is the one
    that varies as much as the measurement does: drawing rounds anew as well counts their noise twice, as it is in the
    rates of the launches already (Davison & Hinkley 1997, section 3.8; Kalibera & Jones 2020, arXiv 2007.10899, for
    the levels).
    """
    return _percentiles(_resampled_medians(values, np.random.default_rng(0)))


def bootstrap_median_ratio_interval(above: ArrayLike, below: ArrayLike) -> tuple[Floats, Floats]:
    """As `bootstrap_median_interval`, of the ratio of two medians, each side drawn for itself."""
    random = np.random.default_rng(0)
    return _percentiles(_resampled_medians(above, random) / _resampled_medians(below, random))


def noise(launches: Sequence[Launch]) -> float | None:
    """Spread between launches: the standard deviation of the logs of their rates, close to their CV."""
    if len(launches) < 2:
        return None
    return float(np.log([launch.samples_per_second for launch in launches]).std(ddof=1))


def launches_needed(ratio_noise: float, log_distance: float) -> int | None:
    """Launches on each side until the interval of a ratio keeps clear of a limit, in four of five such measurements.

    `ratio_noise` is the spread of one pair of launches, sqrt(s_a² + s_b²) on logs; `log_distance` is how far the ratio
    is from the limit. The smallest k with (t(0.975) + t(0.8)) ratio_noise / sqrt(k) <= log_distance, of 2k-2 degrees
    of freedom (Student's t for the usual size of a sample at 80 % power); None beyond 100, where more launches are not
    the remedy.
    """
    for k in range(FEWEST_LAUNCHES, 101):
        quantiles = _t(2 * k - 2) + stdtrit(2 * k - 2, POWER)
        if float(quantiles) * ratio_noise / math.sqrt(k) <= log_distance:
            return k
    return None


def trends(rates: ArrayLike) -> Floats:
    """By how much the log of each row changes from its first column to its last, on the least-squares line.

    `rates` (launches, rounds), changes (launches,).
    """
    logs = np.log(np.asarray(rates, dtype=float))
    x = np.arange(logs.shape[1], dtype=float)
    centred = x - x.mean()
    changes: Floats = logs @ centred / (centred @ centred) * (x[-1] - x[0])
    return changes


def clear_slope(x: Floats, y: Floats, n_means: int) -> float | None:
    """The least-squares slope of y over x, both centred group by group, where it stands out from the noise; else None.

    `n_means` is how many groups were centred: each costs a degree of freedom, as the slope does. At 99 %, since every
    run is tested; under 3 degrees of freedom nothing stands out.
    """
    freedom, spread = len(x) - n_means - 1, float(x @ x)
    if freedom < 3 or spread <= 0:
        return None
    slope = float(x @ y) / spread
    residual = y - slope * x
    error = math.sqrt(float(residual @ residual) / freedom / spread)
    return slope if abs(slope) > float(stdtrit(freedom, 0.995)) * error else None


def _resampled_medians(values: ArrayLike, random: np.random.Generator) -> Floats:
    """Medians of launches drawn with replacement; `values` (…, k), medians (…, resamples).

    Of many launches only the middle ones of each draw are drawn, by their rank, which has the same distribution at a
    cost that does not grow with k: the m-th smallest of k uniform draws is Beta(m, k-m+1), and the next one is the
    smallest of k-m draws above it (David & Nagaraja 2003, Order Statistics, sections 2.1 and 2.5).
    """
    rates = np.asarray(values, dtype=float)
    k = rates.shape[-1]
    medians: Floats
    if k < _RANKED_FROM:
        medians = np.median(rates[..., random.integers(k, size=(_RESAMPLES, k))], axis=-1)
        return medians
    ordered, m = np.sort(rates, axis=-1), (k + 1) // 2
    lower = upper = random.beta(m, k - m + 1, size=_RESAMPLES)
    if k % 2 == 0:
        upper = lower + (1 - lower) * random.beta(1, k - m, size=_RESAMPLES)
    low, high = (np.minimum(k - 1, (k * share).astype(int)) for share in (lower, upper))
    medians = (ordered[..., low] + ordered[..., high]) / 2
    return medians


def _percentiles(values: Floats) -> tuple[Floats, Floats]:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail], axis=-1)
    return low, high


def _around(figure: float, bounds: tuple[Floats, Floats]) -> Interval:
    """The interval, widened where it does not hold the figure that it stands beside.

    Figures are medians and t intervals are of means: where launches fall into two camps, they can part.
    """
    return Interval(min(float(bounds[0]), figure), max(float(bounds[1]), figure))


def _t(freedom: ArrayLike, confidence: float = CONFIDENCE) -> Floats:
    """Student's t quantile of the two-sided confidence."""
    quantile: Floats = stdtrit(freedom, (1 + confidence) / 2)
    return quantile
