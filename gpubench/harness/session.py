"""What all launches of one run share: the sampler, the logs' folder, and who is told of the progress."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from gpubench import __version__
from gpubench.harness.gang.launch import Deadlines, Launch
from gpubench.harness.plan import Cases, Runnable, Skipped
from gpubench.harness.runner import Bench, Progress, Timing
from gpubench.harness.scratch import scratch_folder
from gpubench.spec.case import Device
from gpubench.spec.record import Check, Machine, Outcome, RunRecord, Schedule
from gpubench.telemetry.sampler import Sampler


class Session:
    """A run's launches. A context manager: the sampler runs for as long as it is open."""

    def __init__(
        self,
        machine: Machine,
        cases: Cases,
        timing: Timing,
        progress: Progress,
        doubts: Callable[[RunRecord], list[Check]],
        logs: Path | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.run_id = uuid.uuid4().hex
        self.machine = machine
        self.deadlines = deadlines or Deadlines()
        self._timing = timing
        self._progress = progress
        self._doubts = doubts
        self._logs = logs
        self._devices = _all_devices(cases.runnable)
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        scratch = self._closing.enter_context(scratch_folder())
        sampler = self._closing.enter_context(Sampler(self._devices, scratch)) if self._devices else None
        self._bench = Bench(
            run_id=self.run_id,
            machine=self.machine,
            timing=self._timing,
            sampler=sampler,
            logs=self._logs or scratch,
            progress=self._progress,
            doubts=self._doubts,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    @property
    def sampler(self) -> Sampler | None:
        return self._bench.sampler

    def launch(self, runnable: Runnable, number: int, schedule: Schedule | None = None) -> RunRecord:
        """One fresh process group of a case, to its record."""
        return self._bench.run(self._launch(runnable), number, schedule)

    def trial(self, runnable: Runnable) -> RunRecord:
        """One short launch, to see whether a batch fits and about how fast it is."""
        short = Timing(rounds=1, round_seconds=0.5, max_warm_up_seconds=30.0)
        return replace(self._bench, timing=short).run(self._launch(runnable), 0)

    def launch_pair(
        self, baseline: Runnable, gang: Runnable, number: int, schedule: Schedule | None = None
    ) -> tuple[RunRecord, RunRecord]:
        """A baseline and a gang side by side, their rounds in turns, to the records of both."""
        return self._bench.run_pair(self._launch(baseline), self._launch(gang), number, schedule)

    def _launch(self, runnable: Runnable) -> Launch:
        return Launch(
            case=runnable.case,
            framework=runnable.framework,
            strategy=runnable.strategy,
            python=runnable.python,
            devices=runnable.devices,
            deadlines=self.deadlines,
        )

    def skip(self, skipped: Skipped) -> RunRecord:
        """The record of a case that cannot run here: no launch, but a reason."""
        return RunRecord(
            record_id=uuid.uuid4().hex,
            run_id=self.run_id,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            launch=0,
            case=skipped.case,
            machine=self.machine,
            software={"gpubench": __version__},
            outcome=Outcome(status="skipped", message=skipped.reason),
        )


def _all_devices(runnable: Sequence[Runnable]) -> list[Device]:
    return list({device.id: device for one in runnable for device in one.devices}.values())
