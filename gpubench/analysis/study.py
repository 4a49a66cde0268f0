"""A whole comparison as a buyer asks for it: cases, prices, and the buyer's mix of work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from gpubench.analysis import cost
from gpubench.analysis.compare import Comparison, Pair, Side
from gpubench.analysis.cost import Price, Way
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.mix import Total, TotalRatio, Work, break_even_months, time_ratio, total
from gpubench.analysis.scaling import CaseSummary


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

    `hours` are hours of use of the bought machine, `lifetime_hours` how many there are; `months` is for a mix.
    """

    bought: Side
    rented: Side
    summary: CaseSummary | None
    samples: Estimate | None
    hours: Estimate | None
    months: Estimate | None
    lifetime_hours: float


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
    def currency(self) -> str:
        return next((price.currency for price in self.prices.values()), "")

    @property
    def summaries(self) -> list[CaseSummary]:
        """Every case that is in the comparison, on every side."""
        return [row.summary for group in self.groups for row in group]


def study(comparison: Comparison, prices: Mapping[str, Price] | None = None, works: Sequence[Work] = ()) -> Study:
    prices = prices or {}
    totals = [total(side, works, prices.get(side.name)) for side in comparison.sides] if works else []
    groups = tuple(_groups(comparison, prices))
    break_evens = [*_of_cases(groups, prices), *_of_mix(totals, prices)]
    ratios = [time_ratio(totals[0], other) for other in totals[1:]]
    return Study(comparison, prices, tuple(works), groups, tuple(totals), tuple(ratios), tuple(break_evens))


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
            life = price.purchase.lifetime_hours
            yield BreakEven(one.side, two.side, one.summary, samples, hours, None, life)


def _of_mix(totals: Sequence[Total], prices: Mapping[str, Price]) -> Iterator[BreakEven]:
    for one, two in product(totals, repeat=2):
        price, rent = prices.get(one.side.name), prices.get(two.side.name)
        if price is None or rent is None or price.purchase is None or rent.rent_per_hour is None:
            continue
        months = break_even_months(one, price, two)
        yield BreakEven(one.side, two.side, None, None, None, months, price.purchase.lifetime_hours)
