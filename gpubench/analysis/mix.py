"""The buyer's own work on each machine: total time, energy and cost a month.

Totals are sums over the works of the mix, never averages of ratios; two machines are compared by one total over the
other. Intervals carry every launch's spread through the sums (see `draws`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpubench.analysis import cost, draws
from gpubench.analysis.compare import Kind, Side, kind_of
from gpubench.analysis.cost import JOULES_PER_KWH, SECONDS_PER_HOUR, Formula, Price, Way
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.scaling import CaseSummary
from gpubench.analysis.stats import Interval

HOURS_PER_MONTH = 730

FORMULAS = (
    Formula("hours of the mix", "h/month", "sum over works: samples per month / (3600 s/h x samples/s)"),
    Formula("energy of the mix", "kWh/month", "sum over works: samples per month x energy per sample / 3.6e6 J/kWh"),
    Formula("cost of the mix", "currency/month", "sum over works: samples per month x cost per sample"),
    Formula("ratio of two machines", "1", "total of the one / total of the reference, same mix"),
    Formula(
        "break-even of the mix",
        "months",
        "capital cost / (cost of the mix, rented - energy of the mix x PUE x tariff)",
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
    """One work of the mix on one machine: the case that it was worked out from, of so many that fit, and the time."""

    work: Work
    summary: CaseSummary | None
    fitting: int
    hours: Estimate


@dataclass(frozen=True, kw_only=True, eq=False)
class Total:
    """The whole mix on one machine, a month. A part that is not known leaves the total unknown."""

    side: Side
    parts: tuple[Part, ...]
    hours: Estimate
    kilowatt_hours: Estimate
    bought: Estimate
    rented: Estimate


@dataclass(frozen=True, eq=False)
class TotalRatio:
    """One total over the reference's. `faster` is said of hours that are fewer, `slower` of more."""

    side: Side
    ratio: Estimate
    kind: Kind


def total(side: Side, works: Sequence[Work], price: Price | None) -> Total:
    chosen = [_chosen(side, work) for work in works]

    def summed(amount: Callable[[CaseSummary], Estimate]) -> Estimate:
        """Amount a sample, times samples, over all works."""
        each = [
            combined(lambda value, samples=work.samples_per_month: value * samples, amount(summary))
            if summary
            else _missing(side, work)
            for work, (summary, _) in zip(works, chosen, strict=True)
        ]
        return combined(lambda *values: sum(values), *each)

    def paid(way: Way) -> Estimate:
        if price is None:
            return Estimate(None, reason="no prices were given")
        return summed(lambda summary: cost.cost_per_sample(summary, price, way))

    return Total(
        side=side,
        parts=tuple(
            Part(work, summary, fitting, _hours(work, summary) if summary else _missing(side, work))
            for work, (summary, fitting) in zip(works, chosen, strict=True)
        ),
        hours=summed(_hours_per_sample),
        kilowatt_hours=summed(lambda summary: combined(lambda j: j / JOULES_PER_KWH, cost.energy(summary, price))),
        bought=paid("bought"),
        rented=paid("rented"),
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
    per_kwh = purchase.pue * purchase.tariff_per_kwh
    if not per_kwh:
        return cost.paid_back(purchase.capital_cost, rented.rented)
    saved = combined(lambda rent, kwh: rent - kwh * per_kwh, rented.rented, bought.kilowatt_hours)
    return cost.paid_back(purchase.capital_cost, saved)


def _chosen(side: Side, work: Work) -> tuple[CaseSummary | None, int]:
    """The fastest case that fits, by its median; and how many fit."""
    fitting = [summary for summary in side.summaries if work.fits(summary) and summary.samples_per_second is not None]
    return max(fitting, key=lambda summary: summary.samples_per_second or 0.0, default=None), len(fitting)


def _hours_per_sample(summary: CaseSummary) -> Estimate:
    return combined(lambda rate: 1 / (SECONDS_PER_HOUR * rate), draws.throughput(summary))


def _hours(work: Work, summary: CaseSummary) -> Estimate:
    return combined(lambda each: each * work.samples_per_month, _hours_per_sample(summary))


def _missing(side: Side, work: Work) -> Estimate:
    return Estimate(None, reason=f"{side.name} has no number for {work}")
