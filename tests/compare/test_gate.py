"""A gate for CI: each case of the reference is slower, not slower, or not resolved; never green without a number."""

from dataclasses import replace

import pytest

from gpubench.analysis.compare import Side, compare, side_of
from gpubench.analysis.gate import gate
from gpubench.spec.record import RunRecord
from tests.builders import make_case, make_launches, make_lost, make_machine

STEADY = [100.0, 100.2, 99.8, 100.1, 99.9]
MLP = make_case(workload="mlp", batch=16)


def records(name: str, rates, case=None) -> list[RunRecord]:
    made = make_launches(case or make_case(), rates, machine=make_machine(name=name))
    return [replace(record, record_id=f"{name}-{record.record_id}") for record in made]


def lost(name: str, case=None) -> list[RunRecord]:
    made = [make_lost(case or make_case(), "oom", "out of memory", launch=i) for i in range(3)]
    return [replace(r, record_id=f"{name}-{r.record_id}", machine=make_machine(name=name)) for r in made]


def side(name: str, factor: float = 1.0, rates=None, case=None) -> Side:
    return side_of(name, records(name, rates or [factor * rate for rate in STEADY], case))


def judged(*sides: Side, limit: float = 0.03):
    return gate(compare(sides), limit)


@pytest.mark.parametrize(
    ("rates", "kind"),
    [
        ([0.95 * rate for rate in STEADY], "slower"),
        ([0.98 * rate for rate in STEADY], "not_slower"),
        ([2.00 * rate for rate in STEADY], "not_slower"),
        ([0.97 * rate for rate in STEADY], "not_resolved"),  # right at the limit
        ([80.0, 100.0, 95.0], "not_resolved"),  # slower by its median, but not surely
        ([50.0, 50.0], "not_resolved"),  # half as fast, and no interval to be sure of it
    ],
)
def test_a_word_takes_the_whole_interval(rates, kind):
    assert judged(side("a"), side("b", rates=rates)).kind == kind


def test_a_case_without_a_number_is_not_resolved_on_whichever_side_it_is():
    broken = side_of("b", [*lost("b"), *records("b", STEADY, MLP)])
    whole = side_of("a", records("a", STEADY) + records("a", STEADY, MLP))
    for sides in ((whole, broken), (broken, whole)):
        found = judged(*sides)
        assert found.kind == "not_resolved"
        [left] = found.of("not_resolved")
        assert "out of memory" in left.reason
        assert len(found.of("not_slower")) == 1


def test_a_case_of_the_reference_that_is_missing_is_not_resolved():
    whole = side_of("a", records("a", STEADY) + records("a", STEADY, MLP))
    found = judged(whole, side("b"))
    [left] = found.of("not_resolved")
    assert left.case == MLP.id
    assert "not measured on b" in left.reason
    assert found.kind == "not_resolved"


def test_a_case_that_is_new_is_named_and_decides_nothing():
    grown = side_of("b", records("b", STEADY) + records("b", STEADY, MLP))
    found = judged(side("a"), grown)
    assert found.new == (("b", MLP.id),)
    assert found.kind == "not_slower"


def test_other_work_is_not_resolved_however_fast_it_is():
    found = judged(side("a"), side("b", 2.0, case=make_case(precision="bf16")))
    [left] = found.judged
    assert (left.kind, left.reason) == ("not_resolved", "the work differs in precision: measure the same work on both")


def test_another_model_under_the_same_name_is_not_resolved():
    made = [replace(r, observed=replace(r.observed, parameters=1)) for r in records("b", STEADY)]
    assert judged(side("a"), side_of("b", made)).kind == "not_resolved"


def test_the_same_launches_on_both_sides_resolve_nothing():
    [left] = judged(side("a"), Side("b", side("a").summaries)).judged
    assert (left.kind, left.reason) == ("not_resolved", "these are the same launches on both sides: name two runs")


def test_one_slower_case_is_red_whatever_else_is_not_resolved():
    whole = side_of("a", records("a", STEADY) + records("a", STEADY, MLP))
    found = judged(whole, side_of("b", [*records("b", [90.0, 90.1, 89.9, 90.0]), *lost("b", MLP)]))
    assert found.kind == "slower"
    assert len(found.of("not_resolved")) == 1


def test_every_side_is_judged_against_the_first():
    found = judged(side("a"), side("b"), side("c", 0.5))
    assert [(each.side, each.kind) for each in found.judged] == [("b", "not_slower"), ("c", "slower")]
    assert found.kind == "slower"


def test_how_many_launches_would_resolve_it_is_said_at_the_limit_and_not_at_no_difference():
    [left] = judged(side("a", rates=[100.0, 102.0, 98.0]), side("b", rates=[94.0, 96.0, 92.0])).judged
    assert "would settle it at this noise" in left.reason
    [noisy] = judged(side("a", rates=[100.0, 150.0, 60.0]), side("b", rates=[97.0, 140.0, 55.0])).judged
    assert "launches differ too much" in noisy.reason
