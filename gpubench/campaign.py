"""A whole run: which launches, in which order, and when there have been enough of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from gpubench import forecast
from gpubench.analysis import precision
from gpubench.analysis.stats import FEWEST_TO_STOP
from gpubench.files.store import Journal
from gpubench.harness import quiet
from gpubench.harness.plan import Cases, Plan, Runnable, arranged, baseline_of
from gpubench.harness.schedule import missing, missing_pairs
from gpubench.harness.session import Session
from gpubench.progress import LineProgress
from gpubench.spec.record import RunRecord, Schedule
from gpubench.spec.until import Until


@dataclass
class Campaign:
    """Runs a plan's cases launch by launch, each on the disk before the next one starts.

    `unresolved` names, among records, the case ids that the plan's `until` asks more launches of, from `fewest` on.
    """

    session: Session
    cases: Cases
    plan: Plan
    journal: Journal
    progress: LineProgress
    unresolved: Callable[[Sequence[RunRecord], Until], set[str]] = precision.unresolved
    fewest: int = FEWEST_TO_STOP

    def __post_init__(self) -> None:
        self.records: list[RunRecord] = []
        self.left_out = 0
        self._began = time.monotonic()
        self._launch_seconds: list[float] = []

    def run(self, earlier: Iterable[RunRecord] = ()) -> list[RunRecord]:
        """All launches that the plan asks for, or as many as `until` takes; `earlier` ones are not run again."""
        self.records = list(earlier)
        self.journal.say = self.progress.note
        known = {record.case for record in self.records if record.outcome.status == "skipped"}
        for skipped in self.cases.skipped:
            if skipped.case not in known:
                self._keep(self.session.skip(skipped))
        alone, paired = arranged(self.cases, self.plan)
        if self.plan.until is not None:
            self._until(self.plan.until, alone, paired)
        else:
            self._launches(missing(alone, self.plan.launches, self.plan.seed, self.records))
            if self.plan.paired == "auto":
                paired = self._worth_pairing(alone)
            self._pairs(paired, range(1, self.plan.launches + 1))
        if self.left_out:
            self.progress.note(f"The budget is spent: {self.left_out} launches were not run; --resume runs them.")
        return self.records

    def _until(self, until: Until, alone: Sequence[Runnable], paired: Sequence[Runnable]) -> None:
        """A launch or a pair of every case that is not resolved yet, block by block.

        The rule is fixed beforehand and looks at the widths alone, never at which side of anything a figure lies.
        """
        fewest = max(self.plan.launches, self.fewest)
        wanted = {one.case.id for one in (*alone, *paired)}
        block = forecast.block_of(self.plan, self.cases)
        assert block is not None
        for number in range(1, max(fewest, precision.MOST_LAUNCHES) + 1):
            baselines = {b.case.id for one in alone if one.case.id in wanted and (b := self._baseline_of(one))}
            again = [one for one in alone if one.case.id in wanted | baselines]
            todo = [each for each in missing(again, number, self.plan.seed, self.records) if each[1] == number]
            began, done = time.monotonic(), len(self.records)
            self._launches(todo)
            self._pairs([one for one in paired if one.case.id in wanted], [number])
            if self.left_out:
                return
            if number >= fewest:
                wanted = self.unresolved(self.records, until)
                if not wanted:
                    return
            if len(self.records) > done:
                seconds = time.monotonic() - began
                self.progress.forecast(forecast.after(block, self.records, wanted, number, fewest, seconds))

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
        noisy = precision.noisy(self.records)
        begun = {r.case for r in self.records if r.schedule and r.schedule.paired_as == "gang"}
        gangs = [one for one in alone if self._baseline_of(one)]
        new = [one for one in gangs if one.case not in begun and one.case.id in noisy and self._both_fit(one)]
        if new:
            self.progress.note("The launches differ much; measuring again in pairs, baseline and gang in turns.")
        return [one for one in gangs if one.case in begun or one in new]

    def _pairs(self, paired: Sequence[Runnable], numbers: Iterable[int]) -> None:
        todo = missing_pairs(paired, numbers, self.records)
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
        self._keep(*records)
        self._launch_seconds.append(time.monotonic() - began)
        self.progress.finished(records[1])

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
            until=self.plan.until.within if self.plan.until else None,
            until_of=self.plan.until.of if self.plan.until else None,
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

    def _keep(self, *records: RunRecord) -> None:
        self.records += self.journal.append_all(records)
