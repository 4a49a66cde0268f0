"""When warm-up is over: step times are watched until they change no more.

Steps before the first round compile, tune, fill caches and pools. They get faster until they do not. Two neighbouring
windows of steps are compared by their medians (`spec/steady.py`, as whoever reads the record compares them again); once
the newer one is neither faster by more than a tolerance nor clearly slower, the steps are steady. (Barrett et al. 2017,
arXiv 1602.00602: a steady state has to be tested for, it cannot be assumed.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from gpubench.spec.steady import WINDOW_STEPS, trend


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
    found = trend(step_seconds)
    if found == "steady":
        newer, older = median(step_seconds[-WINDOW_STEPS:]), median(step_seconds[-2 * WINDOW_STEPS : -WINDOW_STEPS])
        return Verdict(
            True,
            f"steady after {len(step_seconds)} steps: medians of the last two windows of "
            f"{WINDOW_STEPS} steps are {older:.4g} s and {newer:.4g} s",
        )
    if len(step_seconds) >= max_steps or sum(step_seconds) >= max_seconds:
        if found is None:
            return Verdict(False, f"too slow to tell: {len(step_seconds)} steps took {sum(step_seconds):.4g} s")
        return Verdict(
            False, f"steps were still getting {found} after {len(step_seconds)} steps, {sum(step_seconds):.4g} s"
        )
    return Verdict(None, "")
