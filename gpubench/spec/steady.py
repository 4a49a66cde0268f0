"""When step times are steady: two neighbouring windows of them, and whether the newer is as fast as the older.

How many steps make a round follows from the newer one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

WINDOW_STEPS = 5
TOLERANCE = 0.05
FEWEST_STEPS, MOST_STEPS = 2, 100_000  # in a round: a step of the smallest model on the fastest GPU takes some 0.1 ms


def trend(step_seconds: Sequence[float]) -> str | None:
    """What the last two windows of these steps say: "faster", "slower" or "steady"; None where there are too few.

    The first step, which compiles, is never part of a window. Steps that wait for others now and then are slower for a
    while, so they count as slower only where every one of the newer window is slower than all of the older.
    """
    if len(step_seconds) < 1 + 2 * WINDOW_STEPS:
        return None
    older, newer = step_seconds[-2 * WINDOW_STEPS : -WINDOW_STEPS], step_seconds[-WINDOW_STEPS:]
    was, now = median(older), median(newer)
    if now < was * (1 - TOLERANCE):
        return "faster"
    return "slower" if now > was * (1 + TOLERANCE) and min(newer) > max(older) else "steady"


def steady_seconds(step_seconds: Sequence[float]) -> float:
    """What a step takes once warmed up: the median of the last window."""
    return median(step_seconds[-WINDOW_STEPS:])


def steps_of_round(round_seconds: float, step_seconds: Sequence[float]) -> int:
    """How many steps a round has that is to last so long, after these warm-up steps."""
    return min(MOST_STEPS, max(FEWEST_STEPS, math.ceil(round_seconds / steady_seconds(step_seconds))))
