"""Coverage where the width of an interval decides when a run ends, simulated with the rule that a run really asks."""

import math

import numpy as np
import pytest

from benchmarks.self import verdict
from gpubench.analysis import stats
from gpubench.analysis.precision import unresolved
from gpubench.analysis.scaling import summarize
from gpubench.spec.until import Until
from tests.analysis.test_pairs import TWO, paired

UNTIL = Until(0.02)


@pytest.mark.parametrize("spread", verdict.SPREADS)
@pytest.mark.parametrize("between", [0.0, 0.8])
def test_an_interval_that_ended_its_run_covers_the_truth_as_often_as_it_says(spread, between):
    """`spread` is the standard deviation of a pair's ratio over the half-width, `between` the part of it of pairs."""
    parts = (between * spread * UNTIL.within, math.sqrt(5 * (1 - between**2)) * spread * UNTIL.within)
    coverage, pairs = verdict.stopped(*parts, rounds=5, target=UNTIL.within, runs=10_000, seed=1)
    assert 0.93 <= coverage <= 0.97
    assert pairs >= stats.FEWEST_TO_STOP


def test_students_t_at_95_percent_would_not_which_is_why_the_interval_is_wider(monkeypatch):
    monkeypatch.setattr(stats, "SEQUENTIAL_QUANTILE", stats.CONFIDENCE)
    coverage, _ = verdict.stopped(1.5 * UNTIL.within, 0.0, rounds=5, target=UNTIL.within, runs=10_000)
    assert coverage < 0.93


def test_what_is_simulated_is_what_a_run_does():
    random = np.random.default_rng(3)
    for _ in range(5):
        ratios = 1.8 * np.exp(random.normal(0, UNTIL.within, 40))
        records = paired(list(ratios), until=UNTIL.within)
        ended = next(k for k in range(3, 41) if not unresolved(records[: 2 * k], UNTIL))
        # As `verdict.stopped` does it, for one run.
        bounds = [stats.sequential_interval(ratios[:k]) for k in range(3, 41)]
        halves = [(high - low) / 2 / np.median(ratios[:k]) for k, (low, high) in enumerate(bounds, 3)]
        assert ended == next(k for k, half in enumerate(halves, 3) if k >= stats.FEWEST_TO_STOP and half <= 0.02)
        (two,) = [summary for summary in summarize(records[: 2 * ended]) if summary.case == TWO]
        assert two.speedup_interval is not None
        assert (two.speedup_interval.low, two.speedup_interval.high) == pytest.approx(bounds[ended - 3], rel=1e-6)
