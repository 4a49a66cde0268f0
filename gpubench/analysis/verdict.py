"""What a reader should take home: for each series, at its largest size, whether more devices made it faster.

A word is only used where the whole 95 % interval says so. `scales`: efficiency of at least 0.80. `speeds_up`: less than
that, and faster than one device by more than the margin. `does_not_scale`: not even that. `not_resolved`: the interval
holds more than one of these, and the reason says which figures cannot be excluded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Literal

from gpubench.analysis import stats
from gpubench.analysis.scaling import CaseSummary, Series
from gpubench.analysis.stats import Interval
from gpubench.spec.invariants.whole import was_launched

SCALES_FROM = 0.80  # scaling efficiency
MARGIN = 0.01  # a difference in throughput below this is none, whatever its interval says

Kind = Literal["scales", "speeds_up", "does_not_scale", "not_resolved", "no_number"]


@dataclass(frozen=True)
class Verdict:
    """`reason` is a clause that completes the sentence, empty where the figures say it all."""

    kind: Kind
    summary: CaseSummary
    reason: str = ""


def verdicts(summaries: Sequence[CaseSummary]) -> list[Verdict]:
    """One for each series with more than one device, about its largest size; what did not run has none."""
    largest: dict[Series, CaseSummary] = {}
    for summary in summaries:
        if summary.case.n_devices > 1 and any(map(was_launched, summary.records)):
            known = largest.get(summary.series)
            if known is None or known.case.n_devices < summary.case.n_devices:
                largest[summary.series] = summary
    return [judge(summary) for summary in largest.values()]


def judge(summary: CaseSummary) -> Verdict:
    if summary.samples_per_second is None:
        return Verdict("no_number", summary, str(summary.no_number))
    if summary.speedup is None or summary.baseline is None:
        return Verdict("not_resolved", summary, "there is no number for `single` on one device to compare it with")
    interval = summary.speedup_interval
    if interval is None:
        fewest = min(len(summary.launches), len(summary.baseline.launches))
        reason = f"{fewest} launch{'es' if fewest != 1 else ''} give no interval; it takes {stats.FEWEST_LAUNCHES}"
        return Verdict("not_resolved", summary, reason)
    scales_from, faster_from = SCALES_FROM * summary.case.n_devices, 1 + MARGIN
    if interval.low >= scales_from:
        return Verdict("scales", summary)
    if faster_from < interval.low and interval.high < scales_from:
        return Verdict("speeds_up", summary)
    if interval.high <= faster_from:
        return Verdict("does_not_scale", summary)
    spanned = [limit for limit in (faster_from, scales_from) if interval.low <= limit <= interval.high]
    hint = _launches_hint(summary, summary.baseline, summary.speedup, spanned)
    return Verdict("not_resolved", summary, f"{_not_excluded(summary, interval)}; {hint}")


def _not_excluded(summary: CaseSummary, interval: Interval) -> str:
    """What the interval leaves open: of the efficiency, and whether it is faster than one device at all."""
    n = summary.case.n_devices
    about, low, high = (summary.speedup or 0.0) / n, interval.low / n, interval.high / n
    sure = "it is faster than one device, but " if interval.low > 1 + MARGIN else ""
    return f"{sure}it is not sure that the efficiency is {about:.2f}: {low:.2f} to {high:.2f} cannot be excluded"


def _launches_hint(summary: CaseSummary, baseline: CaseSummary, speedup: float, limits: Sequence[float]) -> str:
    """How many launches would keep the interval clear of the limits that it holds; all of them must be cleared."""
    distance = min(abs(math.log(speedup / limit)) for limit in limits)
    needed = stats.launches_needed(_ratio_noise(summary, baseline), distance) if distance else None
    if needed is None:
        return "launches differ too much for more of them to settle it: look for other load on the machine"
    had = len(summary.pair_ratios) or min(len(summary.launches), len(baseline.launches))
    what = "pairs of launches" if summary.pair_ratios else "launches of each"
    return f"about {max(needed, had + 1)} {what} would settle it at this noise"


def _ratio_noise(summary: CaseSummary, baseline: CaseSummary) -> float:
    """Spread of the ratio of one launch to one launch: of the pairs, or of both sides together."""
    if summary.pair_ratios:
        return stdev(map(math.log, summary.pair_ratios))
    return math.hypot(*(stats.noise(one.launches) or 0.0 for one in (summary, baseline)))
