"""From raw records to what is shown: one summary a case, with speed-up, efficiency and their intervals.

Throughput is samples counted over seconds of the slowest rank, over all timed rounds of a launch; across launches the
median. Speed-up is throughput over the baseline's, scaling efficiency is speed-up over devices (Hoefler & Belli 2015,
rule 1: the base case is stated). The baseline is `single` on one device: same workload, framework, precision, machine
and scaling kind, and the same per-device batch (weak) or global batch (strong). From three pairs of launches on whose
rounds took turns, the speed-up is the median of the pairs' ratios.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol

from gpubench.analysis import stats
from gpubench.analysis.badge import badge
from gpubench.analysis.checks import sets_aside, together, worst
from gpubench.analysis.checks.merge import beside_a_number, merged, unique
from gpubench.analysis.checks.series import series_doubts
from gpubench.analysis.pairs import pair_ratios
from gpubench.analysis.reduced import Reduced, as_reduced
from gpubench.analysis.stats import Interval, Launch
from gpubench.analysis.usage import Usage, usage
from gpubench.spec.case import Case
from gpubench.spec.identity import Identity, identity, label, labels
from gpubench.spec.invariants.ids import once
from gpubench.spec.record import Check, Machine, Outcome, RunRecord
from gpubench.spec.verification import Verification

# What two cases must share to lie on one curve.
Series = tuple[str, str, str, str, str, str, Identity, int, int]


class Run(Protocol):
    """A saved run, as far as figures need it."""

    @property
    def records(self) -> Sequence[RunRecord | Reduced]: ...
    @property
    def verifications(self) -> Sequence[Verification]: ...


@dataclass(frozen=True)
class LostLaunch:
    """A launch without a number: it failed, or could not run at all."""

    launch: int
    outcome: Outcome
    whole: Callable[[], RunRecord]  # reads its record, with the end of its log


@dataclass(frozen=True)
class SetAside:
    """A launch that ended well on a machine that was not fit to measure: it is kept, and does not count."""

    launch: int
    check: Check


@dataclass(frozen=True)
class NoNumber:
    """Why a case has no headline number: in a word or two, and in full."""

    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True, kw_only=True)
class CaseSummary:
    """All launches of one case on one machine. Names and units are those of every export; None is not measured.

    `machine` is as the last launch found it. `machine_label` tells it from every other machine of the same report.

    Efficiencies are fractions (1.0 is perfect). `records` are all launches, `counted` those that the figures are made
    of, with their rounds in `launches`; the others are in `lost` or `set_aside`. `no_number` says why there is no
    headline number, where there is none; only then is one of `checks` severe.
    """

    case: Case
    machine: Machine
    machine_label: str
    records: tuple[Reduced, ...]
    counted: tuple[Reduced, ...] = ()
    launches: tuple[Launch, ...] = ()
    lost: tuple[LostLaunch, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    samples_per_second: float | None = None
    samples_per_second_interval: Interval | None = None
    speedup: float | None = None
    speedup_interval: Interval | None = None
    pair_ratios: tuple[float, ...] = ()  # the speed-up of each pair of launches, where it was made from pairs
    own_scaling_efficiency: float | None = None  # against the strategy's own run on one device
    own_scaling_efficiency_interval: Interval | None = None
    first_step_seconds: float | None = None
    launch_noise: float | None = None
    usage: Usage = field(default_factory=Usage)
    baseline: CaseSummary | None = None
    checks: tuple[Check, ...] = ()
    no_number: NoNumber | None = None
    verification: str = "not verified"  # whether it was shown to be the same work: or `verified`, or `failed: why`

    @property
    def samples_per_second_per_device(self) -> float | None:
        return None if self.samples_per_second is None else self.samples_per_second / self.case.n_devices

    @property
    def scaling_efficiency(self) -> float | None:
        return None if self.speedup is None else self.speedup / self.case.n_devices

    @property
    def scaling_efficiency_interval(self) -> Interval | None:
        return self.speedup_interval and self.speedup_interval.scaled(1 / self.case.n_devices)

    @property
    def joules_per_sample(self) -> float | None:
        """None also where a check took the number away: the energy was of the same samples."""
        return None if self.samples_per_second is None else self.usage.joules_per_sample

    @property
    def sequential(self) -> bool:
        """Whether the width of an interval decided how many launches there are."""
        return any(record.schedule is not None and record.schedule.until is not None for record in self.counted)

    @property
    def is_baseline(self) -> bool:
        return self.case.strategy == "single" and self.case.n_devices == 1

    @property
    def series(self) -> Series:
        case = self.case
        size = case.per_device_batch if case.scaling == "weak" else case.global_batch
        words = (case.workload, case.framework, case.strategy, case.precision, case.scaling, case.device_kind)
        return (*words, identity(self.machine), case.cores_per_device, size)


def summarize(
    records: Iterable[RunRecord | Reduced],
    verifications: Sequence[Verification] = (),
    known: Mapping[Identity, str] | None = None,
) -> list[CaseSummary]:
    """One summary for each case and machine, in the order of machine, workload, framework, strategy and size.

    `verifications` are those of where it was measured; a case that none covers is not verified. `known` has the
    machines' labels where more is shown beside these records.
    """
    return _summarize([as_reduced(record) for record in records], lambda record: verifications, known)


def summarize_runs(runs: Iterable[Run]) -> list[CaseSummary]:
    """`summarize` for several runs together: launches of one case on one machine are pooled, whichever run has them.

    A launch is verified by what was verified where that launch was measured.
    """
    found = [(as_reduced(record), run.verifications) for run in runs for record in run.records]
    covering = {id(record): verifications for record, verifications in found}
    return _summarize([record for record, _ in found], lambda record: covering[id(record)], None)


Covering = Callable[[Reduced], Sequence[Verification]]


def _summarize(
    records: Sequence[Reduced], covering: Covering, known: Mapping[Identity, str] | None
) -> list[CaseSummary]:
    records = once(records)
    known = machine_labels(records) if known is None else known
    unlike = together.contradictions(records)
    groups: dict[tuple[Case, Identity], list[Reduced]] = defaultdict(list)
    for record in records:
        groups[record.case, record.identity].append(record)
    measured = [_measured(group, label(group[0].machine, known), unlike) for group in groups.values()]
    bases = {summary.series: summary for summary in measured if summary.case.n_devices == 1}
    compared = [_compared(summary, bases) for summary in measured]
    found: dict[int, list[Check]] = defaultdict(list)
    for summary, check in series_doubts(compared):
        found[id(summary)].append(check)
    doubted = [_doubted(summary, found[id(summary)]) for summary in compared]
    return sorted((_verified(summary, covering) for summary in doubted), key=_order)


def machine_labels(records: Iterable[RunRecord | Reduced]) -> dict[Identity, str]:
    """A label for each machine of the records, the latest name first of those that a machine has had."""
    latest_first = sorted(records, key=lambda record: record.started_at)[::-1]
    shared = {id(record.machine): record.machine for record in latest_first}  # records that were reduced share them
    return labels(reversed(shared.values()))


def _verified(summary: CaseSummary, covering: Covering) -> CaseSummary:
    """With the worst badge of the launches that count."""
    of_kind = {(id(r.software), id(covering(r))): r for r in summary.counted or summary.records}
    badges = {badge(record, covering(record)) for record in of_kind.values()}
    failed = sorted(word for word in badges if word.startswith("failed"))
    word = failed[0] if failed else "verified" if badges == {"verified"} else "not verified"
    return replace(summary, verification=word)


def _measured(records: Sequence[Reduced], machine_label: str, unlike: Mapping[str, Sequence[Check]]) -> CaseSummary:
    """The case by itself: its launches, those that count, no number where too few do or the work was not the same.

    `unlike` are the doubts, by record id, that show only beside other records.
    """
    records = sorted(records, key=lambda record: (record.launch, record.started_at))
    ended_well = [record for record in records if record.outcome.status == "ok"]
    checks = [unique([*unlike.get(r.record_id, ()), *r.checks]) for r in ended_well]
    spoilt = [next(filter(sets_aside, found), None) for found in checks]
    left = [record for record, check in zip(ended_well, spoilt, strict=True) if check is None]
    counted = tuple(record for record in left if record.timed is not None)
    launches = tuple(record.timed for record in left if record.timed is not None)
    set_aside = tuple(SetAside(r.launch, check) for r, check in zip(ended_well, spoilt, strict=True) if check)
    summary = CaseSummary(
        case=records[0].case,
        machine=max(records, key=lambda record: record.started_at).machine,
        machine_label=machine_label,
        records=tuple(records),
        counted=counted,
        launches=launches,
        lost=tuple(LostLaunch(r.launch, r.outcome, r.whole) for r in records if r.outcome.status != "ok"),
        set_aside=set_aside,
        first_step_seconds=_median(record.first_step_seconds for record in counted),
        launch_noise=stats.noise(launches),
        usage=usage([record.used for record in counted]),
        checks=tuple(merged(checks)),
    )
    reason = _no_number(summary, len(ended_well))
    if reason is not None:
        return replace(summary, no_number=reason, usage=summary.usage.without_energy())
    return replace(
        summary,
        samples_per_second=stats.median_rate(launches),
        samples_per_second_interval=stats.rate_interval(launches, summary.sequential),
        checks=tuple(beside_a_number(summary.checks, [(r.launch, r.check) for r in set_aside], len(ended_well))),
    )


def _no_number(summary: CaseSummary, n_ended_well: int) -> NoNumber | None:
    unequal = worst(check for check in summary.checks if not sets_aside(check))
    if unequal is not None:
        return _doubted_away(unequal)
    n_left = n_ended_well - len(summary.set_aside)
    if summary.set_aside and not enough_are_left(n_left, n_ended_well):
        spoilt = next(filter(sets_aside, summary.checks))
        if n_left == 0:
            return _doubted_away(spoilt)
        counted = f"{n_left} of {n_ended_well} launches {'count' if n_left > 1 else 'counts'}"
        return NoNumber(spoilt.name.replace("_", " "), f"{spoilt.message}; {counted}: it takes half of them, and two")
    if summary.launches:
        return None
    if summary.lost:
        outcome = summary.lost[-1].outcome
        return NoNumber(outcome.status.replace("_", " "), outcome.message)
    return NoNumber("no round", "no launch has a timed round")


def enough_are_left(n_left: int, n_ended_well: int) -> bool:
    """Whether a case keeps its number where only `n_left` of its `n_ended_well` launches were not set aside.

    At least half must be left. Then their median lies between the quartiles of all launches that ended well, whichever
    of them were set aside: with fewer, a few fast launches of a machine that is mostly busy would make the headline.
    And at least two, since a single launch that is left has no other to agree with.
    """
    return n_left >= 2 and 2 * n_left >= n_ended_well


def _doubted_away(check: Check) -> NoNumber:
    return NoNumber(check.name.replace("_", " "), check.message)


def _compared(summary: CaseSummary, bases: dict[Series, CaseSummary]) -> CaseSummary:
    """The case against `single` on one device, and against its own strategy on one device."""
    own = bases.get(summary.series)
    workload, framework, _, *rest = summary.series
    baseline = bases.get((workload, framework, "single", *rest))  # type: ignore[arg-type]
    if summary.samples_per_second is None:
        return replace(summary, baseline=baseline)
    if summary.is_baseline:
        return replace(summary, speedup=1.0)
    changes: dict[str, float | Interval | tuple[float, ...] | None] = {}
    if baseline is not None and baseline.samples_per_second is not None:
        ratios = pair_ratios(summary.counted, baseline.counted)
        if len(ratios) >= stats.FEWEST_LAUNCHES:
            changes["pair_ratios"] = ratios
            changes["speedup"] = median(ratios)
            changes["speedup_interval"] = stats.median_interval(ratios, summary.sequential)
        else:
            changes["speedup"] = summary.samples_per_second / baseline.samples_per_second
            changes["speedup_interval"] = stats.ratio_interval(summary.launches, baseline.launches, summary.sequential)
    if own is not None and own is not summary and own.samples_per_second is not None:
        n = summary.case.n_devices
        interval = stats.ratio_interval(summary.launches, own.launches, summary.sequential)
        changes["own_scaling_efficiency"] = summary.samples_per_second / own.samples_per_second / n
        changes["own_scaling_efficiency_interval"] = interval and interval.scaled(1 / n)
    return replace(summary, baseline=baseline, **changes)  # type: ignore[arg-type]


def _doubted(summary: CaseSummary, found: Sequence[Check]) -> CaseSummary:
    """The case with the doubts of its series; a severe one takes the number away after all."""
    checks = tuple(unique([*summary.checks, *found]))
    severe = worst(found)
    if severe is None or summary.samples_per_second is None:
        return replace(summary, checks=checks)
    return replace(
        summary,
        checks=checks,
        no_number=_doubted_away(severe),
        usage=summary.usage.without_energy(),
        samples_per_second=None,
        samples_per_second_interval=None,
        speedup=None,
        speedup_interval=None,
        pair_ratios=(),
        own_scaling_efficiency=None,
        own_scaling_efficiency_interval=None,
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _order(summary: CaseSummary) -> tuple[object, ...]:
    case = summary.case
    single_first = (case.strategy != "single", case.strategy)
    batch = case.per_device_batch if case.scaling == "weak" else case.global_batch  # each is a series
    size = (batch, case.n_nodes, case.n_devices)
    machine = (summary.machine_label, case.device_kind)
    return (*machine, case.workload, case.scaling, case.precision, case.framework, *single_first, *size)
