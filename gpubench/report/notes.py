"""What stands beside a number, or in its place: launches lost, doubts, and what to do about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    return [str(note) for note in _notes(summary)]


def footnotes(summaries: Sequence[CaseSummary]) -> list[str]:
    """Every note in full, those of one kind together, each with the cases that it is about."""
    kinds: dict[tuple[str, str], dict[str, list[str]]] = {}
    for summary in summaries:
        for note in _notes(summary):
            kinds.setdefault((note.what, note.remedy), {}).setdefault(note.message, []).append(summary.case.id)
    told = []
    for (what, remedy), messages in kinds.items():
        told.append(f"{what}{f'. To do: {remedy}' if remedy else ''}")
        told += [f"  {', '.join(ids)}{': ' if message else ''}{message}" for message, ids in messages.items()]
    return [clean(line) for line in told]


@dataclass(frozen=True)
class _Note:
    what: str
    message: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        told = f"{self.what}: {self.message}" if self.message else self.what
        return clean(f"{told}. To do: {self.remedy}" if self.remedy else told)


def _notes(summary: CaseSummary) -> list[_Note]:
    outcomes = {
        (lost.outcome.status.replace("_", " "), lost.outcome.message, lost.outcome.remedy) for lost in summary.lost
    }
    told = [_Note(*outcome) for outcome in sorted(outcomes)]
    told += [_Note(check.name.replace("_", " "), check.message, check.remedy) for check in summary.checks]
    told += _waits(summary)
    if _lacks_baseline(summary):
        told.append(_Note("no speed-up", "`single` on one device, its baseline, has no number here"))
    return told


def _waits(summary: CaseSummary) -> list[_Note]:
    """How long the launches waited for quiet devices, and how many began quiet; nothing where none waited."""
    found = [(r.schedule.waited_for_quiet_seconds, r.schedule.quiet) for r in summary.records if r.schedule is not None]
    waits = [(seconds, quiet) for seconds, quiet in found if seconds is not None]
    if not waits:
        return []
    seconds = [each for each, _ in waits]
    counts = [
        f"{sum(quiet is value for _, quiet in waits)} {words}"
        for value, words in ((True, "began quiet"), (False, "began without quiet"), (None, "not known"))
        if any(quiet is value for _, quiet in waits)
    ]
    how_long = f"{min(seconds):.1f} to {max(seconds):.1f} s" if len(waits) > 1 else f"{seconds[0]:.1f} s"
    return [_Note("waited for quiet devices", f"{how_long} before each launch; of {len(waits)}, {', '.join(counts)}")]


def _lacks_baseline(summary: CaseSummary) -> bool:
    return summary.samples_per_second is not None and summary.speedup is None
