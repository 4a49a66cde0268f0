"""The doubts that only show when launches and cases are seen together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.spec.case import Case
from gpubench.spec.record import RunRecord
from tests.builders import make_case, make_launches, make_machine

NOISE = (1.001, 0.999, 1.002, 0.998, 1.0)


def series(*rates: float, launches: int = 3, **changes: Any) -> list[RunRecord]:
    records = make_launches(make_case("single", 1), [100.0] * launches)
    for doublings, rate in enumerate(rates):
        records += make_launches(make_case("ddp", 2 * 2**doublings), [rate] * launches, **changes)
    return records


def series_names(records: list[RunRecord]) -> dict[int, list[str]]:
    return {
        s.case.n_devices: [check.name for check in s.checks] for s in summarize(records) if s.case.strategy == "ddp"
    }


def two_of(records: list[RunRecord]) -> CaseSummary:
    [two] = [summary for summary in summarize(records) if summary.case.n_devices == 2]
    return two


def test_a_sound_series_raises_no_doubt():
    assert series_names(series(190.0, 370.0)) == {2: [], 4: []}


def test_throughput_that_falls_with_devices_is_said_and_the_number_stays():
    records = series(190.0, 150.0)
    assert series_names(records) == {2: [], 4: ["throughput_falls"]}
    assert all(summary.samples_per_second for summary in summarize(records))


def test_a_fall_within_the_noise_is_none():
    records = make_launches(make_case("ddp", 2), [186.0, 194.0, 190.0])
    records += make_launches(make_case("ddp", 4), [192.0, 184.0, 188.0])
    assert series_names(records) == {2: [], 4: []}


def test_a_fall_of_single_launches_is_said_as_nothing_speaks_against_it():
    assert series_names(series(190.0, 150.0, launches=1)) == {2: [], 4: ["throughput_falls"]}


def test_an_efficiency_that_is_above_one_for_sure_takes_the_number():
    two = two_of(series(230.0))
    assert [(check.name, check.severity) for check in two.checks] == [("efficiency_above_one", "severe")]
    assert two.samples_per_second is None


def test_an_efficiency_that_may_still_be_one_is_a_warning_only():
    records = make_launches(make_case("single", 1), [90.0, 100.0, 110.0])
    records += make_launches(make_case("ddp", 2), [200.0, 216.0, 240.0])
    two = two_of(records)
    assert {check.name: check.severity for check in two.checks}["efficiency_above_one"] == "warning"
    assert two.samples_per_second == pytest.approx(216)


def test_an_efficiency_without_an_interval_is_a_warning_only():
    two = two_of(series(230.0, launches=2))
    assert [(check.name, check.severity) for check in two.checks] == [("efficiency_above_one", "warning")]
    assert "no interval" in two.checks[0].message
    assert two.samples_per_second == pytest.approx(230)


def test_two_versions_in_one_series_are_no_comparison():
    records = series(190.0, software={"torch": "9.9.9"})
    assert series_names(records) == {2: ["mixed_software"]}
    assert two_of(records).speedup is None


def test_a_gang_under_one_driver_has_no_baseline_under_another():
    machine = make_machine("gpu")
    single, gang = make_case("single", 1, device_kind="gpu"), make_case("ddp", 2, device_kind="gpu")
    records = make_launches(single, [100.0] * 3, machine=replace(machine, driver="550.1"))
    records += make_launches(gang, [190.0] * 3, machine=replace(machine, driver="560.2"), run_id="later")
    [alone, both] = summarize(records)
    assert (both.samples_per_second, both.speedup, both.baseline) == (pytest.approx(190.0), None, None)
    assert alone.machine_label == "test-machine (driver 550.1)"
    assert both.machine_label == "test-machine (driver 560.2)"


def test_without_a_baseline_a_series_must_still_be_of_one_software():
    records = make_launches(make_case("ddp", 2), [190.0] * 3)
    records += make_launches(make_case("ddp", 4), [370.0] * 3, software={"torch": "9.9.9"})
    assert series_names(records) == {2: [], 4: ["mixed_software"]}


def test_launches_that_differ_too_much_are_said():
    [summary] = summarize(make_launches(make_case(), [90.0, 100.0, 112.0]))
    assert [check.name for check in summary.checks] == ["noisy_launches"]


def drifting(changes: Sequence[float], rounds: int = 5) -> list[RunRecord]:
    """Launches whose rounds get longer, evenly, by the given share from the first to the last."""
    records = []
    for record, change in zip(make_launches(make_case(), [100.0] * len(changes), rounds=rounds), changes, strict=True):
        slower = []
        for each in record.rounds:
            seconds = each.seconds * (1 + change * each.index / (rounds - 1))
            end_ns = each.start_ns + round(seconds * 1e9)
            slower.append(replace(each, end_ns=end_ns, rank_seconds=[seconds], rank_cpu_seconds=[0.98 * seconds]))
        records.append(replace(record, rounds=slower))
    return records


def test_a_trend_over_the_rounds_of_all_launches_is_drift():
    [summary] = summarize(drifting([0.06, 0.07, 0.08]))
    [check] = summary.checks
    assert (check.name, check.severity) == ("drift_within_launches", "warning")
    assert "-6." in check.message  # 7 % longer is 6.5 % less
    assert summary.samples_per_second is not None


@pytest.mark.parametrize("changes", [[0.06, -0.05, 0.08], [0.006, 0.007, 0.008], [0.07, 0.07]])
def test_no_trend_that_launches_share_is_no_drift(changes):
    [summary] = summarize(drifting(changes))
    assert summary.checks == ()


def run_of(rates: dict[str, list[float]], **changes: Any) -> list[RunRecord]:
    """A run in which launches of several cases took turns, a minute apart."""
    cases: dict[str, Case] = {name: make_case(framework=name) for name in rates}
    return [record for name, values in rates.items() for record in make_launches(cases[name], values, **changes)]


def test_a_run_in_which_all_cases_get_slower_together_drifts():
    # 5 % over 5 launches of each case, beside which the noise is small
    slower = [1 - 0.05 * i / 4 for i in range(5)]
    rates = {
        "torch": [100 * s * n for s, n in zip(slower, NOISE, strict=True)],
        "mxnet": [60 * s / n for s, n in zip(slower, NOISE, strict=True)],
    }
    for summary in summarize(run_of(rates)):
        [check] = summary.checks
        assert (check.name, check.severity) == ("drift_over_run", "warning")
        assert "-5.0 %" in check.message or "-4.9 %" in check.message


def test_cases_that_only_vary_do_not_drift():
    rates = {"torch": [100 * n for n in NOISE], "mxnet": [60 / n for n in NOISE]}
    assert [summary.checks for summary in summarize(run_of(rates))] == [(), ()]


def test_a_step_between_two_runs_is_no_drift_within_one():
    before = run_of({"torch": [100 * n for n in NOISE]})
    after = run_of({"torch": [96 * n for n in NOISE]}, run_id="0002_later")
    [summary] = summarize(before + after)
    assert "drift_over_run" not in [check.name for check in summary.checks]


def test_a_start_that_is_no_time_is_left_out_of_the_drift():
    records = run_of({"torch": [100 * n for n in NOISE]}, started_at="yesterday")
    assert [summary.checks for summary in summarize(records)] == [()]
