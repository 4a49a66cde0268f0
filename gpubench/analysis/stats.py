"""Medians and intervals across launches. A launch, one fresh start of a case, is the unit of replication.

Steps and rounds within a launch are not independent of one another: pooled as if they were, a "95 %" interval covers
the truth about half the time. So every interval here comes from the spread between launches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

CONFIDENCE = 0.95
FEWEST_LAUNCHES = 3  # for any interval
BOOTSTRAP_LAUNCHES = 10  # from here on a bootstrap of medians covers as it should
_RESAMPLES = 2000

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

    @property
    def samples_per_second(self) -> float:
        """Total work over total time, the harmonic mean of the rounds' rates (Hoefler & Belli 2015, rule 3)."""
        return sum(self.samples) / sum(self.seconds)


def median_rate(launches: Sequence[Launch]) -> float:
    """The median across launches of samples per second."""
    return float(median(launch.samples_per_second for launch in launches))


def rate_interval(launches: Sequence[Launch]) -> Interval | None:
    """Of the throughput, in samples per second: Student's t on logs, or from 10 launches a bootstrap of the median."""
    if len(launches) < FEWEST_LAUNCHES:
        return None
    if len(launches) < BOOTSTRAP_LAUNCHES:
        low, high = t_log_interval([launch.samples_per_second for launch in launches])
        return Interval(float(low), float(high))
    return _percentiles(np.median(_resampled(launches, np.random.default_rng(0)), axis=0))


def ratio_interval(above: Sequence[Launch], below: Sequence[Launch]) -> Interval | None:
    """Of throughput `above` over throughput `below`: Welch's t on logs, or from 10 launches a bootstrap.

    None under 3 launches on either side.
    """
    fewest = min(len(above), len(below))
    if fewest < FEWEST_LAUNCHES:
        return None
    if fewest < BOOTSTRAP_LAUNCHES:
        low, high = welch_log_ratio_interval(
            [launch.samples_per_second for launch in above], [launch.samples_per_second for launch in below]
        )
        return Interval(float(low), float(high))
    random = np.random.default_rng(0)
    medians = [np.median(_resampled(launches, random), axis=0) for launches in (above, below)]
    return _percentiles(medians[0] / medians[1])


def t_log_interval(values: ArrayLike) -> tuple[Floats, Floats]:
    """Student's t interval of the geometric mean, over the last axis: exp(m ± t(k-1) s/sqrt(k)), m and s of the logs.

    On logs because noise in a rate multiplies, and because an interval of a rate then never reaches below 0.
    """
    logs = np.log(np.asarray(values, dtype=float))
    k = logs.shape[-1]
    half = _t(k - 1) * logs.std(axis=-1, ddof=1) / math.sqrt(k)
    mean = logs.mean(axis=-1)
    return np.exp(mean - half), np.exp(mean + half)


def welch_log_ratio_interval(above: ArrayLike, below: ArrayLike) -> tuple[Floats, Floats]:
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
    half = _t(freedom) * np.sqrt(var)
    difference = a.mean(axis=-1) - b.mean(axis=-1)
    return np.exp(difference - half), np.exp(difference + half)


def noise(launches: Sequence[Launch]) -> float | None:
    """Spread between launches: the standard deviation of the logs of their rates, close to their CV."""
    if len(launches) < 2:
        return None
    return float(np.log([launch.samples_per_second for launch in launches]).std(ddof=1))


def launches_needed(ratio_noise: float, log_distance: float) -> int | None:
    """Launches on each side until the interval of a ratio is expected to keep `log_distance` from its centre.

    `ratio_noise` is the spread of one pair of launches, sqrt(s_a² + s_b²) on logs. The smallest k with
    t(2k-2) ratio_noise / sqrt(k) <= log_distance; None beyond 100, where more launches are not the remedy.
    """
    for k in range(FEWEST_LAUNCHES, 101):
        if float(_t(2 * k - 2)) * ratio_noise / math.sqrt(k) <= log_distance:
            return k
    return None


def _resampled(launches: Sequence[Launch], random: np.random.Generator) -> Floats:
    """Rates of resampled launches, shape (launches, resamples): launches with replacement, then rounds within each.

    The hierarchical bootstrap of Kalibera & Jones 2020 (arXiv 2007.10899): what varied in the measurement varies in
    the resample, at each level.
    """
    k = len(launches)
    picked = random.integers(k, size=(k, _RESAMPLES))
    rates = np.empty((k, _RESAMPLES))
    for index, launch in enumerate(launches):
        here = picked == index
        n_rounds = len(launch.samples)
        rounds = random.integers(n_rounds, size=(int(here.sum()), n_rounds))
        samples, seconds = np.asarray(launch.samples, dtype=float), np.asarray(launch.seconds)
        rates[here] = samples[rounds].sum(axis=1) / seconds[rounds].sum(axis=1)
    return rates


def _percentiles(values: Floats) -> Interval:
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(low), float(high))


def _t(freedom: ArrayLike) -> Floats:
    """Student's t quantile of the two-sided confidence."""
    quantile: Floats = stdtrit(freedom, (1 + CONFIDENCE) / 2)
    return quantile
