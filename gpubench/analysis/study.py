"""A whole comparison as a buyer asks for it: cases, prices, and the buyer's mix of work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from gpubench.analysis import cost
from gpubench.analysis.compare import Comparison, Pair, Side
from gpubench.analysis.cost import Price, Way
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.mix import (
    HOURS_PER_MONTH,
    Total,
    TotalRatio,
    Work,
    break_even_months,
    time_ratio,
    total,
)
from gpubench.analysis.scaling import CaseSummary, NoNumber

Pays = Literal["within", "later", "never", "not_resolved", "no_number"]


@dataclass(frozen=True, eq=False)
class Row:
    """One case on one side; `pair` is its comparison with the reference, None on the reference itself."""

    side: Side
    summary: CaseSummary
    pair: Pair | None
    joules_per_sample: Estimate
    samples_per_joule: Estimate
    bought_per_million: Estimate
    rented_per_million: Estimate


@dataclass(frozen=True, eq=False)
class BreakEven:
    """Buying the one side against renting the other (which may be the same), for a case or for the whole mix.

    `hours` are hours of use of the bought machine, of which there are `use_hours` in its lifetime; `months` is for a
    mix, which goes on all the time, and is compared with the `lifetime_hours`.
    """

    bought: Side
    rented: Side
    summary: CaseSummary | None
    samples: Estimate | None
    hours: Estimate | None
    months: Estimate | None
    lifetime_hours: float
    use_hours: float

    @property
    def pays(self) -> Pays:
        """Whether the machine lives to see the day from which buying was the cheaper; a word for the whole interval."""
        needed, life = (
            (self.months, self.lifetime_hours / HOURS_PER_MONTH) if self.months else (self.hours, self.use_hours)
        )
        assert needed is not None
        if needed.value is None:
            return "never" if needed.reason.startswith("never") else "no_number"
        low, high = (needed.interval.low, needed.interval.high) if needed.interval else (needed.value, needed.value)
        if high <= life:
            return "within" if needed.interval else "not_resolved"
        return "later" if low > life and needed.interval else "not_resolved"


@dataclass(frozen=True, eq=False)
class Study:
    """`prices` has every side or none. `groups` holds the rows of a case on all sides, the reference first."""

    comparison: Comparison
    prices: Mapping[str, Price]
    works: tuple[Work, ...]
    groups: tuple[tuple[Row, ...], ...]
    totals: tuple[Total, ...]
    ratios: tuple[TotalRatio, ...]
    break_evens: tuple[BreakEven, ...]

    @property
    def lifetime_months(self) -> float | None:
        """Over which costs of a month are added up: the longest lifetime in the prices, the same for all sides."""
        lives = [price.purchase.lifetime_hours for price in self.prices.values() if price.purchase]
        return max(lives) / HOURS_PER_MONTH if lives else None

    @property
    def currency(self) -> str:
        return next((price.currency for price in self.prices.values()), "")

    @property
    def summaries(self) -> list[CaseSummary]:
        """Every case that is in the comparison, on every side."""
        return [row.summary for group in self.groups for row in group]


def study(comparison: Comparison, prices: Mapping[str, Price] | None = None, works: Sequence[Work] = ()) -> Study:
    prices = prices or {}
    sides = _comparable(comparison) if works else []
    totals = [total(side, works, prices.get(side.name)) for side in sides]
    groups = tuple(_groups(comparison, prices))
    break_evens = [*_of_cases(groups, prices), *_of_mix(totals, prices)]
    ratios = [time_ratio(totals[0], other) for other in totals[1:]]
    return Study(comparison, prices, tuple(works), groups, tuple(totals), tuple(ratios), tuple(break_evens))


def _comparable(comparison: Comparison) -> Iterator[Side]:
    """The sides for a mix: a case that trains another model than the reference's has no number in it."""
    refused = {id(pair.other): pair.reason for pair in comparison.pairs if pair.kind == "refused"}
    for side in comparison.sides:
        yield replace(side, summaries=tuple(_without_number(each, refused.get(id(each))) for each in side.summaries))


def _without_number(summary: CaseSummary, reason: str | None) -> CaseSummary:
    if reason is None:
        return summary
    return replace(summary, samples_per_second=None, no_number=NoNumber("not compared", reason))


def _groups(comparison: Comparison, prices: Mapping[str, Price]) -> Iterator[tuple[Row, ...]]:
    by_case: dict[int, list[Pair]] = {}
    for pair in comparison.pairs:
        by_case.setdefault(id(pair.reference), []).append(pair)
    for pairs in by_case.values():
        reference = _row(comparison.reference, pairs[0].reference, None, prices)
        yield reference, *(_row(pair.side, pair.other, pair, prices) for pair in pairs)


def _row(side: Side, summary: CaseSummary, pair: Pair | None, prices: Mapping[str, Price]) -> Row:
    price = prices.get(side.name)
    joules = cost.energy(summary, price)

    def paid(way: Way) -> Estimate:
        return cost.cost_per_million(summary, price, way) if price else Estimate(None, reason="no prices were given")

    inverse = combined(lambda each: 1 / each, joules)
    return Row(side, summary, pair, joules, inverse, paid("bought"), paid("rented"))


def _of_cases(groups: Sequence[Sequence[Row]], prices: Mapping[str, Price]) -> Iterator[BreakEven]:
    for group in groups:
        for one, two in product(group, repeat=2):
            price, rent = prices.get(one.side.name), prices.get(two.side.name)
            same_work = all(row.pair is None or not row.pair.unlike for row in (one, two))
            if price is None or rent is None or price.purchase is None or rent.rent_per_hour is None or not same_work:
                continue
            samples = cost.break_even(one.summary, price, two.summary, rent)
            hours = combined(
                lambda each, row=one: each / row.summary.samples_per_second / cost.SECONDS_PER_HOUR, samples
            )
            life, use = price.purchase.lifetime_hours, price.purchase.use_hours
            yield BreakEven(one.side, two.side, one.summary, samples, hours, None, life, use)


def _of_mix(totals: Sequence[Total], prices: Mapping[str, Price]) -> Iterator[BreakEven]:
    for one, two in product(totals, repeat=2):
        price, rent = prices.get(one.side.name), prices.get(two.side.name)
        if price is None or rent is None or price.purchase is None or rent.rent_per_hour is None:
            continue
        months = break_even_months(one, price, two)
        life, use = price.purchase.lifetime_hours, price.purchase.use_hours
        yield BreakEven(one.side, two.side, None, None, None, months, life, use)
