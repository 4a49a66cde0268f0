"""Paired launches: a gang and its baseline side by side, their rounds in turns, so that the machine's drift cancels."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from gpubench.spec.record import Round, RunRecord


def pair_ratios(gang: Sequence[RunRecord], baseline: Sequence[RunRecord]) -> tuple[float, ...]:
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
        (record, partners[record.schedule.pair_id])
        for record in gang
        if record.schedule and record.schedule.paired_as == "gang" and record.schedule.pair_id in partners
    ]
    return tuple(
        geometric_mean(_rate(one) / _rate(other) for one, other in zip(a.rounds, b.rounds, strict=True))
        for a, b in pairs
        if len(a.rounds) == len(b.rounds)
    )


def _rate(one: Round) -> float:
    return one.samples / one.seconds
