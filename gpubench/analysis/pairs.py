"""Paired launches: a gang and its baseline side by side, their rounds in turns, so that the machine's drift cancels."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from gpubench.analysis.reduced import Reduced


def pair_ratios(gang: Sequence[Reduced], baseline: Sequence[Reduced]) -> tuple[float, ...]:
    """Throughput of the gang over that of the baseline, one ratio for each pair of launches in both.

    Of a pair, the geometric mean over its rounds: round i of one and round i of the other are neighbours in time. The
    pairs are the samples of an interval, as their rounds depend on one another.
    """
    partners = {
        record.schedule.pair_id: record
        for record in baseline
        if record.schedule and record.schedule.pair_id and record.schedule.paired_as == "baseline"
    }
    pairs = [
        (record.timed, partners[record.schedule.pair_id].timed)
        for record in gang
        if record.schedule and record.schedule.paired_as == "gang" and record.schedule.pair_id in partners
    ]
    return tuple(
        geometric_mean(one / other for one, other in zip(a.rates, b.rates, strict=True))
        for a, b in pairs
        if a and b and len(a.rates) == len(b.rates)
    )
