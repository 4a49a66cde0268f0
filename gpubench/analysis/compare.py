"""Two or more machines, softwares or dates, case by case: which is faster, by how much, and how sure that is.

Cases are matched by what they are. A ratio is throughput of the other side over the reference's, with its interval;
ratios are never averaged over cases. Turning the sides round turns every answer round, and changes none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpubench.analysis import stats
from gpubench.analysis.badge import badge
from gpubench.analysis.factors import ABSENT, IDENTITY, Factor, factors
from gpubench.analysis.reduced import Reduced, as_reduced
from gpubench.analysis.scaling import CaseSummary, machine_labels, summarize
from gpubench.analysis.stats import Interval, Launch
from gpubench.analysis.verdict import MARGIN
from gpubench.spec.errors import UsageError
from gpubench.spec.invariants.ids import once
from gpubench.spec.invariants.together import lasted
from gpubench.spec.invariants.whole import was_launched
from gpubench.spec.record import RunRecord
from gpubench.spec.verification import Verification

Kind = Literal["faster", "slower", "equal", "not_resolved", "no_number", "refused"]


@dataclass(frozen=True)
class Side:
    """One of those compared: one machine with one set of launches, and what was verified there."""

    name: str
    summaries: tuple[CaseSummary, ...]
    verifications: tuple[Verification, ...] = ()

    def verification(self, summary: CaseSummary) -> str:
        """Whether the case was shown to be the same work: `verified`, `not verified`, or how it failed."""
        of_kind = {id(record.software): record for record in summary.counted or summary.records}
        found = {badge(record, self.verifications) for record in of_kind.values()}
        return " and ".join(sorted(found))


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One case on the reference and on another side. `ratio` is the other's throughput over the reference's.

    `unlike` names what differs in the work itself: the ratio then also holds that difference. `reason` completes the
    verdict, empty where the figures say it all.
    """

    side: Side
    reference: CaseSummary
    other: CaseSummary
    factors: tuple[Factor, ...]
    kind: Kind
    ratio: float | None = None
    interval: Interval | None = None
    reason: str = ""

    @property
    def unlike(self) -> tuple[str, ...]:
        recorded = [factor for factor in self.factors if ABSENT not in (factor.reference, factor.other)]
        return tuple(factor.name for factor in recorded if factor.kind == "work")


@dataclass(frozen=True)
class Unmatched:
    """A case that has no counterpart, and why."""

    side: Side
    summary: CaseSummary
    reason: str


@dataclass(frozen=True)
class Comparison:
    """All sides against the first of them, the reference."""

    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    unmatched: tuple[Unmatched, ...]

    @property
    def reference(self) -> Side:
        return self.sides[0]


def side_of(name: str, records: Sequence[RunRecord | Reduced], verifications: Sequence[Verification] = ()) -> Side:
    """UsageError where the records are of several machines: their figures must not meet in one column.

    A launch that is there twice, in a run and in its bundle, counts once.
    """
    launches = once(map(as_reduced, records))
    machines = sorted(machine_labels(launches).values())
    if len(machines) > 1:
        raise UsageError(
            f"{name} holds runs of {len(machines)} machines, or of one in {len(machines)} states "
            f"({'; '.join(machines[:5])}): name the runs of each apart."
        )
    ran = [summary for summary in summarize(launches) if any(map(was_launched, summary.records))]
    return Side(name, tuple(ran), tuple(verifications))


def compare(sides: Sequence[Side]) -> Comparison:
    """UsageError where GPUs would meet CPU shares, no case is on two sides, or two records of one id differ."""
    once(record for side in sides for summary in side.summaries for record in summary.records)
    kinds = {side.name: {summary.case.device_kind for summary in side.summaries} for side in sides}
    if len(set().union(*kinds.values())) > 1:
        told = "; ".join(f"{name}: {' and '.join(map(_noun, sorted(found)))}" for name, found in kinds.items())
        raise UsageError(f"CPU shares are never compared with GPUs ({told}). Name runs of one kind.")
    reference, *others = sides
    pairs: list[Pair] = []
    unmatched: list[Unmatched] = []
    for other in others:
        matched, left = _matched(reference, other)
        pairs += [judge(reference, other, one, two) for one, two in matched]
        unmatched += left
    if not pairs:
        cases = {side.name: ", ".join(summary.case.id for summary in side.summaries[:5]) for side in sides}
        told = "; ".join(f"{name} has {ids or 'no case that was run'}" for name, ids in cases.items())
        raise UsageError(f"No case is on two sides: {told}.")
    return Comparison(tuple(sides), tuple(pairs), tuple(unmatched))


def judge(first: Side, side: Side, reference: CaseSummary, other: CaseSummary) -> Pair:
    """The verdict on one case of two sides: a word is used only where the whole interval says so."""
    shown = first.verification(reference), side.verification(other)
    found = factors(reference, other)
    found += (Factor("condition", "verification", *shown),) if shown[0] != shown[1] else ()
    pair = Pair(side=side, reference=reference, other=other, factors=found, kind="no_number")
    parameters = next((factor for factor in found if factor.name == "parameters"), None)
    if parameters is not None and ABSENT not in (parameters.reference, parameters.other):
        reason = f"not the same model: {parameters.reference} parameters against {parameters.other}"
        return replace(pair, kind="refused", reason=reason)
    if reference.samples_per_second is None or other.samples_per_second is None:
        lacking = [summary for summary in (reference, other) if summary.samples_per_second is None]
        return replace(pair, reason="; ".join(dict.fromkeys(str(summary.no_number) for summary in lacking)))
    ratio = other.samples_per_second / reference.samples_per_second
    sequential = other.sequential or reference.sequential
    interval = ratio_interval(other.launches, reference.launches, sequential)
    kind = kind_of(interval)
    reason = _reason(kind, interval, ratio, reference, other)
    return replace(pair, kind=kind, ratio=ratio, interval=interval, reason=reason)


def kind_of(interval: Interval | None) -> Kind:
    """`faster` above 1 + margin, `slower` below 1 / (1 + margin), `equal` between the two, with the whole interval."""
    if interval is None:
        return "not_resolved"
    low, high = 1 / (1 + MARGIN), 1 + MARGIN
    if interval.low > high:
        return "faster"
    if interval.high < low:
        return "slower"
    return "equal" if low <= interval.low and interval.high <= high else "not_resolved"


def ratio_interval(above: Sequence[Launch], below: Sequence[Launch], sequential: bool = False) -> Interval | None:
    """`stats.ratio_interval`, worked out the same way round whichever side is named first.

    A bootstrap draws by position, so launches are put in order, and the sides too; of two sides with the same figures
    the wider end counts on either side of 1.
    """
    first, second = _ordered(above), _ordered(below)
    if _key(first) < _key(second):
        turned = ratio_interval(below, above, sequential)
        return turned and Interval(1 / turned.high, 1 / turned.low)
    found = stats.ratio_interval(first, second, sequential)
    if found is not None and _key(first) == _key(second):
        return Interval(min(found.low, 1 / found.high), max(found.high, 1 / found.low))
    return found


def _matched(reference: Side, other: Side) -> tuple[list[tuple[CaseSummary, CaseSummary]], list[Unmatched]]:
    """The same case on both sides; of what is left, the one that differs only in factors, where it is the only one."""
    exact = {summary.case: summary for summary in other.summaries}
    pairs = [(one, exact[one.case]) for one in reference.summaries if one.case in exact]
    paired = {one.case for one, _ in pairs}
    groups: dict[tuple[object, ...], tuple[list[CaseSummary], list[CaseSummary]]] = defaultdict(lambda: ([], []))
    for index, side in enumerate((reference, other)):
        for summary in side.summaries:
            if summary.case not in paired:
                groups[tuple(getattr(summary.case, name) for name in IDENTITY)][index].append(summary)
    unmatched: list[Unmatched] = []
    for ones, twos in groups.values():
        if len(ones) == len(twos) == 1:
            pairs.append((ones[0], twos[0]))
            continue
        for mine, side, theirs, name in ((ones, reference, twos, other.name), (twos, other, ones, reference.name)):
            found = ", ".join(summary.case.id for summary in theirs)
            reason = f"{name} has {found}: which one is meant cannot be told" if found else f"not measured on {name}"
            unmatched += [Unmatched(side, summary, reason) for summary in mine]
    return pairs, unmatched


def _reason(kind: Kind, interval: Interval | None, ratio: float, reference: CaseSummary, other: CaseSummary) -> str:
    if same_launches(reference, other):
        return "these are the same launches"
    if interval is None:
        fewest = min(len(reference.launches), len(other.launches))
        return f"{fewest} launch{'es' if fewest != 1 else ''} give no interval; it takes {stats.FEWEST_LAUNCHES}"
    if kind != "not_resolved":
        return ""
    spans = f"about {ratio:.3g} times as fast, but {interval.low:.3g} to {interval.high:.3g} cannot be excluded"
    noises = [stats.noise(summary.launches) or 0.0 for summary in (reference, other)]
    edges = (1 / (1 + MARGIN), 1 + MARGIN)
    distance = min(abs(math.log(ratio / edge)) for edge in edges)
    needed = stats.launches_needed(math.hypot(*noises), distance) if distance else None
    if needed is None:
        return f"{spans}; launches differ too much for more of them to settle it"
    needed = max(needed, 1 + min(len(reference.launches), len(other.launches)))
    return f"{spans}; about {needed} launches on each side would settle it at this noise"


def same_launches(reference: CaseSummary, other: CaseSummary) -> bool:
    """Whether any launch stands on both sides, be it under another id: then the two are not independent."""
    if {r.record_id for r in reference.records} & {r.record_id for r in other.records}:
        return True
    times = [{each for record in side.counted if (each := lasted(record))} for side in (reference, other)]
    return bool(times[0] & times[1])


def _ordered(launches: Sequence[Launch]) -> list[Launch]:
    return sorted(launches, key=lambda launch: (launch.samples_per_second, launch.seconds))


def _key(launches: Sequence[Launch]) -> list[tuple[float, ...]]:
    return [(launch.samples_per_second, *launch.seconds) for launch in launches]


def _noun(device_kind: str) -> str:
    return "CPU shares" if device_kind == "cpu" else "GPUs"
