"""A word is used only where the whole interval says so."""

import pytest

from gpubench.analysis.scaling import summarize
from gpubench.analysis.verdict import verdicts
from tests.builders import make_case, make_launches, make_lost


def judged(*rates: float, launches: int = 3):
    records = make_launches(make_case("single", 1), [99.0, 100.0, 101.0][:launches])
    return verdicts(summarize(records + make_launches(make_case("ddp", 2), rates)))


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("scales", (184.0, 185.0, 186.0)),
        ("speeds_up", (139.0, 140.0, 141.0)),
        ("does_not_scale", (89.0, 90.0, 91.0)),
        ("not_resolved", (96.0, 103.0, 108.0)),
        ("not_resolved", (150.0, 160.0, 170.0)),  # right at 0.80
    ],
)
def test_the_kind_follows_from_the_whole_interval(kind, rates):
    [verdict] = judged(*rates)
    assert verdict.kind == kind


def test_what_is_not_resolved_says_how_many_launches_it_would_take():
    [verdict] = judged(98.0, 105.0, 108.0)
    assert verdict.kind == "not_resolved"
    assert "launches of each would settle it" in verdict.reason


def test_not_sure_that_it_is_080_is_said_and_never_called_scaling_in_part():
    [verdict] = judged(150.0, 160.0, 170.0)
    interval = verdict.summary.scaling_efficiency_interval
    told = f"it is not sure that the efficiency is 0.80: {interval.low:.2f} to {interval.high:.2f} cannot be excluded"
    assert verdict.kind == "not_resolved"
    assert verdict.reason.startswith(f"it is faster than one device, but {told}")


def test_two_launches_resolve_nothing():
    [verdict] = judged(180.0, 181.0, launches=2)
    assert verdict.kind == "not_resolved"
    assert verdict.reason == "2 launches give no interval; it takes 3"


def test_a_case_without_a_baseline_is_not_resolved():
    [verdict] = verdicts(summarize(make_launches(make_case("ddp", 2), [180.0] * 3)))
    assert verdict.kind == "not_resolved"
    assert "single" in verdict.reason


def test_the_verdict_of_a_series_is_about_its_largest_size():
    records = make_launches(make_case("single", 1), [100.0] * 3)
    for n in (4, 2, 8):
        records += make_launches(make_case("ddp", n), [90.0 * n] * 3)
    [verdict] = verdicts(summarize(records))
    assert verdict.summary.case.n_devices == 8


def test_what_failed_has_a_verdict_and_what_was_skipped_has_none():
    failed = make_lost(make_case("ddp", 2), "oom", "out of memory")
    skipped = make_lost(make_case("data_parallel", 2), "skipped", "needs GPUs")
    [verdict] = verdicts(summarize([failed, skipped]))
    assert (verdict.kind, verdict.reason) == ("no_number", "oom: out of memory")
