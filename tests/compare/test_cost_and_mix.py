"""What a sample costs, worked out by hand; totals of a mix; and intervals that carry every launch through."""

from dataclasses import replace

import numpy as np
import pytest

from gpubench.analysis import cost, draws
from gpubench.analysis.compare import Side, compare, side_of
from gpubench.analysis.cost import Price, Purchase, break_even, cost_per_million, cost_per_sample, energy
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.mix import Work, break_even_months, time_ratio, total
from gpubench.analysis.scaling import CaseSummary, summarize
from gpubench.analysis.study import study
from gpubench.report.compare_summary import headline
from gpubench.spec.record import Schedule
from tests.builders import make_case, make_launches, make_machine

# 250,000 over 35,040 h, half of them used: 14.2694 an hour. 1 kW at 0.20 a kWh and PUE 1.5: 0.30 an hour.
PURCHASE = Purchase(capital_cost=250_000, lifetime_hours=35_040, utilization=0.5, tariff_per_kwh=0.20, pue=1.5)
BOUGHT = Price(currency="EUR", devices=1, purchase=PURCHASE)
RENTED = Price(currency="EUR", devices=1, rent_per_hour=36.0)
BOTH = Price(currency="EUR", devices=1, purchase=PURCHASE, rent_per_hour=36.0)


def summary(rates=(100.0,) * 3, watts: float | None = 1000.0, **case) -> CaseSummary:
    made = make_case(**{"device_kind": "gpu", **case})
    [found] = summarize(make_launches(made, list(rates), power_watts=watts))
    return found


def side(name: str, *rates_by_workload: tuple[str, list[float]], watts: float | None = 1000.0) -> Side:
    records = []
    for workload, rates in rates_by_workload:
        case = make_case(device_kind="gpu", workload=workload, batch=8)
        records += make_launches(case, rates, machine=make_machine("gpu", name=name), power_watts=watts)
    return side_of(name, records)


def test_renting_costs_the_hours_that_the_samples_take():
    # 36 an hour at 100 samples/s: 360,000 samples for 36, so 100 for a million.
    assert cost_per_million(summary(), RENTED, "rented").value == pytest.approx(100)


def test_buying_costs_the_hours_in_use_and_the_electricity():
    # (14.26941 + 0.30) an hour / 360,000 samples an hour = 40.4706 for a million.
    hourly = 250_000 / (35_040 * 0.5) + 0.30
    assert cost_per_million(summary(), BOUGHT, "bought").value == pytest.approx(hourly / 0.36)


def test_a_case_pays_for_the_devices_that_it_takes():
    of_eight = Price(currency="EUR", devices=8, rent_per_hour=36.0)
    assert cost_per_million(summary(), of_eight, "rented").value == pytest.approx(100 / 8)


def test_a_stated_power_takes_the_place_of_the_devices_own_meters():
    stated = Price(currency="EUR", devices=2, rent_per_hour=1.0, power_watts=6000.0)
    assert energy(summary()).value == pytest.approx(10)  # 1000 W / 100 samples/s
    assert energy(summary(), stated).value == pytest.approx(30)  # half of 6000 W for one device of two


def test_without_energy_there_is_no_cost_of_buying_rather_than_one_without_electricity():
    dark = summary(watts=None)
    unknown = cost_per_sample(dark, BOUGHT, "bought")
    assert unknown.value is None
    assert "energy was not measured" in unknown.reason
    assert cost_per_sample(dark, RENTED, "rented").value is not None


def test_a_counter_that_did_not_move_has_measured_no_energy():
    still = summary(watts=0.0)
    [row, *_] = study(compare([Side("a", (still,)), Side("b", (still,))])).groups[0]
    assert row.joules_per_sample.value is None
    assert row.samples_per_joule.value is None


def test_machines_that_cost_nothing_are_compared_all_the_same():
    free = Price(currency="EUR", devices=1, rent_per_hour=0.0)
    sides = [side("a", ("resnet20", [100.0] * 3)), side("b", ("resnet20", [200.0] * 3))]
    made = study(compare(sides), {"a": free, "b": free}, [Work(workload="resnet20", samples_per_month=1.0)])
    assert "0 EUR a month" in headline(made)


def test_buying_is_cheaper_from_where_its_price_is_saved():
    # A sample saves 36/360,000 of rent less 0.30/360,000 of electricity: 250,000 / (35.70/360,000) samples.
    even = break_even(summary(), BOTH, summary(), BOTH)
    assert even.value == pytest.approx(250_000 * 360_000 / 35.70)


def test_buying_is_never_cheaper_where_electricity_alone_costs_more_than_the_rent():
    cheap = Price(currency="EUR", devices=1, rent_per_hour=0.10)
    assert break_even(summary(), BOUGHT, summary(), cheap).reason.startswith("never")


def test_every_formula_is_one_that_the_functions_follow():
    names = [formula.name for formula in cost.FORMULAS]
    assert names == [
        "energy per sample",
        "samples per joule",
        "share",
        "cost per sample, bought, at the stated utilization",
        "cost per sample, rented",
        "cost per million samples",
        "break-even",
        "hours of use in the lifetime",
    ]


@pytest.mark.parametrize(
    ("launches", "until"), [(5, None), (5, 0.02), (15, 0.02)], ids=["planned", "until", "many, until"]
)
def test_draws_of_a_throughput_have_its_own_interval(launches, until):
    rates = ([100.0, 101.0, 99.5, 100.6, 98.9] * 3)[:launches]
    made = make_launches(make_case(device_kind="gpu"), rates, power_watts=1000.0)
    schedule = Schedule(order="interleaved", seed=0, launches=3, position=0, until=until)
    [case] = summarize([replace(record, schedule=schedule) for record in made])
    drawn, exact = draws.throughput(case).interval, case.samples_per_second_interval
    assert drawn.low == pytest.approx(exact.low, rel=2e-3)
    assert drawn.high == pytest.approx(exact.high, rel=2e-3)
    assert drawn.high - drawn.low == pytest.approx(exact.high - exact.low, rel=0.06)


def test_a_launchs_throughput_and_energy_stay_together():
    # Power is 1000 W in every launch, so energy times throughput is 1000 in every draw, however both are spread.
    case = summary([100.0, 90.0, 110.0, 95.0, 105.0])
    power = combined(lambda joules, rate: joules * rate, energy(case), draws.throughput(case))
    assert power.draws == pytest.approx(np.full(draws.DRAWS, 1000.0))


def test_an_unknown_part_leaves_the_whole_unknown_and_says_why():
    whole = combined(lambda a, b: a + b, Estimate(1.0), Estimate(None, reason="no meter"))
    assert (whole.value, whole.draws, whole.reason) == (None, None, "no meter")


def test_a_mix_is_a_sum_of_times_and_never_a_mean_of_ratios():
    a = side("a", ("resnet20", [100.0] * 3), ("mlp", [1000.0] * 3))
    b = side("b", ("resnet20", [50.0] * 3), ("mlp", [4000.0] * 3))
    works = [Work(workload="resnet20", samples_per_month=3.6e6), Work(workload="mlp", samples_per_month=3.6e6)]
    one, two = total(a, works, None), total(b, works, None)
    assert one.hours.value == pytest.approx(10 + 1)
    assert two.hours.value == pytest.approx(20 + 0.25)
    assert time_ratio(one, two).ratio.value == pytest.approx(20.25 / 11)  # the mean of ratios would be 1.125
    assert time_ratio(one, two).kind == "slower"


def test_energy_and_cost_of_a_mix_are_sums_too():
    a = side("a", ("resnet20", [100.0] * 3), ("mlp", [1000.0] * 3))
    works = [Work(workload="resnet20", samples_per_month=3.6e6), Work(workload="mlp", samples_per_month=3.6e6)]
    found = total(a, works, BOTH)
    assert found.kilowatt_hours.value == pytest.approx(11)  # 11 hours at 1 kW
    assert found.rented.value == pytest.approx(11 * 36)
    assert found.bought.value == pytest.approx(250_000 / 48 + 11 * 0.30)  # the machine is paid for also while idle
    # 250,000 / (11 x 36 of rent - 11 x 0.30 of electricity) months
    assert break_even_months(found, BOTH, found).value == pytest.approx(250_000 / (11 * 35.70))


def test_a_bought_machine_costs_what_it_costs_however_little_the_mix_uses_it():
    # 500 EUR over 48 months is 10.42 a month; 81 h at 35 W are 2.835 kWh, 0.85 at 0.30. At 50 % it would be 3.16.
    purchase = Purchase(capital_cost=500, lifetime_hours=35_040, utilization=0.5, tariff_per_kwh=0.30, pue=1.0)
    price = Price(currency="EUR", devices=1, purchase=purchase, power_watts=35.0)
    works = [Work(workload="resnet20", samples_per_month=81 * 3600 * 100.0)]
    found = total(side("a", ("resnet20", [100.0] * 3)), works, price)
    assert found.hours.value == pytest.approx(81)
    assert found.bought.value == pytest.approx(500 / 48 + 2.835 * 0.30)
    assert (found.use.value, found.stated_use) == (pytest.approx(81 / 730), 0.5)
    assert found.contradicts


@pytest.mark.parametrize(("hours", "devices", "machines"), [(729, 1, 1), (731, 1, 2), (2000, 1, 3), (731, 8, 1)])
def test_a_mix_takes_as_many_machines_as_its_hours_fill(hours, devices, machines):
    price = Price(currency="EUR", devices=devices, purchase=replace(PURCHASE, tariff_per_kwh=0.0))
    works = [Work(workload="resnet20", samples_per_month=hours * 3600 * 100.0)]
    found = total(side("a", ("resnet20", [100.0] * 3)), works, price)
    assert found.machines.value == machines
    assert found.use.value == pytest.approx(hours / devices / machines / 730)
    assert found.bought.value == pytest.approx(machines * 250_000 / 48)


def test_a_case_on_more_devices_than_a_price_is_for_takes_that_many_machines_at_once():
    case = make_case("ddp", 4, device_kind="gpu")
    a = side_of("a", make_launches(case, [100.0] * 3, power_watts=1000.0))
    found = total(a, [Work(workload="resnet20", samples_per_month=3600.0)], replace(BOUGHT, devices=2))
    assert found.machines.value == 2


def test_a_stated_use_that_the_mix_comes_near_is_no_contradiction():
    works = [Work(workload="resnet20", samples_per_month=365 * 3600 * 100.0)]  # half of a month
    found = total(side("a", ("resnet20", [100.0] * 3)), works, BOTH)
    assert found.use.value == pytest.approx(0.5)
    assert not found.contradicts


def test_hours_to_break_even_are_compared_with_the_hours_of_use():
    # 250,000 over (rent - 0.30 of electricity) an hour, of 17,520 hours of use: between them lies 14.57 an hour.
    assert BOTH.purchase.use_hours == 17_520
    for rent, pays in ((14.0, "later"), (15.0, "within"), (0.2, "never")):
        both = replace(BOTH, rent_per_hour=rent)
        sides = [side(name, ("resnet20", [100.0, 100.1, 99.9, 100.0])) for name in "ab"]
        made = study(compare(sides), {"a": both, "b": both})
        assert {each.pays for each in made.break_evens} == {pays}


def test_a_mix_pays_back_exactly_where_buying_it_costs_less_a_month():
    works = [Work(workload="resnet20", samples_per_month=3600 * 100.0 * 100)]  # 100 hours a month
    for rent, pays in ((50.0, "later"), (60.0, "within")):
        both = replace(BOTH, rent_per_hour=rent)
        sides = [side(name, ("resnet20", [100.0, 100.1, 99.9, 100.0])) for name in "ab"]
        made = study(compare(sides), {"a": both, "b": both}, works)
        assert {each.pays for each in made.break_evens if each.months} == {pays}
        assert {t.bought.value < t.rented.value for t in made.totals} == {pays == "within"}


def withheld(name: str, *workloads: str) -> Side:
    """A side whose cases lost their number: the loss is no finite number."""
    records = []
    for workload in workloads:
        case = make_case(device_kind="gpu", workload=workload, batch=8)
        made = make_launches(case, [500.0] * 3, machine=make_machine("gpu", name=name), power_watts=1000.0)
        records += [replace(each, observed=replace(each.observed, loss_last=float("nan"))) for each in made]
    return side_of(name, records)


def test_a_number_that_a_check_took_away_takes_energy_cost_and_totals_with_it():
    a, b = side("a", ("resnet20", [100.0] * 3)), withheld("b", "resnet20")
    made = study(compare([a, b]), {"a": BOTH, "b": BOTH}, [Work(workload="resnet20", samples_per_month=3.6e6)])
    [_, row] = made.groups[0]
    lost = made.totals[1]
    assert row.summary.joules_per_sample is None
    for each in (row.joules_per_sample, row.samples_per_joule, row.bought_per_million, row.rented_per_million):
        assert each.value is None
    for each in (lost.hours, lost.machines, lost.use, lost.kilowatt_hours, lost.bought, lost.rented):
        assert each.value is None
        assert "b has no number for resnet20" in each.reason
        assert "loss not finite" in each.reason
    assert {each.pays for each in made.break_evens if each.bought.name == "b"} == {"no_number"}


def test_of_several_cases_that_fit_one_without_a_number_is_never_taken_and_is_named():
    fast = withheld("b", "resnet20").summaries
    slow = side("b", ("mlp", [1.0] * 3)).summaries
    slower = summarize(make_launches(make_case("ddp", device_kind="gpu", batch=8), [50.0] * 3, power_watts=1000.0))
    b = Side("b", (*fast, *slow, *slower))
    [part] = total(b, [Work(workload="resnet20", samples_per_month=1.0)], None).parts
    assert part.summary.case.strategy == "ddp"
    assert part.withheld == fast


def test_a_case_that_trains_another_model_is_in_no_total():
    a, b = side("a", ("resnet20", [100.0] * 3)), side("b", ("resnet20", [100.0] * 3))
    records = [
        replace(r, observed=replace(r.observed, parameters=7))
        for s in b.summaries
        for r in (each.whole() for each in s.records)
    ]
    made = study(compare([a, side_of("b", records)]), None, [Work(workload="resnet20", samples_per_month=1.0)])
    assert made.totals[1].hours.value is None


def test_a_mix_of_one_work_has_the_interval_of_its_case():
    rates = [100.0, 101.0, 99.5, 100.6, 98.9]
    found = total(side("a", ("resnet20", rates)), [Work(workload="resnet20", samples_per_month=3.6e6)], None)
    exact = summary(rates).samples_per_second_interval
    assert found.hours.interval.high == pytest.approx(1000 / exact.low, rel=2e-3)
    assert found.hours.interval.low == pytest.approx(1000 / exact.high, rel=2e-3)


def test_a_work_without_a_number_leaves_the_total_unknown():
    works = [Work(workload="resnet20", samples_per_month=1.0), Work(workload="mlp", samples_per_month=1.0)]
    found = total(side("a", ("resnet20", [100.0] * 3)), works, BOTH)
    assert found.hours.value is None
    assert found.rented.value is None
    assert "a has no number for mlp" in found.hours.reason


def test_the_fastest_case_that_fits_is_taken_and_named():
    records = []
    for strategy, rate in (("single", 100.0), ("ddp", 90.0)):
        records += make_launches(make_case(strategy, device_kind="gpu"), [rate] * 3)
    a = side_of("a", records)
    open_choice = total(a, [Work(workload="resnet20", samples_per_month=1.0)], None).parts[0]
    narrowed = total(a, [Work(workload="resnet20", samples_per_month=1.0, strategy="ddp")], None).parts[0]
    assert (open_choice.summary.case.strategy, open_choice.fitting) == ("single", 2)
    assert (narrowed.summary.case.strategy, narrowed.fitting) == ("ddp", 1)


@pytest.mark.parametrize("count", [4, 10])
def test_intervals_of_a_mix_cover_the_truth(count):
    random = np.random.default_rng(2)
    trials, covered = 120, 0
    works = [Work(workload="resnet20", samples_per_month=3.6e6), Work(workload="mlp", samples_per_month=18e6)]
    for _ in range(trials):
        slow, fast = np.exp(random.normal(np.log([[100.0], [500.0]]), 0.02, (2, count)))
        found = total(side("a", ("resnet20", list(slow)), ("mlp", list(fast))), works, None).hours.interval
        covered += found.low <= 20 <= found.high
    assert covered >= 0.92 * trials


def test_the_mix_of_a_machine_against_itself_is_no_difference_in_95_of_100_trials():
    random = np.random.default_rng(3)
    trials, wrong = 100, 0
    works = [Work(workload="resnet20", samples_per_month=1.0), Work(workload="mlp", samples_per_month=5.0)]
    for _ in range(trials):
        totals = []
        for name in "ab":
            slow, fast = np.exp(random.normal(np.log([[100.0], [500.0]]), 0.03, (2, 5)))
            totals.append(total(side(name, ("resnet20", list(slow)), ("mlp", list(fast))), works, None))
        wrong += time_ratio(*totals).kind in ("faster", "slower")
    assert wrong <= 0.05 * trials


def test_the_totals_turn_round_with_the_machines():
    a = side("a", ("resnet20", [100.0, 103.0, 98.0]))
    b = side("b", ("resnet20", [108.0, 112.0, 104.0]))
    works = [Work(workload="resnet20", samples_per_month=3.6e6)]
    prices = {"a": RENTED, "b": RENTED}
    there, back = (study(compare(sides), prices, works) for sides in ([a, b], [b, a]))
    one, two = there.ratios[0], back.ratios[0]
    assert one.ratio.value * two.ratio.value == pytest.approx(1)
    assert one.ratio.interval.low * two.ratio.interval.high == pytest.approx(1)
    assert {one.kind, two.kind} in ({"faster", "slower"}, {"not_resolved"}, {"equal"})
    assert {t.side.name: t.rented.value for t in there.totals} == {t.side.name: t.rented.value for t in back.totals}


def test_launches_that_are_too_many_to_be_drawn_at_once_are_drawn_in_parts(monkeypatch):
    case = summary(rates=[100.0 + i % 7 for i in range(40)])
    whole = draws.throughput(case)
    monkeypatch.setattr(draws, "MOST_PICKED", 40 * 1000 + 1)
    parts = draws.throughput(case)
    assert parts.draws.shape == whole.draws.shape
    assert len(set(parts.draws)) > 3
    assert parts.interval.low == pytest.approx(whole.interval.low, rel=0.02)
    assert parts.interval.high == pytest.approx(whole.interval.high, rel=0.02)
