"""What stands beside a number, or in its place: launches lost, doubts, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence

from gpubench.analysis.scaling import CaseSummary
from gpubench.report.words import clean, lost_launches


def note_names(summary: CaseSummary) -> list[str]:
    """The notes in a word or two each, for a cell."""
    lost = lost_launches(summary)
    doubts = [check.name.replace("_", " ") for check in summary.checks if check.severity != "note"]
    baseline = ["baseline has no number"] if _lacks_baseline(summary) else []
    return [clean(note) for note in ([lost] if lost else []) + doubts + baseline]


def notes(summary: CaseSummary) -> list[str]:
    """The notes in full: what happened, and what to do about it."""
    outcomes = {
        (lost.outcome.status.replace("_", " "), lost.outcome.message, lost.outcome.remedy) for lost in summary.lost
    }
    told = [_sentence(*outcome) for outcome in sorted(outcomes)]
    told += [_sentence(check.name.replace("_", " "), check.message, check.remedy) for check in summary.checks]
    if _lacks_baseline(summary):
        told.append("no speed-up: `single` on one device, its baseline, has no number here")
    return [clean(note) for note in told]


def footnotes(summaries: Sequence[CaseSummary]) -> list[str]:
    """Every note in full, with the cases that it is about."""
    cases: dict[str, list[str]] = {}
    for summary in summaries:
        for note in notes(summary):
            cases.setdefault(note, []).append(clean(summary.case.id))
    return [f"{', '.join(ids)}: {note}" for note, ids in cases.items()]


def _lacks_baseline(summary: CaseSummary) -> bool:
    return summary.samples_per_second is not None and summary.speedup is None


def _sentence(what: str, message: str, remedy: str) -> str:
    told = f"{what}: {message}" if message else what
    return f"{told}. To do: {remedy}" if remedy else told
