"""The warm-up against its step times."""

from __future__ import annotations

from gpubench.spec.record import RunRecord
from gpubench.spec.steady import WINDOW_STEPS

ROUNDING = 1e-6


def sums(record: RunRecord) -> str | None:
    warm_up = record.warmup
    if warm_up is None:
        return None
    each, first = warm_up.step_seconds, warm_up.first_step_seconds
    if not each:  # as in older records
        if warm_up.round_seconds is not None:
            return "it has the length of its rounds, and no step times to make it of"
        return "its first step took longer than the whole" if (first or 0.0) > warm_up.seconds else None
    if warm_up.steps != len(each):
        return f"it counts {warm_up.steps} warm-up steps, and has the times of {len(each)}"
    if abs(warm_up.seconds - sum(each)) > ROUNDING * sum(each):
        return f"its warm-up took {warm_up.seconds:.4g} s, and the steps of it {sum(each):.4g} s"
    if first != each[0]:
        return f"its first step took {first} s, and its first step time is {each[0]} s"
    return None


def enough(record: RunRecord) -> str | None:
    warm_up = record.warmup
    fewest = 1 + 2 * WINDOW_STEPS
    if warm_up is None or not warm_up.steady or warm_up.steps >= fewest:
        return None
    return f"it was called steady after {warm_up.steps} steps, and it takes {fewest} to tell"
