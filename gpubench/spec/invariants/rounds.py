"""Rounds against one another, and the times of a round against one another."""

from __future__ import annotations

from itertools import pairwise

from gpubench.spec.record import Round, RunRecord
from gpubench.spec.steady import steady_seconds, steps_of_round

# Of a round. Without the spans of its ranks, a round may last longer than its slowest rank by what ranks start apart:
# under 0.01 % with two ranks on two busy cores. Rounds of a clock that moves by whole steps overlap by a hundredth.
MARGIN = 0.05
ROUNDING_SECONDS = 1e-6


def order(record: RunRecord) -> str | None:
    rounds = record.rounds
    if [each.index for each in rounds] != list(range(len(rounds))):
        return f"its rounds are {', '.join(str(each.index) for each in rounds[:20])}"
    control = record.telemetry.control
    if len({each.steps for each in (rounds if control is None else [*rounds, control])}) > 1:
        return "its rounds have unequal numbers of steps"
    for one, other in pairwise(rounds):
        if one.rank_spans_ns and other.rank_spans_ns:
            overlap = any(b[0] < a[1] for a, b in zip(one.rank_spans_ns, other.rank_spans_ns, strict=False))
        else:
            overlap = other.start_ns < one.end_ns - MARGIN * (one.end_ns - one.start_ns)
        if overlap:
            return f"round {other.index} began before round {one.index} ended"
    return None


def steps(record: RunRecord) -> str | None:
    """A step that takes no time makes no round."""
    warm_up = record.warmup
    if warm_up is None or warm_up.round_seconds is None or not warm_up.step_seconds or not record.rounds:
        return None
    if steady_seconds(warm_up.step_seconds) <= 0:
        return "its warm-up took no time"
    expected = steps_of_round(warm_up.round_seconds, warm_up.step_seconds)
    found = record.rounds[0].steps
    return None if found == expected else f"its rounds have {found} steps, and its warm-up gives {expected}"


def quota(record: RunRecord) -> str | None:
    counted = [(each.cpu_periods, each.cpu_throttled_periods, each.cpu_throttled_seconds) for each in record.rounds]
    known = {figure is not None for figures in counted for figure in figures}
    if len(known) > 1:
        return "a CPU quota's figures are there in part"
    if known == {True} and any((throttled or 0) > (periods or 0) for periods, throttled, _ in counted):
        return "a CPU quota throttled more periods than there were"
    return None


def time(each: Round) -> str | None:
    """How the times of a round contradict one another, None where they add up.

    With the spans of the ranks all is exact. Without them, as older records are, the round lasts as long as its only
    rank took, and no shorter than its slowest one of several.
    """
    lasted, slowest = (each.end_ns - each.start_ns) / 1e9, max(each.rank_seconds, default=0.0)
    spans = each.rank_spans_ns
    if spans is None:
        apart = MARGIN * slowest if len(each.rank_seconds) > 1 else 0.0
        if -ROUNDING_SECONDS <= lasted - slowest <= apart + ROUNDING_SECONDS:
            return None
        return f"lasted {lasted:.3g} s and its slowest rank took {slowest:.3g} s"
    if len(spans) != len(each.rank_seconds):
        return f"has the spans of {len(spans)} ranks and the times of {len(each.rank_seconds)}"
    for rank, (seconds, (start_ns, end_ns)) in enumerate(zip(each.rank_seconds, spans, strict=True)):
        if abs((end_ns - start_ns) / 1e9 - seconds) > ROUNDING_SECONDS:
            return f"has rank {rank} at it for {(end_ns - start_ns) / 1e9:.3g} s, which took {seconds:.3g} s"
    first_ns, last_ns = min(start_ns for start_ns, _ in spans), max(end_ns for _, end_ns in spans)
    if (first_ns, last_ns) != (each.start_ns, each.end_ns):
        return f"lasted {lasted:.3g} s and its ranks were at it for {(last_ns - first_ns) / 1e9:.3g} s"
    return None


def apart(each: Round) -> float:
    """By which share of its slowest rank's time a round lasted longer, as its ranks were not at it together."""
    slowest = max(each.rank_seconds)
    return max(0.0, (each.end_ns - each.start_ns) / 1e9 / slowest - 1)
