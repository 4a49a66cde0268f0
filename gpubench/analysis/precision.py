"""How well launches agree: which cases need more of them, and which are worth measuring in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.analysis.checks import sets_aside
from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.spec.record import RunRecord

NOISE_LIMIT = 0.05  # standard deviation between launches; pairs cancel what they have in common


def unresolved(records: Sequence[RunRecord], target: float) -> set[str]:
    """Ids of measured cases whose interval is wider than ± `target` of the figure, or that have none yet.

    The interval is that of the efficiency where there is one, else that of the throughput. A case whose work was not
    what was asked for is not among them: no further launch would give it a number.
    """
    return {
        summary.case.id
        for summary in summarize(records)
        if summary.launches
        and not any(check.severity == "severe" and not sets_aside(check) for check in summary.checks)
        and (half_width(summary) is None or (half_width(summary) or 0) > target)
    }


def half_width(summary: CaseSummary) -> float | None:
    """Half the interval's width as a fraction of the figure: of the efficiency, or else of the throughput."""
    if summary.scaling_efficiency is not None and summary.baseline is not None and summary.case.n_devices > 1:
        figure, interval = summary.scaling_efficiency, summary.scaling_efficiency_interval
    else:
        figure, interval = summary.samples_per_second or 0.0, summary.samples_per_second_interval
    if interval is None or not figure:
        return None
    return (interval.high - interval.low) / 2 / figure


def noisy(records: Sequence[RunRecord]) -> set[str]:
    """Ids of cases whose launches, or whose baseline's, differ by more than the limit."""
    found = set()
    for summary in summarize(records):
        noises = [summary.launch_noise, summary.baseline.launch_noise if summary.baseline else None]
        if any(noise is not None and noise > NOISE_LIMIT for noise in noises):
            found.add(summary.case.id)
    return found
