"""Matching cases, verdicts from whole intervals, and the same answers whichever machine is named first."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.analysis.compare import Side, compare, kind_of, ratio_interval, side_of
from gpubench.analysis.scaling import summarize
from gpubench.analysis.stats import Interval, Launch
from gpubench.spec.errors import UsageError
from gpubench.spec.record import RunRecord
from gpubench.spec.verification import Verification
from tests.builders import make_case, make_findings, make_launches, make_lost, make_machine, make_record

STEADY = [100.0, 100.2, 99.8, 100.1, 99.9]
MIRRORED = {"faster": "slower", "slower": "faster"}


def launches(rates, name="box", prefix="", case=None, **changes) -> list[RunRecord]:
    case = case or make_case()
    machine, run_id = make_machine(case.device_kind, name=name), prefix or name
    made = make_launches(case, rates, machine=machine, run_id=run_id, **changes)
    return [replace(record, record_id=f"{run_id}-{record.record_id}") for record in made]


def side(name: str, rates, **changes) -> Side:
    return side_of(name, launches(rates, name=name, **changes))


def times(factor: float) -> list[float]:
    return [factor * rate for rate in STEADY]


def only_pair(*sides: Side):
    [pair] = compare(sides).pairs
    return pair


def test_the_ratio_is_the_others_throughput_over_the_references():
    pair = only_pair(side("a", STEADY), side("b", times(1.5)))
    assert pair.ratio == pytest.approx(1.5)
    assert pair.interval.low < 1.5 < pair.interval.high
    assert pair.kind == "faster"


def test_a_difference_inside_the_margin_is_none_however_sure():
    assert only_pair(side("a", STEADY), side("b", times(1.003))).kind == "equal"


def test_noise_that_hides_the_difference_is_not_resolved_and_says_how_many_launches_would():
    pair = only_pair(side("a", [100.0, 104.0, 96.0]), side("b", [103.0, 107.0, 99.0]))
    assert pair.kind == "not_resolved"
    assert "launches on each side would settle it" in pair.reason


def test_two_launches_give_no_interval_and_so_no_verdict():
    pair = only_pair(side("a", [100.0, 100.0]), side("b", [200.0, 200.0]))
    assert pair.kind == "not_resolved"
    assert "it takes 3" in pair.reason


@pytest.mark.parametrize(
    ("interval", "kind"),
    [
        (Interval(1.02, 1.05), "faster"),
        (Interval(1.005, 1.05), "not_resolved"),
        (Interval(0.992, 1.009), "equal"),
        (Interval(0.90, 0.98), "slower"),
        (Interval(0.90, 0.995), "not_resolved"),
        (None, "not_resolved"),
    ],
)
def test_a_word_is_used_only_where_the_whole_interval_says_so(interval, kind):
    assert kind_of(interval) == kind


rates = st.lists(st.floats(50.0, 150.0), min_size=3, max_size=12)


@settings(max_examples=40, deadline=None)
@given(rates, rates)
def test_naming_the_machines_the_other_way_round_turns_every_answer_round(ones, twos):
    a, b = side("a", ones), side("b", twos)
    there, back = only_pair(a, b), only_pair(b, a)
    if there.ratio is None:
        assert back.ratio is None  # a doubt about either side stays the same doubt
        return
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.interval.low * back.interval.high == pytest.approx(1)
    assert there.interval.high * back.interval.low == pytest.approx(1)
    assert back.kind == MIRRORED.get(there.kind, there.kind)


@pytest.mark.parametrize("count", [3, 5, 10])
@pytest.mark.parametrize("noise", [0.002, 0.05])
def test_a_machine_against_itself_is_no_difference_in_95_of_100_trials(count, noise):
    random = np.random.default_rng(1)
    trials, wrong = 400, 0
    for _ in range(trials):
        drawn = np.exp(random.normal(0, noise, (2, count)))
        ones, twos = ([Launch((1000,), (1000 / (100 * rate),)) for rate in row] for row in drawn)
        wrong += kind_of(ratio_interval(ones, twos)) in ("faster", "slower")
    assert wrong <= 0.05 * trials


def test_the_very_same_launches_on_both_sides_are_named_as_such():
    pair = only_pair(side("a", STEADY), Side("b", side("a", STEADY).summaries))
    assert pair.kind in ("equal", "not_resolved")
    assert pair.reason == "these are the same launches"


def test_what_differs_is_listed_by_what_it_is_of():
    old = launches(STEADY, software={"torch": "2.12.0", "python": "3.11.0"}, prefix="old")
    new = launches(STEADY, software={"torch": "2.13.0", "python": "3.11.0"}, prefix="new")
    found = {
        (f.kind, f.name): (f.reference, f.other) for f in only_pair(side_of("old", old), side_of("new", new)).factors
    }
    assert found == {("software", "torch"): ("2.12.0", "2.13.0")}


def test_clocks_that_differ_by_more_than_their_drift_are_a_factor():
    def clocked(name: str, mhz: float) -> Side:
        records = launches(STEADY, name=name)
        for record in records:
            for device in record.telemetry.devices:
                device.rounds[:] = [replace(each, sm_clock_mhz=mhz) for each in device.rounds]
        return side_of(name, records)

    def names(other: Side) -> list[str]:
        return [factor.name for factor in only_pair(clocked("a", 1980.0), other).factors]

    assert "mean clock in rounds" in names(clocked("b", 1700.0))
    assert "mean clock in rounds" not in names(clocked("b", 1970.0))


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (make_case(precision="bf16"), "precision"),
        (make_case(batch=64), "batch per device"),
    ],
)
def test_other_work_is_matched_where_it_can_only_be_that_one_and_is_marked(case, name):
    pair = only_pair(side("a", STEADY), side("b", times(2.0), case=case))
    assert pair.kind == "faster"
    assert name in pair.unlike


def test_a_case_that_could_be_either_of_two_is_matched_with_neither():
    other = launches(STEADY, case=make_case(batch=64), name="b") + launches(STEADY, case=make_case(batch=128), name="b")
    shared = launches(STEADY, case=make_case(workload="mlp", batch=16), name="b")
    reference = launches(STEADY, name="a") + launches(STEADY, case=make_case(workload="mlp", batch=16), name="a")
    comparison = compare([side_of("a", reference), side_of("b", other + shared)])
    assert [pair.reference.case.workload for pair in comparison.pairs] == ["mlp"]
    assert {(each.side.name, each.summary.case.per_device_batch) for each in comparison.unmatched} == {
        ("a", 32),
        ("b", 64),
        ("b", 128),
    }
    assert all("cannot be told" in each.reason for each in comparison.unmatched)


def test_a_case_on_one_side_alone_is_listed_and_not_lost():
    more = launches(STEADY, name="b") + launches(STEADY, case=make_case("ddp", 2), name="b")
    comparison = compare([side("a", STEADY), side_of("b", more)])
    [left] = comparison.unmatched
    assert (left.side.name, left.reason) == ("b", "not measured on a")


def test_gpus_are_never_compared_with_cpu_shares():
    gpu = side("b", STEADY, case=make_case(device_kind="gpu"))
    with pytest.raises(UsageError, match="CPU shares are never compared with GPUs"):
        compare([side("a", STEADY), gpu])


def test_another_model_under_the_same_name_is_refused():
    records = launches(STEADY, name="b")
    other = [replace(record, observed=replace(record.observed, parameters=1)) for record in records]
    pair = only_pair(side("a", STEADY), side_of("b", other))
    assert pair.kind == "refused"
    assert pair.ratio is None


def test_a_case_that_failed_has_no_ratio_and_says_why():
    lost = [make_lost(make_case(), "oom", "out of memory", launch=i) for i in range(3)]
    pair = only_pair(side("a", STEADY), side_of("b", lost))
    assert (pair.kind, pair.ratio) == ("no_number", None)
    assert "out of memory" in pair.reason


def test_cases_that_were_skipped_everywhere_are_no_part_of_it():
    skipped = replace(make_lost(make_case("ddp", 4), "skipped", "needs 4 devices"), machine=make_machine(name="box"))
    comparison = compare([side_of("a", [*launches(STEADY), skipped]), side_of("b", [*launches(STEADY), skipped])])
    assert len(comparison.pairs) == 1
    assert comparison.unmatched == ()


def test_two_machines_in_one_folder_are_refused():
    with pytest.raises(UsageError, match="2 machines"):
        side_of("vendor", launches(STEADY, name="one") + launches(STEADY, name="two"))


def test_nothing_in_common_is_an_error_that_names_what_there_is():
    with pytest.raises(UsageError, match="mlp-torch-single"):
        compare([side("a", STEADY), side("b", STEADY, case=make_case(workload="mlp"))])


def test_three_sides_are_each_compared_with_the_first():
    comparison = compare([side("a", STEADY), side("b", times(1.1)), side("c", times(0.9))])
    assert [(pair.side.name, pair.kind) for pair in comparison.pairs] == [("b", "faster"), ("c", "slower")]


def test_the_records_of_a_side_are_summarized_by_themselves():
    # 3 slow launches here and 3 fast ones there must not meet in one median.
    a, b = launches([100.0] * 3, name="box", prefix="a"), launches([200.0] * 3, name="box", prefix="b")
    [pooled] = summarize(a + b)
    assert pooled.samples_per_second == pytest.approx(150)
    assert only_pair(side_of("a", a), side_of("b", b)).ratio == pytest.approx(2)
    assert make_record().case == pooled.case


def test_a_side_that_is_verified_differs_from_one_that_is_not():
    records = launches(STEADY, name="b")
    shown = [
        Verification(
            workload="resnet20",
            framework="torch",
            strategy=strategy,
            device_kind="cpu",
            n_devices=1,
            software=records[0].software,
            compared_with=["reference"] if strategy else [],
            verified_at="2026-01-01T00:00:00+00:00",
            findings=make_findings(strategy),
        )
        for strategy in (None, "single")
    ]
    pair = only_pair(side("a", STEADY), side_of("b", records, shown))
    [factor] = [factor for factor in pair.factors if factor.name == "verification"]
    assert (factor.reference, factor.other) == ("not verified", "verified")


def test_a_launch_that_is_there_twice_counts_once():
    records = launches(STEADY, name="b")
    pair = only_pair(side("a", STEADY), side_of("b", records + records))
    assert len(pair.other.launches) == len(STEADY)
