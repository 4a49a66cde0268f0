"""Whether rounds were long enough for the clock and the barrier around them to cost next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from gpubench.analysis.checks.limits import TIMING_COST_SEVERE
from gpubench.spec.record import TIMING_COST_LIMIT, Check, RunRecord

STOOD_STILL_SECONDS = 0.1  # the two clocks are read one after the other, which takes a busy machine milliseconds


def _timing_cost(record: RunRecord) -> Iterator[Check]:
    empty = record.warmup.empty_round_seconds if record.warmup else None
    if empty is None or not record.rounds:
        return
    seconds = median(each.seconds for each in record.rounds)
    cost = empty / seconds
    if cost > TIMING_COST_LIMIT:
        yield Check(
            name="timing_cost",
            severity="severe" if cost > TIMING_COST_SEVERE else "warning",
            message=f"a round without steps took {empty:.3g} s, {100 * cost:.2g} % of a round",
            remedy="stop other work on the machine, or ask for longer rounds: --round-seconds",
        )


def _stood_still(record: RunRecord) -> Iterator[Check]:
    seconds = record.host.stood_still_seconds
    if seconds is not None and seconds > STOOD_STILL_SECONDS:
        yield Check(
            name="stood_still",
            severity="severe",
            message=f"two of the kernel's clocks went {seconds:.3g} s apart: the machine was suspended or moved to "
            "another host meanwhile, or a clock was set",
            remedy="measure again while nothing suspends or moves the machine",
        )


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (_timing_cost, _stood_still)
