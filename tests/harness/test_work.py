"""A number stands only for steps that trained, in the type that the case says, for as long as the rounds lasted."""

import pytest

from gpubench.analysis.checks import CONDITIONS, timing
from gpubench.analysis.scaling import summarize
from gpubench.harness import runner
from gpubench.harness.runner import Timing
from gpubench.spec import steady

ROUNDS = Timing(rounds=4, round_seconds=1.0)  # of ten steps of 0.1 s


def severe(record):
    return {check.name for check in record.checks if check.severity == "severe"}


@pytest.mark.parametrize("strategy", ["replicas", "ranks"])
def test_training_moves_parameters_and_is_seen_to(fake, run_fake, strategy):
    fake(step_seconds=0.1)
    record = run_fake(strategy, 2, ROUNDS)
    digests = record.observed.moving_digests
    assert [len(ranks) for ranks in digests] == [1 if strategy == "replicas" else 2] * 3
    assert len({ranks[0] for ranks in digests}) == 3
    assert severe(record) == set()


# The warm-up takes 11 steps of 0.1 s, a round ten.
@pytest.mark.parametrize(
    "lazy",
    [
        {"after_steps": 0, "step_seconds": 0.001},  # never trains
        {"after_steps": 5, "step_seconds": 0.001},  # trains in the first warm-up steps only
        {"after_steps": 11, "step_seconds": 0.01},  # trains throughout the warm-up
        {"after_steps": 21, "step_seconds": 0.01},  # and in the first round
        {"after_steps": 35, "step_seconds": 0.1},  # stops in the middle, and takes as long as before
    ],
)
def test_a_step_that_stops_training_has_no_number(fake, run_fake, lazy):
    fake(step_seconds=0.1, lazy=lazy)
    record = run_fake("ranks", 2, ROUNDS)
    assert record.outcome.status == "ok"
    assert severe(record) - {"unlike_warm_up"} == {"parameters_did_not_move"}
    message = next(check.message for check in record.checks if check.name == "parameters_did_not_move")
    assert message.startswith("ranks left the parameters of rank 0, 1 as they were")
    (summary,) = summarize([record])
    assert summary.samples_per_second is None


@pytest.mark.parametrize("after_steps", [0, 5])
def test_a_step_that_takes_no_time_is_refused_with_its_name(fake, run_fake, after_steps):
    fake(lazy={"after_steps": after_steps, "step_seconds": 0.0})
    outcome = run_fake("ranks", 2, ROUNDS).outcome
    assert (outcome.status, outcome.phase) == ("failed", "warm_up")
    assert outcome.message.startswith("A step of fake's ranks does no work")
    assert "Traceback" not in outcome.message


def test_a_step_of_almost_no_time_makes_rounds_of_a_largest_number_of_steps(fake, run_fake, monkeypatch):
    monkeypatch.setattr(steady, "MOST_STEPS", 1000)
    fake(lazy={"after_steps": 5, "step_seconds": 1e-9})
    record = run_fake("single", 1, ROUNDS)
    assert {each.steps for each in record.rounds} == {1000}
    assert severe(record) == {"parameters_did_not_move"}


def test_the_stated_limits_keep_every_deadline_within_what_a_wait_can_hold():
    assert steady.MOST_STEPS == 100_000
    assert runner.MOST_STRETCH == 4.0


@pytest.mark.parametrize(("empty_seconds", "steps", "severity"), [
    (0.0004, 10, None),
    (0.004, 40, None),  # 4 s are a thousand times as long
    (0.008, 40, "warning"),  # 8 s would be, which is over four times what was asked for
    (0.4, 40, "severe"),
])  # fmt: skip
def test_rounds_stretch_for_slow_timing_up_to_a_limit_and_a_check_says_what_is_left(
    fake, run_fake, monkeypatch, empty_seconds, steps, severity
):
    fake(step_seconds=0.1)
    for module in (runner, timing):
        monkeypatch.setattr(module, "TIMING_COST_LIMIT", 0.001)
    monkeypatch.setattr(runner._Attempt, "_empty_round", lambda attempt, gang: empty_seconds)
    record = run_fake("single", 1)
    assert {each.steps for each in record.rounds} == {steps}
    found = {check.name: check.severity for check in record.checks}
    assert found.get("timing_cost") == severity
    assert "timing_cost" in CONDITIONS  # such a launch is set aside; the others count


@pytest.mark.parametrize(
    "behaviour",
    [{"parameter_type": "float64"}, {"product_types": ["float32", "float64"]}, {"product_types": ["float16"]}],
)
def test_another_type_than_the_precision_says_has_no_number(fake, run_fake, behaviour):
    fake(**behaviour)
    record = run_fake("ranks", 2)
    assert severe(record) == {"precision"}
    (summary,) = summarize([record])
    assert summary.samples_per_second is None


def test_the_types_that_ran_are_in_the_record(fake, run_fake):
    fake()
    observed = run_fake("ranks", 2).observed
    assert observed.parameter_types == observed.product_types == ["float32"]
