"""When warm-up is over: step times are watched until they stop falling.

Steps before the first round compile, tune, fill caches and pools. They get faster until they do not. Two neighbouring
windows of steps are compared by their medians; once the newer one is no longer faster by more than a tolerance, the
steps are steady. The first step, which compiles, is never part of a window. (Barrett et al. 2017, arXiv 1602.00602:
a steady state has to be tested for, it cannot be assumed.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

WINDOW_STEPS = 5
TOLERANCE = 0.05


@dataclass(frozen=True)
class Verdict:
    """`steady` None: go on. The words say what was seen."""

    steady: bool | None
    words: str


def judge(step_seconds: Sequence[float], max_steps: int, max_seconds: float) -> Verdict:
    """Whether the steps so far, the first one left out, have become steady.

    Args:
        step_seconds: every warm-up step's time, on its slowest rank, in seconds.
        max_steps, max_seconds: where to give up; the record then says `no_steady_state`.
    """
    later = list(step_seconds[1:])
    if len(later) >= 2 * WINDOW_STEPS:
        newer, older = median(later[-WINDOW_STEPS:]), median(later[-2 * WINDOW_STEPS : -WINDOW_STEPS])
        if newer >= older * (1 - TOLERANCE):
            return Verdict(
                True,
                f"steady after {len(step_seconds)} steps: medians of the last two windows of "
                f"{WINDOW_STEPS} steps are {older:.4g} s and {newer:.4g} s",
            )
    if len(step_seconds) >= max_steps or sum(step_seconds) >= max_seconds:
        if len(later) < 2 * WINDOW_STEPS:
            return Verdict(False, f"too slow to tell: {len(step_seconds)} steps took {sum(step_seconds):.4g} s")
        return Verdict(
            False, f"steps were still getting faster after {len(step_seconds)} steps, {sum(step_seconds):.4g} s"
        )
    return Verdict(None, "")
