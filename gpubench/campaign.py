"""A whole run: which launches, in which order, and when there have been enough of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gpubench.files.store import Journal
from gpubench.harness import quiet
from gpubench.harness.plan import Cases, Plan, Runnable, baseline_of
from gpubench.harness.schedule import missing, missing_pairs
from gpubench.harness.session import Session
from gpubench.progress import LineProgress
from gpubench.spec.record import RunRecord, Schedule

MOST_LAUNCHES = 100  # of a case, however wide its interval still is
FEWEST_FOR_AN_INTERVAL = 3


@dataclass
class Campaign:
    """Runs a plan's cases launch by launch, each on the disk before the next one starts.

    `unresolved` names, among records, the case ids whose interval is wider than the plan's `until`; `noisy` those
    whose launches differ so much that they are worth measuring in pairs. Both look at the records only.
    """

    session: Session
    cases: Cases
    plan: Plan
    journal: Journal
    progress: LineProgress
    unresolved: Callable[[Sequence[RunRecord], float], set[str]]
    noisy: Callable[[Sequence[RunRecord]], set[str]]

    def __post_init__(self) -> None:
        self.records: list[RunRecord] = []
        self.left_out = 0
        self._began = time.monotonic()
        self._launch_seconds: list[float] = []

    def run(self, earlier: Iterable[RunRecord] = ()) -> list[RunRecord]:
        """The plan's launches, then pairs, then as many more as `until` asks for; `earlier` ones are not run again."""
        self.records = list(earlier)
        known = {record.case for record in self.records if record.outcome.status == "skipped"}
        for skipped in self.cases.skipped:
            if skipped.case not in known:
                self._keep(self.session.skip(skipped))
        alone, paired = self.cases.runnable, []
        if self.plan.paired == "yes":
            paired = [one for one in alone if self._baseline_of(one)]
            alone = [one for one in alone if one not in paired]
        self._launches(missing(alone, self.plan.launches, self.plan.seed, self.records))
        if self.plan.paired == "auto":
            paired = self._worth_pairing(alone)
        self._pairs(paired)
        if self.plan.until is not None:
            self._until(self.plan.until, alone, paired)
        if self.left_out:
            self.progress.note(f"The budget is spent: {self.left_out} launches were not run; --resume runs them.")
        return self.records

    def _launches(self, todo: Sequence[tuple[Runnable, int]]) -> None:
        self.progress.expect(len(todo))
        for runnable, number in todo:
            if self._spent():
                self.left_out += 1
                continue
            began = time.monotonic()
            record = self.session.launch(runnable, number, self._schedule([runnable]))
            self._keep(record)
            self._launch_seconds.append(time.monotonic() - began)
            self.progress.finished(record)

    def _worth_pairing(self, alone: Sequence[Runnable]) -> list[Runnable]:
        """The gangs whose launches differ much, and those that an earlier part of this run has begun to pair."""
        noisy = self.noisy(self.records)
        begun = {r.case for r in self.records if r.schedule and r.schedule.paired_as == "gang"}
        gangs = [one for one in alone if self._baseline_of(one)]
        new = [one for one in gangs if one.case not in begun and one.case.id in noisy and self._both_fit(one)]
        if new:
            self.progress.note("The launches differ much; measuring again in pairs, baseline and gang in turns.")
        return [one for one in gangs if one.case in begun or one in new]

    def _pairs(self, paired: Sequence[Runnable]) -> None:
        todo = missing_pairs(paired, range(1, self.plan.launches + 1), self.records)
        self.progress.expect(len(todo))
        for runnable, number in todo:
            self._pair(runnable, number)

    def _pair(self, runnable: Runnable, number: int) -> None:
        if self._spent():
            self.left_out += 1
            return
        began = time.monotonic()
        baseline = self._baseline_of(runnable)
        assert baseline is not None
        records = self.session.launch_pair(baseline, runnable, number, self._schedule([runnable]))
        for record in records:
            self._keep(record)
        self._launch_seconds.append(time.monotonic() - began)
        self.progress.finished(records[1])

    def _until(self, target: float, alone: Sequence[Runnable], paired: Sequence[Runnable]) -> None:
        """Add launches, a block at a time, to the cases that are not resolved yet and to their baselines.

        The rule is fixed beforehand and looks at the widths alone, never at which side of anything a figure lies.
        """
        for number in range(self.plan.launches + 1, MOST_LAUNCHES + 1):
            if number <= FEWEST_FOR_AN_INTERVAL:
                wanted = {one.case.id for one in (*alone, *paired)}
            else:
                wanted = self.unresolved(self.records, target)
            baselines = {b.case.id for one in alone if one.case.id in wanted and (b := self._baseline_of(one))}
            block = [one for one in alone if one.case.id in wanted | baselines and one not in paired]
            pairs = [one for one in paired if one.case.id in wanted]
            if (not block and not pairs) or self._spent():
                return
            todo = missing(block, number, self.plan.seed, self.records)
            self._launches([(one, launch) for one, launch in todo if launch == number])
            again = missing_pairs(pairs, [number], self.records)
            self.progress.expect(len(again))
            for one, launch in again:
                self._pair(one, launch)

    def _baseline_of(self, runnable: Runnable) -> Runnable | None:
        return baseline_of(runnable, self.cases.runnable)

    def _both_fit(self, runnable: Runnable) -> bool:
        """Whether baseline and gang fit into the devices' memory together, by the peaks seen so far."""
        baseline = self._baseline_of(runnable)
        assert baseline is not None
        peaks = {r.case: r.observed.peak_memory_bytes for r in self.records if r.observed.peak_memory_bytes}
        need = [peaks.get(baseline.case), peaks.get(runnable.case)]
        if runnable.case.device_kind == "cpu":
            have = self.session.machine.memory_bytes
            ranks = runnable.case.n_devices if runnable.strategy.processes == "per_device" else 1
            return all(need) and (need[0] or 0) + (need[1] or 0) * ranks < 0.8 * have
        have = min((device.memory_bytes or 0) for device in runnable.devices)
        return all(need) and sum(n or 0 for n in need) < 0.8 * have

    def _schedule(self, about: Sequence[Runnable]) -> Schedule:
        schedule = Schedule(
            order="interleaved",
            seed=self.plan.seed,
            launches=self.plan.launches,
            position=len(self.records),
            until=self.plan.until,
            batch_from=batch if isinstance(batch := self.plan.per_device_batch, str) else "asked or default",
        )
        if self.plan.wait_quiet_seconds is None or self.session.sampler is None:
            return schedule
        ids = [device.id for one in about for device in one.devices]
        self.session.sampler.wait_until_ready()
        was_quiet, waited = quiet.wait(self.session.sampler, ids, self.plan.wait_quiet_seconds, self.progress.waiting)
        return replace(schedule, waited_for_quiet_seconds=waited, quiet=was_quiet)

    def _spent(self) -> bool:
        """Whether the next launch would end behind the budget, if it takes as long as the others did."""
        if self.plan.budget_seconds is None:
            return False
        expected = fmean(self._launch_seconds) if self._launch_seconds else 0.0
        return time.monotonic() - self._began + expected > self.plan.budget_seconds

    def _keep(self, record: RunRecord) -> None:
        self.records.append(self.journal.append(record))
