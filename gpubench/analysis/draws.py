"""Uncertainty carried through arithmetic: what a case's throughput and energy could as well have been.

A total over several cases, or a cost that has throughput and energy in it, has no formula for its interval. So each
case is drawn many times, the arithmetic is done on every draw, and the interval is read off the results. Draws are of
whole launches, so that a launch's throughput and energy stay together.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpubench.analysis import stats
from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import BOOTSTRAP_LAUNCHES, CONFIDENCE, FEWEST_LAUNCHES, Floats, Interval, Launch

DRAWS = 4000
MOST_PICKED = 8_000_000  # launches at once, of which each takes some 30 bytes


@dataclass(frozen=True, eq=False)
class Estimate:
    """A figure, what it could as well have been (shape (DRAWS,)), and why it is not known where it is not.

    `draws` is None where the launches give no interval.
    """

    value: float | None
    draws: Floats | None = None
    reason: str = ""

    @property
    def interval(self) -> Interval | None:
        """The middle 95 % of draws, widened where it does not hold the figure: that is of medians, draws are of means.

        By rank, so that the interval of 1/x is exactly the other one turned over.
        """
        if self.draws is None or self.value is None:
            return None
        ranked = np.sort(self.draws)
        outside = round(len(ranked) * (1 - CONFIDENCE) / 2)
        return Interval(min(self.value, float(ranked[outside])), max(self.value, float(ranked[-1 - outside])))


def combined(formula: Callable[..., Any], *parts: Estimate) -> Estimate:
    """`formula` of the parts, and of their draws; not known where a part is not."""
    unknown = [part.reason for part in parts if part.value is None]
    if unknown:
        return Estimate(None, reason="; ".join(dict.fromkeys(unknown)))
    drawn = [part.draws for part in parts]
    value = float(formula(*(part.value for part in parts)))
    return Estimate(value, None if any(draws is None for draws in drawn) else formula(*drawn))


def throughput(summary: CaseSummary) -> Estimate:
    """Samples per second."""
    return _estimates(summary)[0]


def energy(summary: CaseSummary) -> Estimate:
    """Joules per sample, of all devices of the case."""
    return _estimates(summary, of_energy=True)[1]


def _estimates(summary: CaseSummary, of_energy: bool = False) -> tuple[Estimate, Estimate]:
    """Throughput and energy, drawn together; no draws under the launches that an interval takes.

    Under 10 launches a multivariate t on logs, whose interval for the throughput alone is that of
    `stats.rate_interval`: mean + L z / sqrt(w / (k-1)), with L L' = S / k, z normal, w chi-squared of k-1 degrees, for
    k launches of covariance S. From 10 on a bootstrap: medians of launches drawn with replacement. Where a width
    decided how many launches there are, the t at any number, as much wider as `stats.sequential_interval` is.
    """
    launches, rate = summary.launches, summary.samples_per_second
    if rate is None:
        unknown = Estimate(None, reason=f"no number: {summary.no_number}" if summary.no_number else "no number")
        return unknown, unknown
    joules = launch_joules(summary)
    # A counter that did not move has measured nothing: no training takes no energy.
    energy = Estimate(summary.joules_per_sample or None)
    energy = energy if energy.value else replace(energy, reason="energy was not measured")
    k = len(launches)
    if k < FEWEST_LAUNCHES or (of_energy and not joules):  # then there is nothing to draw
        return Estimate(rate), energy
    columns = [[launch.samples_per_second for launch in launches]] + ([joules] if joules else [])
    values = np.array(columns, dtype=float)  # (1 or 2, k)
    # Seeded by the launches themselves: the same case is drawn alike in whatever order machines are named.
    random = np.random.default_rng(_seed(launches))
    if summary.sequential:
        drawn = _t_on_logs(values, random, stats.sequential_stretch(k))
    else:
        drawn = _t_on_logs(values, random) if k < BOOTSTRAP_LAUNCHES else _bootstrap(values, random)
    return Estimate(rate, drawn[0]), replace(energy, draws=drawn[1]) if joules else energy


def launch_joules(summary: CaseSummary) -> list[float] | None:
    """Joules a sample of each launch, in the order of `summary.launches`; None unless all of them are known."""
    found = [launch.used.joules_per_sample for launch in summary.counted]
    known = [joules for joules in found if joules]
    return known if len(known) == len(summary.launches) else None


def _t_on_logs(values: Floats, random: np.random.Generator, stretch: float = 1.0) -> Floats:
    logs = np.log(values)
    k = logs.shape[1]
    centre = logs.mean(axis=1, keepdims=True)
    normal = (logs - centre) @ random.standard_normal((k, DRAWS)) / math.sqrt(k * (k - 1))
    drawn: Floats = np.exp(centre + stretch * normal / np.sqrt(random.chisquare(k - 1, DRAWS) / (k - 1)))
    return drawn


def _bootstrap(values: Floats, random: np.random.Generator) -> Floats:
    """Drawn in parts where all together would fill the memory."""
    k = values.shape[1]
    part = max(1, min(DRAWS, MOST_PICKED // k))
    medians = []
    for begun in range(0, DRAWS, part):
        picked = random.integers(k, size=(k, min(part, DRAWS - begun)))
        medians.append(np.median(values[:, picked], axis=1))
    drawn: Floats = np.concatenate(medians, axis=1)
    return drawn


def _seed(launches: Sequence[Launch]) -> int:
    digest = hashlib.sha256(repr(sorted(launch.seconds for launch in launches)).encode()).digest()
    return int.from_bytes(digest[:8], "big")
