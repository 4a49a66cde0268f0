"""One launch of one case, from its first process to its record."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Protocol, cast

from gpubench import __version__
from gpubench.harness import steady
from gpubench.harness.gang.launch import GangError, Launch
from gpubench.harness.gang.local import LocalGang
from gpubench.spec.messages import Built, Finish, Finished, RoundDone, RunSteps, Started
from gpubench.spec.record import (
    Check,
    Machine,
    Observed,
    Outcome,
    Phase,
    Round,
    RunRecord,
    Telemetry,
    WarmUp,
)
from gpubench.spec.workload import WORKLOADS
from gpubench.telemetry.sampler import Sampler


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long to measure. A round is as many steps as fill `round_seconds`, found from the warm-up's last steps."""

    rounds: int = 5
    round_seconds: float = 1.0
    max_warm_up_steps: int = 200
    max_warm_up_seconds: float = 60.0


class Progress(Protocol):
    """Who wants to know how a launch goes on. Called between rounds, never within one."""

    def phase(self, launch: Launch, phase: Phase, samples_per_second: float | None = None) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all launches of a run share."""

    run_id: str
    machine: Machine
    timing: Timing
    sampler: Sampler | None
    logs: Path
    progress: Progress
    doubts: Callable[[RunRecord], list[Check]]

    def run(self, launch: Launch, number: int) -> RunRecord:
        """Run one launch; whatever becomes of it, there is a record. Only Ctrl-C comes out as an exception."""
        attempt = _Attempt(self, launch, number)
        began_ns = time.monotonic_ns()
        outcome = attempt.run()
        record = attempt.record(outcome, began_ns)
        return replace(record, checks=self.doubts(record))


class _Attempt:
    """Gathers what is known of a launch as it becomes known, so that a failure loses none of it."""

    def __init__(self, bench: Bench, launch: Launch, number: int) -> None:
        self.bench = bench
        self.launch = launch
        self.number = number
        self.started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.software: dict[str, str] = {"gpubench": __version__}
        self.environment: dict[str, str] = {}
        self.observed = Observed()
        self.warm_up: WarmUp | None = None
        self.rounds: list[Round] = []

    def run(self) -> Outcome:
        ranks = 1 if self.launch.strategy.processes == "one" else self.launch.case.n_devices
        stem = f"{self.launch.case.id}.launch{self.number}"
        logs = [self.bench.logs / f"{stem}.rank{rank}.log" for rank in range(ranks)]
        try:
            with LocalGang(self.launch, logs) as gang:
                self._start(gang)
                self._build(gang)
                steps = self._warm_up(gang)
                self._rounds(gang, steps)
                self._stop(gang)
        except GangError as error:
            return error.outcome
        except OSError as error:
            return Outcome(
                status="failed",
                phase="start",
                message=f"Cannot start {self.launch.python}: {error.strerror}",
                remedy=f"Set the environment up anew: `gpubench setup {self.launch.framework.name}`.",
            )
        return Outcome(status="ok")

    def _start(self, gang: LocalGang) -> None:
        self.bench.progress.phase(self.launch, "start")
        started = cast(list[Started], gang.gather("start", self.launch.deadlines.start))
        self.software |= {"python": started[0].python, **started[0].versions}
        self.environment = started[0].environment
        device_ids = [device for rank in started for device in rank.devices]
        self.observed = replace(self.observed, device_ids=device_ids)

    def _build(self, gang: LocalGang) -> None:
        self.bench.progress.phase(self.launch, "build")
        built = cast(list[Built], gang.gather("build", self.launch.deadlines.build))
        samples = sum(rank.samples_per_step for rank in built)
        flops = WORKLOADS[self.launch.case.workload].training_flops_per_sample
        self.observed = replace(
            self.observed,
            world_size=min(rank.world_size for rank in built),
            parameters=built[0].parameters,
            flops_per_step=samples * flops,
        )

    def _warm_up(self, gang: LocalGang) -> int:
        """Step until steady; returns how many steps make a round."""
        self.bench.progress.phase(self.launch, "warm_up")
        timing, deadlines = self.bench.timing, self.launch.deadlines
        seconds: list[float] = []
        verdict = steady.Verdict(None, "")
        while verdict.steady is None:
            gang.order(RunSteps(steps=1, phase="warm_up"))
            done = cast(list[RoundDone], gang.gather("warm_up", deadlines.step if seconds else deadlines.first_step))
            seconds.append(max(_seconds(rank) for rank in done))
            if len(seconds) == 1:
                self.observed = replace(self.observed, loss_first=_mean([rank.loss for rank in done]))
            verdict = steady.judge(seconds, timing.max_warm_up_steps, timing.max_warm_up_seconds)
        self.warm_up = WarmUp(
            seconds=sum(seconds),
            steps=len(seconds),
            first_step_seconds=seconds[0],
            steady=bool(verdict.steady),
            verdict=verdict.words,
            step_seconds=seconds,
        )
        return max(2, math.ceil(timing.round_seconds / median(seconds[-steady.WINDOW_STEPS :])))

    def _rounds(self, gang: LocalGang, steps: int) -> None:
        rate = None
        for index in range(self.bench.timing.rounds):
            self.bench.progress.phase(self.launch, "round", rate)
            gang.order(RunSteps(steps=steps, phase="round"))
            done = cast(list[RoundDone], gang.gather("round", self.launch.deadlines.step * steps))
            self.rounds.append(
                Round(
                    index=index,
                    start_ns=min(rank.start_ns for rank in done),
                    end_ns=max(rank.end_ns for rank in done),
                    steps=steps,
                    samples=sum(rank.samples for rank in done),
                    rank_seconds=[_seconds(rank) for rank in done],
                    rank_cpu_seconds=[rank.cpu_seconds for rank in done],
                )
            )
            rate = self.rounds[-1].samples / self.rounds[-1].seconds

    def _stop(self, gang: LocalGang) -> None:
        self.bench.progress.phase(self.launch, "stop")
        gang.order(Finish())
        last = cast(list[Finished], gang.gather("stop", self.launch.deadlines.stop))
        digests = [digest for rank in last for digest in rank.replica_digests]
        peaks = [rank.peak_memory_bytes for rank in last if rank.peak_memory_bytes is not None]
        self.observed = replace(
            self.observed,
            loss_last=_mean([rank.loss_last for rank in last]),
            loss_finite=all(rank.loss_finite is not False for rank in last),
            replica_digests=digests,
            replicas_equal=len(set(digests)) == 1,
            peak_memory_bytes=max(peaks, default=None),
            peak_memory_of=last[0].peak_memory_of if peaks else None,
        )
        gang.wait(self.launch.deadlines.stop)

    def record(self, outcome: Outcome, began_ns: int) -> RunRecord:
        sampler = self.bench.sampler
        telemetry = Telemetry(reason="not sampled")
        if sampler is not None:
            telemetry = sampler.telemetry(self.launch.devices, self.rounds, began_ns, time.monotonic_ns())
        return RunRecord(
            record_id=uuid.uuid4().hex,
            run_id=self.bench.run_id,
            started_at=self.started_at,
            launch=self.number,
            case=self.launch.case,
            machine=self.bench.machine,
            software=self.software,
            environment=self.environment,
            devices=list(self.launch.devices),
            observed=self.observed,
            warmup=self.warm_up,
            rounds=self.rounds,
            telemetry=telemetry,
            outcome=outcome,
        )


def _seconds(done: RoundDone) -> float:
    return (done.end_ns - done.start_ns) / 1e9


def _mean(losses: list[float | None]) -> float | None:
    """The mean over ranks: each holds as many samples. None as soon as one loss is not a finite number."""
    known = [loss for loss in losses if loss is not None]
    return fmean(known) if known and len(known) == len(losses) else None
