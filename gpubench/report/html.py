"""The report as one HTML file: verdict first, then tables, plots, traces, doubts, failures, and the environment.

The page loads nothing and sends nothing; its policy forbids both, and lets no script run but the page's own, known by
its hash. Everything that comes from a record is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from gpubench import __version__
from gpubench.analysis.reduced import Reduced
from gpubench.analysis.sampling import sampler_effect
from gpubench.analysis.scaling import CaseSummary, machine_labels, summarize_runs
from gpubench.analysis.verdict import verdicts
from gpubench.report import gpus, page, plots, sentences
from gpubench.report.columns import Column, by_machine, shown
from gpubench.report.notes import note_names
from gpubench.report.trace import Trace, trace, why_not
from gpubench.report.words import clean, title
from gpubench.spec.identity import cpu_limit
from gpubench.spec.record import Check, Machine, RunRecord
from gpubench.spec.verification import Verification


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


@dataclass(frozen=True)
class Doubt:
    """One kind of doubt, with the cases that it is about and what was found there."""

    check: Check
    cases: list[tuple[CaseSummary, str]]


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
    lost: list[CaseSummary]


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
            measured=_measured,
            script=script,
            sections=[_section(part, title(part, summaries)) for part in by_machine(summaries)],
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


def _section(summaries: list[CaseSummary], measured_on: str) -> Section:
    columns, folded = shown(summaries)
    figures = plots.figures_of(summaries).values()
    traces = [(summary, _trace(summary)) for summary in summaries]
    drawn = [(summary, made) for summary, made in traces if made is not None]
    return Section(
        machine=summaries[0].machine_label,
        title=measured_on,
        on_cpu=summaries[0].case.device_kind == "cpu",
        summaries=summaries,
        verdicts=sentences.findings(verdicts(summaries)),
        losses=sentences.losses(summaries),
        columns=columns,
        folded=folded,
        plots=[_plot(members, measured_on) for members in figures],
        traces=drawn,
        marks={kind for _, each in drawn for kind in each.marks},
        missing={title: reason for _, each in drawn for title, reason in each.missing.items()},
        untraced=_untraced([summary for summary, made in traces if made is None]),
        sampling=sentences.sampling(sampler_effect([record for summary in summaries for record in summary.records])),
        doubts=_doubts(summaries),
        lost=[summary for summary in summaries if summary.lost],
    )


def _plot(summaries: list[CaseSummary], measured_on: str) -> Plot:
    case = summaries[0].case
    caption = f"{clean(case.workload)}, {clean(case.precision)}, {case.scaling} scaling. {measured_on}"
    return Plot(caption, page.data_uri(plots.svg(plots.scaling_figure(summaries, measured_on))))


def _trace(summary: CaseSummary) -> Trace | None:
    """Of the first launch that was sampled."""
    drawn = (trace(record.whole()) for record in summary.records if record.may_have_trace)
    return next((made for made in drawn if made is not None), None)


def _untraced(summaries: Sequence[CaseSummary]) -> dict[str, list[CaseSummary]]:
    """By reason, the cases that were timed and have no trace."""
    found: dict[str, list[CaseSummary]] = {}
    for summary in summaries:
        timed = next((record for record in summary.records if record.timed), None)
        if timed is not None:
            found.setdefault(why_not(timed.whole()), []).append(summary)
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
    for known, name in machine_labels(records).items():
        here = [record for record in by_time if record.identity == known]
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
