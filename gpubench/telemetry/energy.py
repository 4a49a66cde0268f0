"""The energy of a round: from the device's counter, checked against its power, with how far off it may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from gpubench.spec.record import energies_disagree
from gpubench.telemetry.means import Point, growth

STUCK_SECONDS = 1.0  # no counter takes that long for a step, so that one without a step stands still
OVER_THE_LIMIT = 1.2  # times its power limit, on average, no device takes


@dataclass(frozen=True, kw_only=True)
class Energy:
    """In joules; None is not known. `problem` says why the counter was not taken, or what is odd about it."""

    joules: float | None = None
    source: str | None = None
    error_joules: float | None = None
    integrated_joules: float | None = None
    problem: str | None = None


def energy_of(
    counter: Sequence[Point],
    powers: Sequence[Point],
    mean_watts: float | None,
    start_ns: int,
    end_ns: int,
    limit_watts: float | None,
) -> Energy:
    """`counter` in joules and `powers` in watts should reach over both edges of the round."""
    seconds = (end_ns - start_ns) / 1e9
    integrated = mean_watts * seconds if mean_watts else None  # no device runs on 0 W
    grown = growth(counter, start_ns, end_ns)
    problem = _problem(counter, grown, seconds, limit_watts)
    if grown is None or problem:
        source = None if integrated is None else "integrated power"
        return Energy(joules=integrated, source=source, integrated_joules=integrated, problem=problem)
    error = _error_joules(counter, powers, start_ns, end_ns)
    if integrated is not None and energies_disagree(grown, integrated, error):
        problem = f"the counter says {grown:.0f} J and the power over time {integrated:.0f} J"
    return Energy(
        joules=grown,
        source="counter",
        error_joules=error,
        integrated_joules=integrated,
        problem=problem,
    )


def _problem(counter: Sequence[Point], grown: float | None, seconds: float, limit_watts: float | None) -> str | None:
    if counter and grown is None:
        fell = any(w < v for (_, v), (_, w) in pairwise(counter))
        return "the counter fell: the driver was loaded again" if fell else "the counter was not read at both edges"
    if grown == 0:  # no device runs on no energy, however short the round
        return "the counter stood still" if seconds >= STUCK_SECONDS else "the counter made no step in so short a round"
    if grown is not None and limit_watts and grown > OVER_THE_LIMIT * limit_watts * seconds:
        return f"the counter gives {grown / seconds:.0f} W, and the limit is {limit_watts:.0f} W"
    return None


def _error_joules(counter: Sequence[Point], powers: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """How far off the growth may be: the counter is late by up to its refresh, and between readings it is a line.

    A refresh at the highest power near the edges, as it may be missing at one and not at the other; and at each edge
    a quarter of the gap times the change of power, which is what a straight line misses of a step within it. None where
    the counter was read at the edges alone: that does not show how often it is refreshed.
    """
    if not any(start_ns < t < end_ns for t, _ in counter):
        return None
    steps = [(b - a, w - v) for (a, v), (b, w) in pairwise(counter)]
    changes = [t for (t, v), (_, w) in pairwise(counter) if v != w]
    refresh_seconds = median([b - a for a, b in pairwise(changes)] or [end_ns - start_ns]) / 1e9
    gap_seconds = max((step_ns for step_ns, _ in steps), default=0) / 1e9
    watts = [w for _, w in powers] or [joules / step_ns * 1e9 for step_ns, joules in steps if step_ns]
    return refresh_seconds * max(watts) + 2 * (max(watts) - min(watts)) * gap_seconds / 4
