"""With steps of a known time, every figure can be worked out by hand."""

import pytest

from gpubench.analysis.scaling import summarize
from gpubench.harness import runner
from gpubench.harness.runner import Timing


def test_throughput_is_samples_over_time(fake, run_fake):
    fake(step_seconds=0.1)
    record = run_fake("single", 1, per_device_batch=(32,))
    # 10 steps of 0.1 s fill a round of 1 s; 320 samples in it.
    assert [one.steps for one in record.rounds] == [10, 10, 10]
    assert [one.samples for one in record.rounds] == [320, 320, 320]
    assert [one.seconds for one in record.rounds] == pytest.approx([1.0, 1.0, 1.0], rel=1e-9)
    (summary,) = summarize([record])
    assert summary.samples_per_second == pytest.approx(320, rel=1e-9)


def test_a_round_ends_with_its_slowest_rank(fake, run_fake):
    fake(step_seconds=0.1, per_rank_factor={"1": 1.5})
    record = run_fake("ranks", 2, per_device_batch=(32,))
    first = record.rounds[0]
    # The slow rank's step of 0.15 s sets how many fill a second: 7.
    assert first.steps == 7
    assert first.rank_seconds == pytest.approx([0.7, 1.05], rel=1e-9)
    assert first.seconds == pytest.approx(1.05, rel=1e-9)
    assert first.samples == 7 * 2 * 32
    assert "imbalance" in [check.name for check in record.checks]


def test_two_devices_that_spend_a_quarter_on_communication_scale_to_80_percent(fake, run_fake):
    fake(step_seconds=0.1, communication_seconds=0.025)
    records = [run_fake(strategy, n) for strategy, n in (("single", 1), ("ranks", 1), ("ranks", 2), ("replicas", 2))]
    by_case = {(s.case.strategy, s.case.n_devices): s for s in summarize(records)}
    # 0.1 s alone, 0.125 s together: 0.1 / 0.125 = 0.8
    assert by_case["ranks", 2].scaling_efficiency == pytest.approx(0.8, rel=1e-9)
    assert by_case["ranks", 2].speedup == pytest.approx(1.6, rel=1e-9)
    assert by_case["replicas", 2].scaling_efficiency == pytest.approx(0.8, rel=1e-9)
    assert by_case["ranks", 1].scaling_efficiency == pytest.approx(1.0, rel=1e-9)


def test_strong_scaling_keeps_the_global_batch(fake, run_fake):
    record = run_fake("ranks", 2, per_device_batch=(32,), scaling=("strong",))
    assert (record.case.per_device_batch, record.case.global_batch) == (16, 32)
    assert record.rounds[0].samples == record.rounds[0].steps * 32


def test_warm_up_lasts_until_steps_stop_getting_faster(fake, run_fake):
    fake(step_seconds=0.1, first_step_seconds=2.0, warm_up_steps=12, warm_up_factor=3.0)
    warm_up = run_fake("single", 1).warmup
    # Slow: steps 0 to 11. The windows of 5 that first look alike within the tolerance are both behind them.
    assert warm_up.steady
    assert warm_up.first_step_seconds == pytest.approx(2.0 + 0.3, rel=1e-9)
    assert warm_up.step_seconds[12:] == pytest.approx([0.1] * (warm_up.steps - 12), rel=1e-9)


def test_steps_that_never_settle_have_no_steady_state(fake, run_fake):
    fake(step_seconds=10.0, jitter=[0.93**i for i in range(60)])
    record = run_fake("single", 1, Timing(rounds=1, round_seconds=0.2, max_warm_up_steps=40, max_warm_up_seconds=1e6))
    assert not record.warmup.steady
    assert "no_steady_state" in [check.name for check in record.checks]
    (summary,) = summarize([record])
    assert summary.samples_per_second is None


@pytest.mark.parametrize(
    ("behaviour", "doubt"),
    [
        ({"world_size": 1}, "world_size"),
        ({"drift": True}, "replicas_differ"),
        ({"parameters": 7}, "parameters"),
        ({"loss": [2.3, float("nan")]}, "loss_not_finite"),
        ({"loss": [2.3, 2.4]}, "loss_did_not_fall"),
    ],
)
def test_work_that_is_not_what_was_asked_for_is_doubted(fake, run_fake, behaviour, doubt):
    fake(**behaviour)
    assert doubt in [check.name for check in run_fake("replicas", 2).checks]


def test_sound_work_is_not_doubted(fake, run_fake):
    for strategy, n in (("single", 1), ("replicas", 2), ("ranks", 2)):
        record = run_fake(strategy, n)
        assert [check.name for check in record.checks] == ["telemetry_incomplete"]  # nothing is sampled in these tests
        assert record.observed.world_size == n
        assert record.observed.replicas_equal


@pytest.mark.parametrize(("empty_seconds", "steps"), [(0.0004, 10), (0.004, 40)])
def test_timing_a_round_costs_a_thousandth_at_most(fake, run_fake, monkeypatch, empty_seconds, steps):
    fake(step_seconds=0.1)
    monkeypatch.setattr(runner, "TIMING_COST_LIMIT", 0.001)
    monkeypatch.setattr(runner._Attempt, "_empty_round", lambda attempt, gang: empty_seconds)
    record = run_fake("single", 1)
    # 1 s is asked for; 0.0004 s are within a thousandth of it, 0.004 s need a round of 4 s.
    assert record.warmup.empty_round_seconds == empty_seconds
    assert {one.steps for one in record.rounds} == {steps}
