"""What a run was asked for and does not have: cases without a number, and intervals wider than they were to become."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpubench.analysis.precision import concerned, half_width, met
from gpubench.analysis.scaling import CaseSummary
from gpubench.spec.case import Case
from gpubench.spec.invariants.whole import was_launched
from gpubench.spec.until import Until


@dataclass(frozen=True)
class Shortfall:
    """One sentence a case. `failed` is wrong; `unresolved` is not known yet, and more launches may tell."""

    failed: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()


def shortfall(wanted: Iterable[Case], summaries: Sequence[CaseSummary], until: Until | None = None) -> Shortfall:
    """What is missing of the cases that were to be measured; `until` says how narrow intervals were to become."""
    found = {summary.case: summary for summary in summaries}
    failed, unresolved = [], []
    for case in wanted:
        summary = found.get(case)
        if summary is None:
            unresolved.append(f"{case.id} has no number: no launch of it was started")
        elif why := why_failed(summary):
            failed.append(f"{case.id} {why}")
        elif until is not None and (wide := _too_wide(summary, until)):
            unresolved.append(f"{case.id} {wide}")
    return Shortfall(tuple(failed), tuple(unresolved))


def why_failed(summary: CaseSummary) -> str | None:
    """Why a case has no number, or which of its launches did not end well; None where all is well.

    A launch that was repeated, as a resumed run does, counts as it ended at last.
    """
    if summary.no_number is not None:
        aside = f" ({len(summary.set_aside)} set aside)" if summary.set_aside else ""
        return f"has no number: {summary.no_number}{aside}"
    launched = filter(was_launched, summary.records)
    last = {(r.launch, bool(r.schedule and r.schedule.pair_id)): r.outcome for r in launched}
    lost = [(launch, one) for (launch, _), one in last.items() if one.status != "ok"]
    if lost:
        launch, outcome = lost[0]
        more = f", and {len(lost) - 1} more of its launches did not end well" if len(lost) > 1 else ""
        return f"lost launch {launch}: {outcome.status.replace('_', ' ')}: {outcome.message}{more}"
    return None


def _too_wide(summary: CaseSummary, until: Until) -> str | None:
    if met(summary, until) or not concerned(summary, until.of):
        return None
    width = half_width(summary, until.of)
    if width is None:
        return f"has no interval of its {until.of}, which was to be known to ± {100 * until.within:g} %"
    if width <= until.within:  # a narrow interval of few launches is luck as often as not
        return f"has too few launches for its {until.of} to count as known to ± {100 * until.within:g} %"
    return f"has its {until.of} known to ± {100 * width:.1f} %, and it was to be known to ± {100 * until.within:g} %"
