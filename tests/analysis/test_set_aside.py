"""How many launches must be left for a number, and what the rule lets a headline be off by."""

import numpy as np
import pytest

from gpubench.analysis.scaling import enough_are_left, summarize
from gpubench.spec.record import Check
from tests.builders import make_case, make_record

UNFIT = Check(name="no_steady_state", severity="severe", message="step times did not settle")


def measured(n_left: int, n: int):
    """The summary of `n` launches at 100 samples/s, of which all but the first `n_left` are set aside."""
    checks = [[] if launch < n_left else [UNFIT] for launch in range(n)]
    (summary,) = summarize([make_record(make_case(), launch=i, checks=found) for i, found in enumerate(checks)])
    return summary


@pytest.mark.parametrize(("n_left", "n"), [(1, 1), (2, 3), (2, 4), (3, 6), (50, 100)])
def test_half_of_the_launches_and_at_least_two_make_a_number(n_left, n):
    summary = measured(n_left, n)
    assert summary.samples_per_second == pytest.approx(100.0)
    assert summary.no_number is None
    told = [check.message for check in summary.checks if check.name == "launches_set_aside"]
    assert [message.split(";")[0] for message in told] == ([f"{n_left} of {n} launches count"] if n > n_left else [])


@pytest.mark.parametrize(
    ("n_left", "n", "word"), [(1, 2, "counts"), (1, 3, "counts"), (2, 5, "count"), (49, 100, "count")]
)
def test_fewer_make_none_and_the_reason_says_how_many_it_takes(n_left, n, word):
    summary = measured(n_left, n)
    assert summary.samples_per_second is None
    assert str(summary.no_number).endswith(f"; {n_left} of {n} launches {word}: it takes half of them, and two")


def test_the_rule_is_the_same_for_many_launches_as_for_few():
    for n_left, n in ((2, 3), (2, 4), (2, 5), (3, 7)):
        assert {enough_are_left(n_left * k, n * k) for k in (1, 2, 10, 100)} == {enough_are_left(n_left, n)}


@pytest.mark.parametrize("n", range(2, 40))
def test_a_headline_lies_between_the_quartiles_whichever_launches_are_set_aside(n):
    """Tukey's hinges: the medians of the lower and of the upper half, the middle one in both."""
    random = np.random.default_rng(n)
    rates = np.sort(random.lognormal(size=n))
    half = (n + 1) // 2
    lower, upper = np.median(rates[:half]), np.median(rates[n - half :])
    allowed = [k for k in range(1, n + 1) if enough_are_left(k, n)]
    for _ in range(50):
        left = random.choice(rates, size=random.choice(allowed), replace=False)
        assert lower <= np.median(left) <= upper
    if n > 3:  # and with fewer it need not
        assert np.median(rates[-(min(allowed) - 1) :]) > upper


@pytest.mark.parametrize(("n_left", "n", "bias"), [(2, 3, 0.42), (2, 4, 0.66), (3, 6, 0.64), (50, 100, 0.66)])
def test_at_worst_the_headline_is_too_high_by_two_thirds_of_the_noise(n_left, n, bias):
    """In standard deviations between launches, where exactly the slowest launches were set aside."""
    launches = np.sort(np.random.default_rng(0).normal(size=(20_000, n)))
    assert np.median(launches[:, n - n_left :], axis=1).mean() == pytest.approx(bias, abs=0.02)


@pytest.mark.parametrize(("n_left", "n"), [(2, 3), (3, 6), (50, 100)])
def test_without_the_launches_that_load_made_slow_the_headline_is_that_of_a_quiet_machine(n_left, n):
    """Noise of 1 %; other load takes a fifth of the speed of the launches that are set aside, and nothing else."""
    random = np.random.default_rng(1)
    rates = 100 * np.exp(random.normal(scale=0.01, size=(20_000, n)))
    rates[:, n_left:] *= 0.8
    assert np.median(rates[:, :n_left], axis=1).mean() == pytest.approx(100, rel=0.001)
    assert np.median(rates, axis=1).mean() < 99.5
