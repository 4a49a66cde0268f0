"""Paired launches: what a machine's drift does to throughputs, it does not do to the ratios of neighbours."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpubench.analysis.pairs import pair_ratios
from gpubench.analysis.reduced import reduced
from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.analysis.verdict import judge
from gpubench.spec.record import RunRecord, Schedule
from tests.builders import make_case, make_launches

ONE, TWO = make_case("single", 1), make_case("ddp", 2)


def paired(
    ratios: Sequence[float], speeds: Sequence[float] | None = None, until: float | None = None
) -> list[RunRecord]:
    """Pairs of launches on a machine whose speed may change from pair to pair."""
    speeds = speeds or [1.0] * len(ratios)
    baselines = make_launches(ONE, [100 * speed for speed in speeds])
    gangs = make_launches(TWO, [100 * speed * ratio for speed, ratio in zip(speeds, ratios, strict=True)])
    records = []
    for i, pair in enumerate(zip(baselines, gangs, strict=True)):
        for record, role in zip(pair, ("baseline", "gang"), strict=True):
            schedule = Schedule(
                order="interleaved",
                seed=0,
                launches=len(ratios),
                position=i,
                until=until,
                until_of="efficiency" if until else None,
                pair_id=f"pair {i}",
                paired_as=role,
            )
            records.append(replace(record, schedule=schedule))
    return records


def two_of(records: list[RunRecord]) -> CaseSummary:
    [two] = [summary for summary in summarize(records) if summary.case == TWO]
    return two


def test_the_speedup_is_the_median_of_the_pairs_ratios():
    # medians of the throughputs are 182 and 104: 1.75, which is the ratio of two different hours
    two = two_of(paired([1.82, 1.80, 1.75], [1.0, 1.2, 1.04]))
    assert two.pair_ratios == pytest.approx([1.82, 1.80, 1.75], rel=1e-6)
    assert two.speedup == pytest.approx(1.80)
    assert two.scaling_efficiency == pytest.approx(0.90)


def test_the_machines_drift_does_not_widen_the_interval_of_pairs():
    records = paired([1.80, 1.81, 1.79], [1.0, 0.8, 0.6])
    pairs = two_of(records).speedup_interval
    alone = two_of([replace(record, schedule=None) for record in records]).speedup_interval
    assert pairs is not None
    assert alone is not None
    assert pairs.high - pairs.low < 0.1 * (alone.high - alone.low)
    assert pairs.low < 1.80 < pairs.high


def test_a_pair_compares_round_with_round():
    # rounds of 1 and 1 s, and of 2 and 2 s: both halves of the pair slow down together, and the ratio stays
    records = paired([1.8], [1.0])
    slowed = []
    for record in records:
        first, second, *_ = record.rounds
        slow = replace(second, rank_seconds=[2 * seconds for seconds in second.rank_seconds])
        slowed.append(replace(record, rounds=[first, slow]))
    baseline, gang = slowed
    assert pair_ratios([reduced(gang)], [reduced(baseline)]) == pytest.approx([1.8])


def test_half_a_pair_is_no_pair():
    records = paired([1.8] * 3, [1.0] * 3)
    assert two_of(records[1:]).pair_ratios == ()  # its two whole pairs are too few
    assert two_of(records[1:]).speedup == pytest.approx(1.8)


def test_a_pair_of_which_one_half_was_set_aside_does_not_count():
    records = paired([1.8] * 4, [1.0] * 4)
    warmup = records[0].warmup
    assert warmup is not None
    records[0] = replace(records[0], warmup=replace(warmup, steady=False))
    assert len(two_of(records).pair_ratios) == 3


def test_what_pairs_do_not_resolve_says_how_many_pairs_would():
    verdict = judge(two_of(paired([0.98, 1.05, 1.08], [1.0, 0.99, 1.01])))
    assert verdict.kind == "not_resolved"
    assert "pairs of launches would settle it" in verdict.reason
