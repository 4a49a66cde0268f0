"""Means, growths and extremes of sampled values between two times, in ns of the node's monotonic clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Point = tuple[int, float]  # time in ns, value

HOLE_PERIODS = 5  # a hole this long in a short round is still usual on a busy machine
HOLE_SHARE = 0.1  # of the round: more than this not seen, and a mean would be a guess


def pairs(time_ns: Sequence[int], values: Sequence[float | None]) -> list[Point]:
    """The values that there are, with their times."""
    return [(t, v) for t, v in zip(time_ns, values, strict=False) if v is not None]


def is_covered(points: Sequence[Point], start_ns: int, end_ns: int, period_ns: int) -> bool:
    """Whether the samples tell about the whole of the time: two or more of them in it, and no long hole."""
    inside = [t for t, _ in points if start_ns <= t <= end_ns]
    longest_ns = max(HOLE_PERIODS * period_ns, HOLE_SHARE * (end_ns - start_ns))
    return len(inside) >= 2 and all(b - a <= longest_ns for a, b in pairwise([start_ns, *inside, end_ns]))


def is_bracketed(points: Sequence[Point], start_ns: int, end_ns: int, slack_ns: float) -> bool:
    """Whether a counter was read within `slack_ns` outside of both edges, so that no reading in between is needed."""
    return any(0 <= start_ns - t <= slack_ns for t, _ in points) and any(0 <= t - end_ns <= slack_ns for t, _ in points)


def held_mean(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """The mean over time of values that each tell about the time since the one before, as utilisation does.

    Before the first point its value is taken, after the last point its.
    """
    if not points:
        return None
    stamps = [start_ns, *(min(max(t, start_ns), end_ns) for t, _ in points), end_ns]
    values = [v for _, v in points] + [points[-1][1]]
    return sum(v * (b - a) for v, (a, b) in zip(values, pairwise(stamps), strict=True)) / (end_ns - start_ns)


def linear_mean(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """The mean over time of momentary values, joined by straight lines (trapezoids), held beyond both ends."""
    if not points:
        return None
    inside = [(t, v) for t, v in points if start_ns < t < end_ns]
    line = [(start_ns, at(points, start_ns)), *inside, (end_ns, at(points, end_ns))]
    return sum((v + w) / 2 * (b - a) for (a, v), (b, w) in pairwise(line)) / (end_ns - start_ns)


def growth(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    """By how much a counter grew, interpolated at both edges.

    None unless the counter was read on both sides of each edge, or where it fell: it wrapped, or was reset.
    """
    if not points or points[0][0] > start_ns or points[-1][0] < end_ns:
        return None
    if any(w < v for (a, v), (b, w) in pairwise(points) if b >= start_ns and a <= end_ns):
        return None
    return at(points, end_ns) - at(points, start_ns)


def why_no_growth(points: Sequence[Point]) -> str:
    """Of a counter whose growth is None."""
    fell = any(w < v for (_, v), (_, w) in pairwise(points))
    return "the counter fell: it wrapped, or was reset" if fell else "the counter was not read at both edges"


def growth_by_work(points: Sequence[Point], start_ns: int, end_ns: int, slack_ns: float) -> float | None:
    """By how much a counter grew that stands still while the device is idle, as it is just outside of a round.

    So what it was read at within `slack_ns` outside of both edges is what it was at the edges; else as `growth`.
    """
    before = next((p for p in reversed(points) if p[0] <= start_ns), None)
    after = next((p for p in points if p[0] >= end_ns), None)
    if before is None or after is None or max(start_ns - before[0], after[0] - end_ns) > slack_ns:
        return growth(points, start_ns, end_ns)
    return growth(points, before[0], after[0])


def highest(points: Sequence[Point], start_ns: int, end_ns: int) -> float | None:
    return max((v for t, v in points if start_ns <= t <= end_ns), default=None)


def at(points: Sequence[Point], time_ns: int) -> float:
    """The value on the straight line through the neighbours; beyond the ends, the end's."""
    before = next((p for p in reversed(points) if p[0] <= time_ns), points[0])
    after = next((p for p in points if p[0] >= time_ns), points[-1])
    if after[0] == before[0]:
        return after[1]
    share = (time_ns - before[0]) / (after[0] - before[0])
    return before[1] + share * (after[1] - before[1])
