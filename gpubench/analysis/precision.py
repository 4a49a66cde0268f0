"""How well launches agree: which cases need more of them, about how many more, and which to measure in pairs.

More launches are asked for by the width of an interval alone, never by which side of anything a figure lies on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import stdev

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri

from gpubench.analysis import stats
from gpubench.analysis.checks import sets_aside
from gpubench.analysis.pairs import pair_ratios
from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.spec.record import RunRecord
from gpubench.spec.until import Quantity, Until

NOISE_LIMIT = 0.05  # standard deviation between launches; pairs cancel what they have in common
MOST_LAUNCHES = 100  # of a case, however wide its interval still is


def unresolved(records: Sequence[RunRecord], until: Until) -> set[str]:
    """Ids of measured cases whose interval is not yet as narrow as `until` says, or made of too few launches.

    A case of which no launch counts, whose last four launches all failed, or whose work was not what was asked for, is
    not among them, nor one with such a baseline: no further launch would give it a number.
    """
    return {
        summary.case.id
        for summary in summarize(records)
        if concerned(summary, until.of) and not _hopeless(summary, until.of) and not met(summary, until)
    }


def concerned(summary: CaseSummary, of: Quantity) -> bool:
    """Whether the case has such a figure at all: a baseline, and whatever runs on one device, has no efficiency."""
    return of == "throughput" or (summary.case.n_devices > 1 and summary.baseline is not None)


def met(summary: CaseSummary, until: Until) -> bool:
    """Whether the interval is as narrow as `until` says, and made of launches enough to stop at."""
    width = half_width(summary, until.of)
    return width is not None and bool(enough(width, len(_logs(summary, until.of)), until.within))


def enough(half_width: ArrayLike, launches: int, within: float) -> NDArray[np.bool_]:
    """The rule that ends a run, for one half-width or an array of them."""
    return (np.asarray(half_width) <= within) & (launches >= stats.FEWEST_TO_STOP)


def half_width(summary: CaseSummary, of: Quantity) -> float | None:
    """Half the interval's width as a fraction of the figure; None where the case has no such interval."""
    if of == "efficiency":
        figure, interval = summary.scaling_efficiency, summary.scaling_efficiency_interval
    else:
        figure, interval = summary.samples_per_second, summary.samples_per_second_interval
    if interval is None or not figure:
        return None
    return (interval.high - interval.low) / 2 / figure


def blocks_needed(records: Sequence[RunRecord], until: Until, ids: Collection[str]) -> tuple[int, int] | None:
    """How many launches (or pairs) of the cases `ids` it takes in all; as likely as not, it is within these two.

    The spread seen so far says it: the fewest k with t(k-1) s / sqrt(k) <= `until.within`, at the quartiles of what s
    may be in truth (chi-squared, of one degree of freedom fewer than there are launches). None under two launches.
    """
    fewest = most = stats.FEWEST_TO_STOP
    for summary in summarize(records):
        if summary.case.id not in ids or not concerned(summary, until.of) or _hopeless(summary, until.of):
            continue
        logs = _logs(summary, until.of)
        if len(logs) < 2:
            return None
        freedom = len(logs) - 1
        low, high = (stdev(logs) * math.sqrt(freedom / chdtri(freedom, tail)) for tail in (0.25, 0.75))
        fewest = max(fewest, _blocks_at(low, until.within))
        most = max(most, _blocks_at(high, until.within))
    return fewest, most


def noisy(records: Sequence[RunRecord]) -> set[str]:
    """Ids of cases whose launches, or whose baseline's, differ by more than the limit."""
    found = set()
    for summary in summarize(records):
        noises = [summary.launch_noise, summary.baseline.launch_noise if summary.baseline else None]
        if any(noise is not None and noise > NOISE_LIMIT for noise in noises):
            found.add(summary.case.id)
    return found


def _hopeless(summary: CaseSummary, of: Quantity) -> bool:
    """Whether no launch of a side counts, its last ones all failed, or one did other work than was asked for."""
    sides = [summary, summary.baseline] if of == "efficiency" and summary.baseline is not None else [summary]
    other = (check for side in sides for check in side.checks if not sets_aside(check))
    if not all(side.launches for side in sides) or any(check.severity == "severe" for check in other):
        return True
    newest = [side.records[-stats.FEWEST_TO_STOP :] for side in sides]
    return any(all(record.outcome.status != "ok" for record in records) for records in newest)


def _logs(summary: CaseSummary, of: Quantity) -> list[float]:
    """Logs of what the interval is made of: pairs' ratios, or as many launches as both sides have."""
    rates = [launch.samples_per_second for launch in summary.launches]
    if of == "efficiency" and summary.baseline is not None:
        if ratios := pair_ratios(summary.counted, summary.baseline.counted):
            return [math.log(ratio) for ratio in ratios]
        below = [launch.samples_per_second for launch in summary.baseline.launches]
        return [math.log(one / other) for one, other in zip(rates, below, strict=False)]
    return [math.log(rate) for rate in rates]


def _blocks_at(spread: float, within: float) -> int:
    for k in range(stats.FEWEST_TO_STOP, MOST_LAUNCHES):
        if stats.half_width_at(spread, k) <= within:
            return k
    return MOST_LAUNCHES
