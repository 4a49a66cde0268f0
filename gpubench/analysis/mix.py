"""The buyer's own work on each machine: total time, energy and cost a month.

Totals are sums over the works of the mix, never averages of ratios; two machines are compared by one total over the
other. Intervals carry every launch's spread through the sums (see `draws`).

A machine that is bought for the mix is paid for whole, however little of the month the mix keeps it busy: its cost
here comes from the mix's own hours, and not from the utilization that the prices state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpubench.analysis import cost, draws
from gpubench.analysis.compare import Kind, Side, kind_of
from gpubench.analysis.cost import JOULES_PER_KWH, SECONDS_PER_HOUR, Formula, Price, Purchase
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import Interval

HOURS_PER_MONTH = 730
USE_MARGIN = 1.1  # a stated use this close to the mix's own is no contradiction

FORMULAS = (
    Formula("hours of the mix", "h/month", "sum over works: samples per month / (3600 s/h x samples/s)"),
    Formula("machine-hours of the mix", "h/month", "sum over works: hours x share; without prices, share is 1"),
    Formula(
        "machines needed",
        "1",
        "machine-hours / 730 h, rounded up; at least the largest share of a work, rounded up",
    ),
    Formula("use by the mix", "1", "machine-hours / (machines needed x 730 h)"),
    Formula("energy of the mix", "kWh/month", "sum over works: samples per month x energy per sample / 3.6e6 J/kWh"),
    Formula(
        "cost of the mix, bought",
        "currency/month",
        "machines needed x capital cost / months of lifetime + energy of the mix x PUE x tariff",
    ),
    Formula("cost of the mix, rented", "currency/month", "sum over works: samples per month x cost per sample, rented"),
    Formula("cost over the lifetime", "currency", "cost of the mix x months of the longest lifetime in the prices"),
    Formula("ratio of two machines", "1", "total of the one / total of the reference, same mix"),
    Formula(
        "break-even of the mix",
        "months",
        "machines needed x capital cost / (cost of the mix, rented - energy of the mix x PUE x tariff)",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Work:
    """One line of the mix. What is None is left open: then the fastest case of the workload is taken."""

    workload: str
    samples_per_month: float
    framework: str | None = None
    strategy: str | None = None
    precision: str | None = None
    n_devices: int | None = None

    def __str__(self) -> str:
        narrowed = [self.workload, self.framework, self.strategy, self.precision]
        devices = [f"on {self.n_devices} devices"] if self.n_devices else []
        return " ".join([word for word in narrowed if word] + devices)

    def fits(self, summary: CaseSummary) -> bool:
        wanted = {name: getattr(self, name) for name in ("workload", "framework", "strategy", "precision", "n_devices")}
        return all(value is None or getattr(summary.case, name) == value for name, value in wanted.items())


@dataclass(frozen=True, eq=False)
class Part:
    """One work of the mix on one machine: the case that it was worked out from, of so many that fit, and the time.

    `withheld` are the cases that fit as well and have no number: nothing is made from them.
    """

    work: Work
    summary: CaseSummary | None
    fitting: int
    withheld: tuple[CaseSummary, ...]
    hours: Estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class Total:
    """The whole mix on one kind of machine, a month. A part that is not known leaves the total unknown.

    `hours` are those of the works one after another. `machines` are as many as the price is for devices, and as many
    of them as the mix takes; `use` is the share of their time that it does, and `stated_use` the one in the prices.
    """

    side: Side
    parts: tuple[Part, ...]
    hours: Estimate
    machines: Estimate
    use: Estimate
    stated_use: float | None
    kilowatt_hours: Estimate
    bought: Estimate
    rented: Estimate

    @property
    def contradicts(self) -> bool:
        """Whether the mix uses the machine much less, or much more, than the prices say."""
        if self.stated_use is None or self.use.value is None:
            return False
        return not 1 / USE_MARGIN <= self.use.value / self.stated_use <= USE_MARGIN


@dataclass(frozen=True, eq=False)
class TotalRatio:
    """One total over the reference's. `faster` is said of hours that are fewer, `slower` of more."""

    side: Side
    ratio: Estimate
    kind: Kind


def total(side: Side, works: Sequence[Work], price: Price | None) -> Total:
    parts = [_part(side, work) for work in works]

    def summed(amount: Callable[[CaseSummary], Estimate]) -> Estimate:
        """Amount a sample, times samples, over all works."""
        each = [
            combined(lambda value, samples=part.work.samples_per_month: value * samples, amount(part.summary))
            if part.summary
            else part.hours
            for part in parts
        ]
        return combined(lambda *values: sum(values), *each)

    def share(summary: CaseSummary) -> float:
        return 1.0 if price is None else cost.share(summary, price)

    machine_hours = summed(lambda summary: combined(lambda each: each * share(summary), _hours_per_sample(summary)))
    fewest = max((math.ceil(share(part.summary)) for part in parts if part.summary), default=1)
    machines = combined(lambda hours: np.maximum(np.ceil(hours / HOURS_PER_MONTH), fewest), machine_hours)
    kilowatt_hours = summed(lambda summary: combined(lambda j: j / JOULES_PER_KWH, cost.energy(summary, price)))
    rented = summed(lambda summary: cost.cost_per_sample(summary, price, "rented")) if price else _unpriced()
    return Total(
        side=side,
        parts=tuple(parts),
        hours=summed(_hours_per_sample),
        machines=machines,
        use=combined(lambda hours, count: hours / (count * HOURS_PER_MONTH), machine_hours, machines),
        stated_use=price.purchase.utilization if price and price.purchase else None,
        kilowatt_hours=kilowatt_hours,
        bought=_bought(price, machines, kilowatt_hours) if price else _unpriced(),
        rented=rented,
    )


def time_ratio(reference: Total, other: Total) -> TotalRatio:
    """Hours of the other over the reference's, for the same mix."""
    ratio = combined(lambda a, b: b / a, reference.hours, other.hours)
    interval = ratio.interval
    if ratio.value is None:
        return TotalRatio(other.side, ratio, "no_number")
    return TotalRatio(other.side, ratio, kind_of(interval and Interval(1 / interval.high, 1 / interval.low)))


def break_even_months(bought: Total, price: Price, rented: Total) -> Estimate:
    """Months of the mix from which buying the one machine is cheaper than renting the other."""
    purchase = price.purchase
    if purchase is None:
        return Estimate(None, reason="there is no price to buy it")
    electricity = _electricity(purchase, bought.machines, bought.kilowatt_hours)
    saved = combined(lambda rent, power: rent - power, rented.rented, electricity)
    # Months are capital over savings, with the machines in the savings: they have an interval too.
    return cost.paid_back(purchase.capital_cost, combined(lambda each, n: each / n, saved, bought.machines))


def _bought(price: Price, machines: Estimate, kilowatt_hours: Estimate) -> Estimate:
    """Whole machines over their lifetime, and the electricity of the training."""
    purchase = price.purchase
    if purchase is None:
        return Estimate(None, reason="there is no price to buy it")
    monthly = purchase.capital_cost / (purchase.lifetime_hours / HOURS_PER_MONTH)
    electricity = _electricity(purchase, machines, kilowatt_hours)
    return combined(lambda count, power: count * monthly + power, machines, electricity)


def _electricity(purchase: Purchase, machines: Estimate, kilowatt_hours: Estimate) -> Estimate:
    """A month's cost; nothing where the tariff is, whatever the energy."""
    per_kwh = purchase.pue * purchase.tariff_per_kwh
    if not per_kwh:
        return combined(lambda count: 0 * count, machines)
    return combined(lambda kwh: kwh * per_kwh, kilowatt_hours)


def _part(side: Side, work: Work) -> Part:
    """The fastest case that fits, by its median, of those that have a number."""
    fitting = [summary for summary in side.summaries if work.fits(summary)]
    known = [summary for summary in fitting if summary.samples_per_second is not None]
    withheld = tuple(summary for summary in fitting if summary.samples_per_second is None)
    summary = max(known, key=lambda each: each.samples_per_second or 0.0, default=None)
    if summary is None:
        why = "; ".join(f"{each.case.id}: {each.no_number}" for each in withheld) or "it was not measured there"
        hours = Estimate(None, reason=f"{side.name} has no number for {work} ({why})")
    else:
        hours = combined(lambda each: each * work.samples_per_month, _hours_per_sample(summary))
    return Part(work, summary, len(known), withheld, hours)


def _hours_per_sample(summary: CaseSummary) -> Estimate:
    return combined(lambda rate: 1 / (SECONDS_PER_HOUR * rate), draws.throughput(summary))


def _unpriced() -> Estimate:
    return Estimate(None, reason="no prices were given")
