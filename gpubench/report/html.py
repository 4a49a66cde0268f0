"""The report as one HTML file: verdict first, then tables, plots, traces, doubts, failures, and the environment.

The page loads nothing and sends nothing; its policy forbids both, and lets no script run but the page's own, known by
its hash. Everything that comes from a record is escaped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Protocol

from gpubench import __version__
from gpubench.analysis.reduced import MOST_TRACES, Reduced
from gpubench.analysis.sampling import sampler_effect
from gpubench.analysis.scaling import CaseSummary, LostLaunch, machine_labels, summarize_runs
from gpubench.analysis.verdict import verdicts
from gpubench.report import gpus, page, plots, sentences
from gpubench.report.columns import Column, by_machine, shown
from gpubench.report.notes import note_names
from gpubench.report.trace import Trace, trace, why_not
from gpubench.report.words import clean, title
from gpubench.spec.case import Case
from gpubench.spec.identity import Identity, cpu_limit
from gpubench.spec.record import Check, Machine, Outcome, RunRecord
from gpubench.spec.verification import Verification

MOST_KINDS = 20  # of lost launches of a case that are told of one by one; the table has how many there are
MOST_LAUNCHES = 10  # that are named by their numbers


class Run(Protocol):
    """A saved run, as far as a report needs it."""

    @property
    def name(self) -> str: ...
    @property
    def records(self) -> Sequence[RunRecord | Reduced]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def verifications(self) -> list[Verification]: ...


@dataclass(frozen=True)
class Plot:
    caption: str
    data_uri: str
    cases: set[int]  # what each of its summaries is known by (`id`)


@dataclass(frozen=True)
class Doubt:
    """One kind of doubt, with the cases that it is about and what was found there."""

    check: Check
    cases: list[tuple[CaseSummary, str]]


@dataclass(frozen=True)
class Lost:
    """Launches of one case that were lost in one way, with the end of the first one's log; `which` names them."""

    case: Case
    which: str
    outcome: Outcome
    log_tail: list[str]


@dataclass(frozen=True)
class Section:
    """What one machine measured on one kind of device; GPUs and CPU shares never share a table or a plot."""

    machine: str
    title: str
    on_cpu: bool
    summaries: list[CaseSummary]
    verdicts: list[sentences.Finding]
    losses: str
    columns: list[Column]
    folded: str
    plots: list[Plot]
    traces: list[tuple[CaseSummary, Trace]]
    marks: set[str]
    missing: dict[str, str]
    untraced: dict[str, list[CaseSummary]]
    sampling: str
    doubts: list[Doubt]
    lost: list[Lost]


@dataclass(frozen=True)
class Setting:
    """A machine with the software that ran on it."""

    label: str
    machine: Machine
    cpu_limit: str
    gpus: gpus.Gpus | None
    software: dict[str, list[str]]
    variables: dict[str, list[str]]


def write_html(runs: Sequence[Run], output: Path, summaries: Sequence[CaseSummary] | None = None) -> None:
    """Write the report of `runs` to `output`; the file appears whole or not at all.

    `summaries` are what `summarize_runs` made of these runs, where the caller draws plots of them as well.
    """
    page.write_atomically(output, render(runs, summaries))


def render(runs: Sequence[Run], summaries: Sequence[CaseSummary] | None = None) -> str:
    """The report of `runs` as HTML text."""
    summaries = summarize_runs(runs) if summaries is None else summaries
    script, style = page.asset("script.js"), page.asset("style.css")
    parts = by_machine(summaries)
    titles = [title(part, summaries) for part in parts]
    figures = _plots(summaries, {id(one): told for part, told in zip(parts, titles, strict=True) for one in part})
    traces = _traces(summaries)
    return (
        page.environment()
        .get_template("template.html")
        .render(
            note_names=note_names,
            policy=page.policy(style, script),
            runs=runs,
            definitions=sentences.DEFINITIONS,
            made_at=_minute(datetime.now(UTC)),
            marks=sentences.MARKS,
            undrawn=len(plots.figures_of(summaries)) - len(figures),
            measured=_measured,
            script=script,
            sections=[_section(*each, figures, traces) for each in zip(parts, titles, strict=True)],
            settings=_settings([record for summary in summaries for record in summary.records]),
            style=style,
            version=__version__,
        )
    )


def _measured(records: Sequence[RunRecord | Reduced]) -> str:
    """When the first and the last launch started: '2026-11-30 22:10 UTC to 2026-11-30 22:19 UTC'."""
    first, last = records[0].started_at, records[-1].started_at
    try:
        told = [_minute(datetime.fromisoformat(text).astimezone(UTC)) for text in (first, last)]
    except (ValueError, OverflowError):  # in a file from elsewhere it need not be a time
        told = [first, last]
    return " to ".join(dict.fromkeys(told))


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _section(
    summaries: list[CaseSummary], measured_on: str, figures: Sequence[Plot], traces: Mapping[int, Trace]
) -> Section:
    columns, folded = shown(summaries)
    cases = {id(summary) for summary in summaries}
    drawn = [(summary, traces[id(summary)]) for summary in summaries if id(summary) in traces]
    return Section(
        machine=summaries[0].machine_label,
        title=measured_on,
        on_cpu=summaries[0].case.device_kind == "cpu",
        summaries=summaries,
        verdicts=sentences.findings(verdicts(summaries)),
        losses=sentences.losses(summaries),
        columns=columns,
        folded=folded,
        plots=[plot for plot in figures if plot.cases <= cases],
        traces=drawn,
        marks={kind for _, each in drawn for kind in each.marks},
        missing={title: reason for _, each in drawn for title, reason in each.missing.items()},
        untraced=_untraced([summary for summary in summaries if id(summary) not in traces], len(traces)),
        sampling=sentences.sampling(sampler_effect([record for summary in summaries for record in summary.records])),
        doubts=_doubts(summaries),
        lost=[lost for summary in summaries for lost in _lost(summary)],
    )


def _lost(summary: CaseSummary) -> list[Lost]:
    """By what became of them, in the order of the first launch of each kind."""
    kinds: dict[object, list[LostLaunch]] = {}
    for lost in summary.lost:
        ended = lost.outcome
        kinds.setdefault((ended.status, ended.phase, ended.rank, ended.message, ended.remedy), []).append(lost)
    return [
        Lost(
            case=summary.case,
            which=_launches([lost.launch for lost in alike]),
            outcome=alike[0].outcome,
            log_tail=alike[0].whole().outcome.log_tail,
        )
        for alike in islice(kinds.values(), MOST_KINDS)
    ]


def _launches(numbers: Sequence[int]) -> str:
    """'launch 3', or 'launches 1, 2, 4 and 20 more'."""
    told = ", ".join(map(str, numbers[:MOST_LAUNCHES]))
    more = f" and {len(numbers) - MOST_LAUNCHES} more" if len(numbers) > MOST_LAUNCHES else ""
    return f"launch{'es' if len(numbers) > 1 else ''} {told}{more}"


def _plots(summaries: Sequence[CaseSummary], measured_on: Mapping[int, str]) -> list[Plot]:
    return [_plot(members, measured_on[id(members[0])]) for members in plots.drawn_of(summaries).values()]


def _plot(summaries: Sequence[CaseSummary], measured_on: str) -> Plot:
    case = summaries[0].case
    caption = f"{clean(case.workload)}, {clean(case.precision)}, {case.scaling} scaling. {measured_on}"
    drawn = page.data_uri(plots.svg(plots.scaling_figure(summaries, measured_on)))
    return Plot(caption, drawn, {id(summary) for summary in summaries})


def _traces(summaries: Sequence[CaseSummary]) -> dict[int, Trace]:
    """By the summary's `id`, as many as a page has room for."""
    made = ((id(summary), _trace(summary)) for summary in summaries)
    return dict(islice(((key, drawn) for key, drawn in made if drawn is not None), MOST_TRACES))


def _trace(summary: CaseSummary) -> Trace | None:
    """Of the first launch that was sampled."""
    drawn = (trace(record.whole()) for record in summary.records if record.may_have_trace)
    return next((made for made in drawn if made is not None), None)


def _untraced(summaries: Sequence[CaseSummary], n_drawn: int) -> dict[str, list[CaseSummary]]:
    """By reason, the cases that were timed and have no trace, where the page has `n_drawn`."""
    found: dict[str, list[CaseSummary]] = {}
    for summary in summaries:
        timed = next((record for record in summary.records if record.timed), None)
        if timed is not None:
            is_one_too_many = n_drawn >= MOST_TRACES and any(record.may_have_trace for record in summary.records)
            reason = f"the page has those of {MOST_TRACES} others" if is_one_too_many else why_not(timed.whole())
            found.setdefault(reason, []).append(summary)
    return found


def _doubts(summaries: Sequence[CaseSummary]) -> list[Doubt]:
    found: dict[str, Doubt] = {}
    for summary in summaries:
        for check in summary.checks:
            found.setdefault(check.name, Doubt(check, [])).cases.append((summary, check.message))
    return sorted(found.values(), key=lambda doubt: ("severe", "warning", "note").index(doubt.check.severity))


def _settings(records: Sequence[Reduced]) -> list[Setting]:
    """One for each machine."""
    settings = []
    by_time = sorted(records, key=lambda record: record.started_at)
    of_machine: dict[Identity, list[Reduced]] = defaultdict(list)
    for record in by_time:
        of_machine[record.identity].append(record)
    for known, name in machine_labels(records).items():
        here = of_machine[known]
        software = _gathered([record.software for record in here])
        with_system = next((record for record in reversed(here) if record.has_system), None)
        system = with_system.whole().telemetry.system if with_system else None
        variables = _gathered([record.environment for record in here])
        machine, seen = here[-1].machine, gpus.told(system) if system else None
        settings.append(Setting(name, machine, cpu_limit(machine), seen, software, variables))
    return settings


def _gathered(maps: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    maps = list({id(each): each for each in maps}.values())  # records that were reduced share them
    names = sorted({name for each in maps for name in each})
    return {name: list(dict.fromkeys(each[name] for each in maps if name in each)) for name in names}
