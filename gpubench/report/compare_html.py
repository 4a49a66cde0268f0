"""The comparison as one HTML page to bring to a meeting: a short table and one sentence, plots, cases, what differs,
caveats; and in the appendix every input and formula. It loads nothing, runs no script, and prints on paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from gpubench import __version__
from gpubench.analysis.mix import HOURS_PER_MONTH
from gpubench.analysis.reduced import Reduced
from gpubench.analysis.study import BreakEven, Study
from gpubench.report import compare_caveats, compare_plots, compare_summary, compare_tables, compare_words, page, plots
from gpubench.report.compare_words import Source
from gpubench.report.words import clean, figure, title


def write_html(study: Study, sources: Mapping[str, Source], output: Path) -> None:
    page.write_atomically(output, render(study, sources))


def render(study: Study, sources: Mapping[str, Source]) -> str:
    """`sources` has every side, by its name."""
    style = page.asset("style.css", "compare.css")
    mix_heads, mix_cells = compare_tables.mix_table(study) if study.totals else ([], [])
    return (
        page.environment()
        .get_template("compare.html")
        .render(
            break_evens_of_cases=[_break_even(each) for each in study.break_evens if each.summary],
            break_evens_of_mix=[_break_even(each) for each in study.break_evens if not each.summary],
            caveats=compare_caveats.caveats(study),
            columns=compare_tables.shown(study),
            count=compare_words.count,
            definitions=compare_words.definitions(),
            estimate=compare_words.estimate,
            factors=compare_words.factor_rows(study),
            formulas=compare_words.FORMULAS,
            mix_cells=mix_cells,
            mix_heads=mix_heads,
            on_cpu=any(summary.case.device_kind == "cpu" for summary in study.summaries),
            plots=_plots(study),
            policy=page.policy(style),
            price_inputs=compare_words.price_inputs,
            reason=compare_words.pair_reason,
            records={side.name: _records(study, side.name) for side in study.comparison.sides},
            sources=sources,
            study=study,
            style=style,
            title=title(study.summaries),
            unit=lambda column: compare_tables.unit(column, study),
            headline=compare_summary.headline(study),
            summary=compare_summary.summary(study),
            details=compare_words.details(study),
            made_on=f"{datetime.now().astimezone():%Y-%m-%d}",
            version=__version__,
        )
    )


def _plots(study: Study) -> list[tuple[str, str]]:
    """Each with its caption."""
    return [
        (f"{_caption(name)}. {title(study.summaries)}", page.data_uri(plots.svg(drawn)))
        for name, drawn in compare_plots.figures_of(study).items()
    ]


def _caption(name: str) -> str:
    kind, _, rest = name.partition("-")
    if kind == "ratios":
        return "Throughput of each case over the reference's"
    return f"Throughput against cost and energy, {rest.removesuffix('-gpu').removesuffix('-cpu-shares')}"


def _break_even(each: BreakEven) -> tuple[str, ...]:
    """Bought, rented, for what, from when on, and whether the machine lives to see it."""
    what = each.summary.case.id if each.summary else "the mix"
    names = (clean(each.bought.name), clean(each.rented.name), clean(what))
    if each.months is not None:
        known, reason, value = each.months.value, each.months.reason, f"{compare_words.estimate(each.months)} months"
        life, unit = each.lifetime_hours / HOURS_PER_MONTH, "months of its lifetime"
    else:
        assert each.samples is not None
        assert each.hours is not None
        known, reason = each.hours.value, each.samples.reason
        value = f"{compare_words.count(each.samples.value)} samples, {compare_words.estimate(each.hours)} hours of use"
        life, unit = each.use_hours, "hours of use in its lifetime, as stated"
    if known is None:
        return (*names, clean(reason), "")
    verdict = {
        "within": f"{figure(100 * known / life, 2)} % of the {life:,.5g} {unit}",
        "later": f"later than the {life:,.5g} {unit}: buying does not pay",
        "not_resolved": f"not resolved against the {life:,.5g} {unit}",
    }
    return (*names, value, verdict[each.pays])


def _records(study: Study, name: str) -> list[Reduced]:
    [side] = [side for side in study.comparison.sides if side.name == name]
    return [record for summary in side.summaries for record in summary.records]
