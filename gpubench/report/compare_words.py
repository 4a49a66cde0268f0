"""A comparison in plain words: what was found, a sentence each, what the terms mean, and what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpubench.analysis import cost, mix
from gpubench.analysis.compare import Pair, Side
from gpubench.analysis.cost import Price
from gpubench.analysis.draws import DRAWS, Estimate
from gpubench.analysis.factors import Factor
from gpubench.analysis.mix import HOURS_PER_MONTH, Total
from gpubench.analysis.stats import Interval
from gpubench.analysis.study import BreakEven, Study
from gpubench.analysis.verdict import MARGIN
from gpubench.report.units import percent, span
from gpubench.report.words import clean, figure

WORDS = {
    "faster": "faster",
    "slower": "slower",
    "equal": "the same",
    "not_resolved": "not resolved",
    "no_number": "no number",
    "refused": "not compared",
}
FORMULAS = (*cost.FORMULAS, *mix.FORMULAS)
MANY = 10  # comparisons, from which on one wrong interval among them is to be expected


@dataclass(frozen=True)
class Source:
    """Where a side's figures come from: what it was named by, and what is in it."""

    name: str
    files: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def with_interval(value: float | None, interval: Interval | None, digits: int = 3) -> str:
    """'1.23 [1.20, 1.26]', to significant digits, as these figures have all sizes."""
    if value is None or interval is None:
        return figure(value, digits)
    return f"{figure(value, digits)} [{figure(interval.low, digits)}, {figure(interval.high, digits)}]"


def count(value: float | None) -> str:
    """A number of samples: '2.5 billion' where digits would only be noise."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value is not None and value >= size:
            return f"{figure(value / size)} {name}"
    return figure(value)


def estimate(each: Estimate, digits: int = 3) -> str:
    return with_interval(each.value, each.interval, digits)


def details(study: Study) -> list[str]:
    """What was found, a sentence each: how the cases compare, and what the mix takes and costs."""
    reference = study.comparison.reference
    told: list[str] = []
    for side in study.comparison.sides[1:]:
        pairs = [pair for pair in study.comparison.pairs if pair.side is side]
        told += _side_by_side(reference, side, pairs)
    return [clean(each) for each in (*told, *_mix_sentences(study))]


def definitions() -> list[tuple[str, str]]:
    low, high = f"{1 / (1 + MARGIN):.3f}", f"{1 + MARGIN:.2f}"
    return [
        (
            "Ratio",
            "throughput of the machine over the reference's, the first one named. One for each case; ratios are never "
            "averaged over cases.",
        ),
        (
            "Interval",
            "95 %, from launches: Welch's t on logarithms under 10 launches of a side, from there a bootstrap of "
            f"launches. Of sums and costs: {DRAWS:,} draws of whole launches, each carried through the "
            "formula, so that a launch's throughput and energy stay together.",
        ),
        (
            "Verdict",
            f"“Faster”: the whole interval of the ratio is above {high}. “Slower”: below {low}. “The same”: between "
            "the two. “Not resolved”: the interval holds more than one of these.",
        ),
        (
            "Matching",
            "cases match where workload, framework, strategy, devices and kind of scaling are the same. Where "
            "precision, batch or anything else of the work differs, the pair is marked. Models with other parameters, "
            "and CPU shares with GPUs, are not compared.",
        ),
        ("Energy", "of the devices, over the timed rounds, unless the prices state the power of a whole machine."),
        ("Dash", "not measured, or not given. It is never zero."),
    ]


def pair_word(pair: Pair) -> str:
    """The verdict for a cell: 'faster', 'faster, other work'."""
    marked = ", other work" if pair.unlike and pair.kind not in ("refused", "no_number") else ""
    return WORDS[pair.kind] + marked


def pair_reason(pair: Pair) -> str:
    unlike = f"the work differs in {', '.join(pair.unlike)}" if pair.unlike and pair.kind != "refused" else ""
    return clean("; ".join(part for part in (unlike, pair.reason) if part))


@dataclass(frozen=True)
class FactorRow:
    """A factor with the sides' values, and the cases in which it differs: all of them, or which."""

    side: Side
    factor: Factor
    cases: str


def factor_rows(study: Study) -> list[FactorRow]:
    pairs = study.comparison.pairs
    found: dict[tuple[str, Factor], list[Pair]] = {}
    for pair in pairs:
        for factor in pair.factors:
            found.setdefault((pair.side.name, factor), []).append(pair)
    kinds = ("work", "machine", "software", "condition")
    rows = []
    for (name, factor), members in sorted(found.items(), key=lambda item: kinds.index(item[0][1].kind)):
        whole = len(members) == sum(pair.side.name == name for pair in pairs)
        cases = "all" if whole else ", ".join(clean(pair.reference.case.id) for pair in members)
        rows.append(FactorRow(members[0].side, factor, cases))
    return rows


def price_inputs(name: str, price: Price) -> list[tuple[str, str]]:
    """What the buyer gave, with units, for the appendix."""
    currency, rows = price.currency, [("devices that the price is for", str(price.devices))]
    if price.purchase is not None:
        bought = price.purchase
        rows += [
            ("capital cost", f"{bought.capital_cost:,.2f} {currency}"),
            ("lifetime", f"{bought.lifetime_hours:,.0f} h"),
            ("utilization, as stated", f"{100 * bought.utilization:g} %"),
            ("power tariff", f"{bought.tariff_per_kwh:g} {currency}/kWh"),
            ("PUE", f"{bought.pue:g}"),
        ]
    if price.rent_per_hour is not None:
        rows.append(("price per hour", f"{price.rent_per_hour:,.10g} {currency}/h"))
    if price.power_watts is not None:
        rows.append(("power, stated and not measured", f"{price.power_watts:,.0f} W"))
    return rows


def _side_by_side(reference: Side, side: Side, pairs: Sequence[Pair]) -> Iterator[str]:
    if not pairs:
        yield f"{side.name} has no case in common with {reference.name}."
    same = [pair for pair in pairs if not pair.unlike]
    unlike = [pair for pair in pairs if pair.unlike]
    if same:
        yield f"{side.name} against {reference.name}: {'; '.join(_counted(same, len(same)))}."
    if unlike:
        names = ", ".join(sorted({name for pair in unlike for name in pair.unlike}))
        where = f"In {_cases(len(unlike))} the work differs too ({names}), so it is not only the machine"
        yield f"{where}: {side.name} is {'; '.join(_counted(unlike, len(unlike)))}."


def _counted(pairs: Sequence[Pair], total: int) -> Iterator[str]:
    """'faster in 3 of 4 cases (1.21 to 1.92 times)', the clearest first."""
    for kind, word in WORDS.items():
        mine = [pair for pair in pairs if pair.kind == kind]
        if not mine:
            continue
        ratios = sorted(pair.ratio for pair in mine if pair.ratio is not None)
        ends = list(dict.fromkeys(map(figure, (ratios[0], ratios[-1])))) if ratios else []
        spread = f"{' to '.join(ends)} times" if ends else ""
        if len(ratios) == 1:
            spread = f"{with_interval(ratios[0], mine[0].interval)} times"
        everywhere = {1: "the one case", 2: "both cases"}.get(total, f"all {total} cases")
        where = everywhere if len(mine) == total else f"{len(mine)} of {total} cases"
        yield f"{word} in {where}" + (f" ({spread})" if spread else "")


def _mix_sentences(study: Study) -> Iterator[str]:
    for total in study.totals:
        if total.hours.value is None:
            yield f"The mix cannot be added up on {total.side.name}: {total.hours.reason}."
    known = [total for total in study.totals if total.hours.value is not None]
    reference = study.comparison.reference.name
    for ratio in study.ratios:
        if ratio.ratio.value is not None:
            yield (
                f"A month of the mix takes {ratio.side.name} {estimate(ratio.ratio)} times as long as {reference}: "
                f"{WORDS[ratio.kind]}."
            )
    for total in known:
        if total.machines.value != 1:
            yield f"The mix takes {estimate(total.machines)} of {total.side.name}: a month has {HOURS_PER_MONTH} hours."
        if total.contradicts:
            yield use_contradiction(total)
    for total in known:
        for way, paid in (("bought", total.bought), ("rented", total.rented)):
            if study.prices and paid.value is None and not paid.reason.startswith("there is no price"):
                yield f"What the mix costs on {total.side.name} {way} is not known: {paid.reason}."
    yield from map(break_even_sentence, (each for each in study.break_evens if each.months))


def use_contradiction(total: Total) -> str:
    """That the use stated in the prices is not the one of the mix, and which figure counts which."""
    name, way = total.side.name, "less" if (total.use.value or 0.0) < (total.stated_use or 0.0) else "more"
    return (
        f"The prices state that {name} trains {percent(total.stated_use)} of its lifetime; the mix keeps it busy "
        f"{percent(total.use.value)}, which is {way}. What the mix costs counts the mix's own hours; "
        "what a case costs counts the stated use."
    )


def break_even_sentence(each: BreakEven) -> str:
    """Whether buying for the mix pays itself back."""
    assert each.months is not None
    what = f"Buying {each.bought.name} for the mix rather than renting {each.rented.name}"
    months, life = f"{estimate(each.months)} months", f"its lifetime of {span(each.lifetime_hours / HOURS_PER_MONTH)}"
    told = {
        "within": f"{what} pays after {months}, within {life}.",
        "later": f"{what} does not pay within {life}: it would take {months}.",
        "never": f"{what} never pays: the rent is less than the electricity.",
        "not_resolved": f"{what} pays after about {months}; whether that is within {life} is not resolved.",
        "no_number": f"{what} cannot be judged: {each.months.reason}.",
    }
    return told[each.pays]


def _cases(n: int) -> str:
    return "1 case" if n == 1 else f"{n} cases"
