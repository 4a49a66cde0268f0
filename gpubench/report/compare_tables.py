"""A comparison for the terminal and for machines; the columns are defined once, the page uses them too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpubench.analysis.draws import Estimate, combined
from gpubench.analysis.stats import Interval
from gpubench.analysis.study import BreakEven, Row, Study
from gpubench.report import compare_summary
from gpubench.report.compare_summary import headline, measured
from gpubench.report.compare_words import details, estimate, factor_rows, pair_reason, pair_word, with_interval
from gpubench.report.grid import Grid
from gpubench.report.units import Scale, joules, money_estimate, per_samples, percent, ranged, scale_of, span
from gpubench.report.words import DASH, clean, figure, fixed, title

if TYPE_CHECKING:
    from rich.console import RenderableType

Value = str | int | float | None
Group = tuple[Row, ...]
Cell = Callable[[Row, Group], str]


@dataclass(frozen=True)
class Column:
    """A column as people read it. `text` gives a cell; a column of dashes only is left out.

    `short` is the cell in a terminal, where there is no room for every interval.
    """

    name: str
    text: Cell
    short: Cell
    unit: str = ""
    is_number: bool = True


def _plain(name: str, text: Callable[[Row], str], short: Callable[[Row], str], is_number: bool = True) -> Column:
    return Column(name, lambda row, group: text(row), lambda row, group: short(row), is_number=is_number)


def _cost(name: str, get: Callable[[Row], Estimate], unit: str) -> Column:
    """For as many samples as make it 1 or more on every machine and either way: the same within a case."""

    def scale(group: Group) -> Scale:
        return scale_of(each for row in group for each in (row.bought_per_million, row.rented_per_million))

    return Column(
        name,
        lambda row, group: per_samples(get(row), scale(group)),
        lambda row, group: per_samples(Estimate(get(row).value), scale(group)),
        unit,
    )


def _ratio(row: Row) -> str:
    return with_interval(row.pair.ratio, row.pair.interval) if row.pair else DASH


def _verdict(row: Row) -> str:
    return pair_word(row.pair) if row.pair else "reference"


def _throughput(row: Row) -> str:
    return with_interval(row.summary.samples_per_second, row.summary.samples_per_second_interval)


def _efficiency(row: Row) -> str:
    return DASH if row.summary.is_baseline else fixed(row.summary.scaling_efficiency)  # a baseline's is 1 by definition


COLUMNS = (
    _plain("samples/s", _throughput, lambda row: figure(row.summary.samples_per_second)),
    _plain("ratio", _ratio, _ratio),
    _plain("verdict", _verdict, _verdict, is_number=False),
    _plain("scaling efficiency", _efficiency, _efficiency),
    _plain(
        "energy a sample",
        lambda row: joules(row.joules_per_sample),
        lambda row: joules(Estimate(row.joules_per_sample.value)),
    ),
    _plain(
        "samples per joule",
        lambda row: estimate(row.samples_per_joule),
        lambda row: figure(row.samples_per_joule.value),
    ),
    _cost("bought", lambda row: row.bought_per_million, "CURRENCY at stated use"),
    _cost("rented", lambda row: row.rented_per_million, "CURRENCY"),
)


# A terminal has room for one kind of figure at a time.
SPEED = ("samples/s", "ratio", "verdict", "scaling efficiency")
PRICE = ("energy a sample", "samples per joule", "bought", "rented")


def shown(study: Study) -> list[Column]:
    cells = [(row, group) for group in study.groups for row in group]
    return [column for column in COLUMNS if {column.text(*cell) for cell in cells} != {DASH}]


def unit(column: Column, study: Study) -> str:
    return column.unit.replace("CURRENCY", study.currency)


def rows(study: Study) -> list[dict[str, Value]]:
    """One dict a case and side, unrounded, units in the names; None is not measured."""
    return [_row(group[0], row, study.currency or None) for group in study.groups for row in group]


def as_dict(study: Study) -> dict[str, Any]:
    """Everything that the page shows, for JSON."""
    return {
        "reference": study.comparison.reference.name,
        "sides": [side.name for side in study.comparison.sides],
        "measured_on": title(study.summaries),
        "verdict": headline(study),
        "details": details(study),
        "sides_measured": {side.name: measured(side) for side in study.comparison.sides},
        "cases": rows(study),
        "factors": [
            {"side": r.side.name, "kind": r.factor.kind, "factor": r.factor.name, "reference": r.factor.reference}
            | {"other": r.factor.other, "cases": r.cases}
            for r in factor_rows(study)
        ],
        "unmatched": [
            {"side": each.side.name, "case": each.summary.case.id, "reason": each.reason}
            for each in study.comparison.unmatched
        ],
        "mix": [
            {"side": total.side.name}
            | _ranged("hours_per_month", total.hours)
            | _ranged("machines_needed", total.machines)
            | _ranged("use_of_machines", total.use)
            | {"stated_use": total.stated_use}
            | _ranged("kilowatt_hours_per_month", total.kilowatt_hours)
            | _ranged("cost_per_month_bought", total.bought)
            | _ranged("cost_per_month_rented", total.rented)
            | _ranged("cost_over_lifetime_bought", over_lifetime(study, total.bought))
            | _ranged("cost_over_lifetime_rented", over_lifetime(study, total.rented))
            | {"lifetime_months": study.lifetime_months, "reason": total.hours.reason}
            for total in study.totals
        ],
        "mix_ratios": [
            {"side": each.side.name, "verdict": each.kind} | _ranged("hours_ratio", each.ratio) for each in study.ratios
        ],
        "break_even": [_break_even(each) for each in study.break_evens],
        "currency": study.currency or None,
    }


def to_rich(study: Study) -> RenderableType:
    """The cases, what differs, what has no counterpart, the mix; and at the end, where a terminal is read, the sum."""
    from rich.console import Group as Stack
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(title(study.summaries), style="bold"),
        *_cases(study, SPEED),
        *_cases(study, PRICE),
    ]
    reasons = [(row, pair_reason(row.pair)) for group in study.groups for row in group if row.pair]
    parts += [
        Text(clean(f"{row.side.name}, {row.summary.case.id}: {told}"), style="dim") for row, told in reasons if told
    ]
    if found := factor_rows(study):
        factors = [
            (r.factor.kind, r.factor.name, r.factor.reference, f"{r.side.name}: {r.factor.other}", r.cases)
            for r in found
        ]
        heads = ("what differs", "", clean(study.comparison.reference.name), "other", "in cases")
        parts += [Text(), _table(heads, factors)]
    for each in study.comparison.unmatched:
        parts.append(Text(clean(f"{each.side.name}, {each.summary.case.id}: {each.reason}"), style="dim"))
    if study.totals:
        parts += [Text(), _table(*mix_table(study), numbers=True)]
    parts += [Text(), *(Text(each) for each in details(study))]
    parts += [Text(), _table(*compare_summary.summary(study)), Text(headline(study), style="bold")]
    return Stack(*parts)


def mix_table(study: Study) -> tuple[list[str], list[list[str]]]:
    """Heads and cells of the mix's totals, a machine a column; rows without a figure are left out."""
    ratios = {each.side.name: each.ratio for each in study.ratios}
    months = study.lifetime_months
    life = f"over {span(months)}" if months else ""
    currency = study.currency
    rows: Mapping[str, list[str]] = {
        "hours": [estimate(total.hours) for total in study.totals],
        "hours, times the first": [
            estimate(ratios[t.side.name]) if t.side.name in ratios else DASH for t in study.totals
        ],
        "machines needed": [ranged(total.machines, lambda value: fixed(value, 0)) for total in study.totals],
        "share of their time in use": [percent(total.use.value) for total in study.totals],
        "the same, as the prices state it": [percent(total.stated_use) for total in study.totals],
        "energy, kWh": [estimate(total.kilowatt_hours) for total in study.totals],
        f"bought, {currency}": [money_estimate(total.bought) for total in study.totals],
        f"rented, {currency}": [money_estimate(total.rented) for total in study.totals],
        f"bought, {currency} {life}": [money_estimate(over_lifetime(study, t.bought)) for t in study.totals],
        f"rented, {currency} {life}": [money_estimate(over_lifetime(study, t.rented)) for t in study.totals],
    }
    known = [[head, *cells] for head, cells in rows.items() if set(cells) != {DASH}]
    return ["a month of the mix", *(clean(total.side.name) for total in study.totals)], known


def over_lifetime(study: Study, monthly: Estimate) -> Estimate:
    """A cost a month over the longest lifetime that the prices state, the same for all sides."""
    months = study.lifetime_months
    if months is None:
        return Estimate(None, reason="no machine has a price to buy it, and so no lifetime")
    return combined(lambda each: each * months, monthly)


def _cases(study: Study, names: Sequence[str]) -> list[RenderableType]:
    """A table of the columns that are named; none where they hold nothing."""
    columns = [column for column in shown(study) if column.name in names]
    if not columns:
        return []
    heads = ["case, machine", *("\n".join([*column.name.split(), unit(column, study)]).strip() for column in columns)]
    cells: list[list[str]] = []
    for group in study.groups:
        cells.append([group[0].summary.case.id, *([""] * len(columns))])
        cells += [[f"  {row.side.name}", *(column.short(row, group) for column in columns)] for row in group]
    return [_table(heads, cells, numbers=True)]


def _table(heads: Sequence[str], cells: Sequence[Sequence[str]], numbers: bool = False) -> Grid:
    are_numbers = [numbers and index > 0 and head != "verdict" for index, head in enumerate(heads)]
    return Grid(heads, [[clean(cell) for cell in row] for row in cells], are_numbers)


def _row(reference: Row, row: Row, currency: str | None) -> dict[str, Value]:
    summary, pair = row.summary, row.pair
    return {
        "case": summary.case.id,
        "reference_case": reference.summary.case.id,
        "side": row.side.name,
        "device_kind": summary.case.device_kind,
        "samples_per_second": summary.samples_per_second,
        "samples_per_second_low": _low(summary.samples_per_second_interval),
        "samples_per_second_high": _high(summary.samples_per_second_interval),
        "ratio": pair.ratio if pair else None,
        "ratio_low": _low(pair.interval) if pair else None,
        "ratio_high": _high(pair.interval) if pair else None,
        "verdict": pair.kind if pair else "reference",
        "unlike": ", ".join(pair.unlike) if pair else "",
        "reason": pair.reason if pair else "",
        "launches": len(summary.launches),
        "verification": row.side.verification(summary),
        "scaling_efficiency": summary.scaling_efficiency,
        **_ranged("joules_per_sample", row.joules_per_sample),
        **_ranged("samples_per_joule", row.samples_per_joule),
        **_ranged("cost_per_million_samples_bought", row.bought_per_million),
        **_ranged("cost_per_million_samples_rented", row.rented_per_million),
        "currency": currency,
    }


def _break_even(each: BreakEven) -> dict[str, Value]:
    figures = {"samples": each.samples, "hours_of_use": each.hours, "months_of_the_mix": each.months}
    known = {name: value for name, value in figures.items() if value is not None}
    row: dict[str, Value] = {"bought": each.bought.name, "rented": each.rented.name}
    row["case"] = each.summary.case.id if each.summary else None
    for name, value in known.items():
        row |= _ranged(name, value)
    row["reason"] = "; ".join(dict.fromkeys(value.reason for value in known.values() if value.reason))
    return row | {"pays": each.pays, "lifetime_hours": each.lifetime_hours, "use_hours_in_lifetime": each.use_hours}


def _ranged(name: str, each: Estimate) -> dict[str, Value]:
    interval = each.interval
    return {name: each.value, f"{name}_low": _low(interval), f"{name}_high": _high(interval)}


def _low(interval: Interval | None) -> float | None:
    return None if interval is None else interval.low


def _high(interval: Interval | None) -> float | None:
    return None if interval is None else interval.high
