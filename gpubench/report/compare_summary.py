"""What a comparison comes to, for someone who reads one table and one sentence: each machine in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpubench.analysis.compare import Pair, Side
from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.mix import Total
from gpubench.analysis.study import Study
from gpubench.report.compare_words import WORDS, estimate, with_interval
from gpubench.report.units import joules, money, money_estimate
from gpubench.report.words import DASH, clean, figure

SIDES_NAMED = 4  # in the sentence; the table has them all


@dataclass(frozen=True)
class Offer:
    """One way to have the mix done: on which side, bought or rented, at what cost a month."""

    side: str
    way: str
    cost: Estimate

    def __str__(self) -> str:
        return f"{self.side} {self.way}"


def offers(study: Study) -> list[Offer]:
    """All ways whose cost is known, the cheapest first."""
    found = [
        Offer(total.side.name, way, cost)
        for total in study.totals
        for way, cost in (("bought", total.bought), ("rented", total.rented))
        if cost.value is not None
    ]
    return sorted(found, key=lambda offer: offer.cost.value or 0.0)


def measured(side: Side) -> str:
    """The day of the side's first launch, and of its last where that is another: '2026-05-01 to 2026-05-03'."""
    days = sorted({record.started_at[:10] for summary in side.summaries for record in summary.records})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else DASH


def summary(study: Study) -> tuple[list[str], list[list[str]]]:
    """Heads and cells: machine, speed, cost, energy, verdict, when it was measured; what nobody has is left out."""
    totals = {total.side.name: total for total in study.totals}
    columns: dict[str, list[str]] = {
        name: [] for name in ("machine", "times as fast", "cost", "energy", "verdict", "measured")
    }
    found = offers(study)
    best = {offer.side: offer for offer in reversed(found)}  # the cheapest of a side comes last, and stays
    for side in study.comparison.sides:
        pairs = [pair for pair in study.comparison.pairs if pair.side is side]
        total, offer = totals.get(side.name), best.get(side.name)
        is_reference = side is study.comparison.reference
        columns["machine"].append(clean(side.name))
        columns["measured"].append(clean(measured(side)))
        columns["times as fast"].append("reference" if is_reference else _speed(study, total, pairs))
        columns["cost"].append(f"{money_estimate(offer.cost)} {offer.way}" if offer else DASH)
        columns["energy"].append(_energy(study, side, total))
        words = [] if is_reference else [_word(study, total, pairs)]
        words += [_least(found)] if found and found[0].side == side.name else []
        columns["verdict"].append("; ".join(words) or DASH)
    month = " a month" if study.totals else ""
    named = {
        "machine": "machine",
        "times as fast": f"times as fast{' at the mix' if study.totals else ''}",
        "cost": f"{study.currency}{month}, the cheaper way",
        "energy": f"energy{month}" if study.totals else "energy a sample",
        "verdict": "verdict",
        "measured": "measured",
    }
    known = {name: columns[name] for name in named if set(columns[name]) != {DASH}}
    return [named[name] for name in known], [list(cells) for cells in zip(*known.values(), strict=True)]


def headline(study: Study) -> str:
    """The one sentence: which is the cheapest for the mix, or the fastest, and whether that is resolved."""
    found = offers(study)
    if found:
        return clean(_cheapest(study, found))
    reference, others = study.comparison.reference, study.comparison.sides[1:]
    told = []
    for side in others[:SIDES_NAMED]:
        pairs = [pair for pair in study.comparison.pairs if pair.side is side]
        total = next((total for total in study.totals if total.side.name == side.name), None)
        what = "at the mix" if study.totals else f"in {_cases(len(pairs))}"
        told.append(f"{side.name} against {reference.name} {what}: {_word(study, total, pairs)}")
    told += [f"and {len(others) - SIDES_NAMED} more, in the table"] if len(others) > SIDES_NAMED else []
    return clean(f"{'; '.join(told)}.")


def _cheapest(study: Study, found: Sequence[Offer]) -> str:
    first, *rest = found
    told = f"The mix costs least on {first}: {money(first.cost.value)} {study.currency} a month"
    if not rest:
        return f"{told}; there is no other cost to compare it with."
    next_cost = f"{rest[0]} with {money(rest[0].cost.value)} {study.currency}"
    if _is_clear(first.cost, rest[0].cost):
        return f"{told}, less than the next, {next_cost}."
    return f"{told}, but the runs do not resolve it from the next, {next_cost}."


def _least(found: Sequence[Offer]) -> str:
    """The word for the cheapest of all."""
    if len(found) == 1:
        return "the only one with a cost"
    return "costs least" if _is_clear(found[0].cost, found[1].cost) else "costs least, not resolved"


def _is_clear(least: Estimate, following: Estimate) -> bool:
    """Whether the whole interval of the ratio says that it is less."""
    if not following.value:
        return False
    interval = combined(lambda mine, other: mine / other, least, following).interval
    return interval is not None and interval.high < 1


def _speed(study: Study, total: Total | None, pairs: Sequence[Pair]) -> str:
    """Of the mix where there is one, else of the one case, or the range over the cases."""
    if total is not None:
        faster = combined(lambda mine, first: first / mine, total.hours, study.totals[0].hours)
        return with_interval(faster.value, faster.interval)
    ratios = sorted((pair for pair in pairs if pair.ratio is not None), key=lambda pair: pair.ratio or 0.0)
    if not ratios:
        return DASH
    if len(ratios) == 1:
        return with_interval(ratios[0].ratio, ratios[0].interval)
    return " to ".join(dict.fromkeys((figure(ratios[0].ratio), figure(ratios[-1].ratio))))


def _word(study: Study, total: Total | None, pairs: Sequence[Pair]) -> str:
    """The verdict on a side: of the mix, or of its cases, all of them or how many."""
    if total is not None:
        kind = next(ratio.kind for ratio in study.ratios if ratio.side.name == total.side.name)
        return WORDS[kind] + _other_work(pairs)
    return ", ".join(_counted(pairs)) + _other_work(pairs) if pairs else "no case in common"


def _counted(pairs: Sequence[Pair]) -> Iterator[str]:
    for kind, word in WORDS.items():
        mine = sum(pair.kind == kind for pair in pairs)
        if mine:
            yield word if mine == len(pairs) else f"{word} in {mine} of {len(pairs)}"


def _other_work(pairs: Sequence[Pair]) -> str:
    names = sorted({name for pair in pairs for name in pair.unlike})
    return f", at other work ({', '.join(names)})" if names else ""


def _energy(study: Study, side: Side, total: Total | None) -> str:
    if total is not None:
        return DASH if total.kilowatt_hours.value is None else f"{estimate(total.kilowatt_hours)} kWh"
    rows = [row for group in study.groups for row in group if row.side.name == side.name]
    return joules(rows[0].joules_per_sample) if len(rows) == 1 else DASH


def _cases(count: int) -> str:
    return {1: "the one case", 2: "both cases"}.get(count, f"all {count} cases")
