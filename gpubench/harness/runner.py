"""One launch of one case, or two launches side by side, from the first process to the records."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Protocol, cast

import psutil

from gpubench import __version__
from gpubench.harness import sources, steady
from gpubench.harness.gang.launch import GangError, Launch
from gpubench.harness.gang.local import LocalGang
from gpubench.harness.gang.surroundings import kept_away
from gpubench.harness.outcomes import cannot_start
from gpubench.spec.messages import Built, Finish, Finished, Inspect, Inspected, RoundDone, RunSteps, Started
from gpubench.spec.record import (
    TIMING_COST_LIMIT,
    Check,
    Host,
    Machine,
    Observed,
    Outcome,
    Phase,
    Round,
    RunRecord,
    Schedule,
    Telemetry,
    WarmUp,
)
from gpubench.spec.steady import steady_seconds, steps_of_round
from gpubench.spec.workload import WORKLOADS
from gpubench.telemetry import clocks
from gpubench.telemetry.cgroup import CpuGroups, throttled_between
from gpubench.telemetry.sampler import Sampler

EMPTY_ROUNDS = 5
MOST_STRETCH = 4.0  # times the length asked for, to which timing that is slow may lengthen a round
NO_WORK = 1.5  # a step that takes no longer than this many rounds without a step does nothing
PATIENCE = 30.0  # a round may take this many times as long as the warm-up lets expect, and a step's deadline


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

    def run(self, launch: Launch, number: int, schedule: Schedule | None = None) -> RunRecord:
        """Run one launch; whatever becomes of it, there is a record. Only Ctrl-C comes out as an exception."""
        attempt = _Attempt(self, launch, number)
        try:
            with attempt.gang as gang:
                attempt.prepare(gang)
                for index in range(self.timing.rounds):
                    attempt.round(gang)
                    if index == self._before_control(number):
                        attempt.control_round(gang)
                attempt.stop(gang)
        except (GangError, OSError) as error:
            attempt.failed(error)
        return attempt.record(schedule)

    def run_pair(
        self, baseline: Launch, gang: Launch, number: int, schedule: Schedule | None = None
    ) -> tuple[RunRecord, RunRecord]:
        """Run a baseline and a gang side by side, each parked while the other runs, their rounds in turns.

        Round i of one and round i of the other are neighbours in time, so that their ratio is free of the machine's
        drift. Which goes first changes from pair to pair.
        """
        attempts = [_Attempt(self, launch, number, ".paired") for launch in (baseline, gang)]
        current = attempts[0]
        try:
            with ExitStack() as both:
                gangs = [both.enter_context(attempt.gang) for attempt in attempts]
                for current, parked in zip(attempts, gangs, strict=True):
                    current.prepare(parked)
                for index in range(self.timing.rounds):
                    for which in (0, 1) if index % 2 == 0 else (1, 0):
                        current = attempts[which]
                        current.round(gangs[which])
                        if index == self._before_control(number):
                            current.control_round(gangs[which])
                for current, parked in zip(attempts, gangs, strict=True):
                    current.stop(parked)
        except (GangError, OSError) as error:
            current.failed(error)
            other = attempts[1 - attempts.index(current)]
            if other.outcome.status == "ok":
                message = f"the other half of the pair, {current.launch.case.id}, ended as {current.outcome.status}"
                other.outcome = Outcome(status="interrupted", message=message)
        pair = uuid.uuid4().hex
        if schedule is None:
            return attempts[0].record(None), attempts[1].record(None)
        return (
            attempts[0].record(replace(schedule, pair_id=pair, paired_as="baseline")),
            attempts[1].record(replace(schedule, pair_id=pair, paired_as="gang")),
        )

    def _before_control(self, number: int) -> int | None:
        """The round that the control round follows, one in the middle; only a case's first launch has one."""
        return (self.timing.rounds - 1) // 2 if number == 1 and self.sampler is not None else None


class _Attempt:
    """Gathers what is known of a launch as it becomes known, so that a failure loses none of it."""

    def __init__(self, bench: Bench, launch: Launch, number: int, suffix: str = "") -> None:
        self.bench = bench
        self.launch = launch
        self.number = number
        self.outcome = Outcome(status="ok")
        self.software: dict[str, str] = {"gpubench": __version__, "source": sources.digest(launch.framework)}
        self.environment: dict[str, str] = {}
        self.observed = Observed()
        self.warm_up: WarmUp | None = None
        self.rounds: list[Round] = []
        self._control: Round | None = None
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._clocks = clocks.now_ns()
        self._began_ns = self._clocks[0]
        self._steps = 0
        self._step_seconds = 0.0
        self._idle_seconds: list[float] = []
        self._ended_ns: list[int] = []  # by rank: when the round before ended
        self._swap: list[tuple[int, int]] = []
        self._cpu_groups = CpuGroups()
        ranks = 1 if launch.strategy.processes == "one" else launch.case.n_devices
        stem = f"{launch.case.id}.launch{number}{suffix}"
        self.gang = LocalGang(launch, [bench.logs / f"{stem}.rank{rank}.log" for rank in range(ranks)])

    def failed(self, error: GangError | OSError) -> None:
        if isinstance(error, GangError):
            self.outcome = error.outcome
            return
        self.outcome = cannot_start(error, self.launch.python, self.launch.framework.name)

    def prepare(self, gang: LocalGang) -> None:
        """From started processes to a steady state."""
        self._start(gang)
        self._build(gang)
        if self.bench.sampler is not None:
            self.bench.sampler.wait_until_ready()  # before the warm-up, as a device cools down again while it waits
        self._warm_up(gang)

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

    def _warm_up(self, gang: LocalGang) -> None:
        """Step until steady, and find how many steps make a round."""
        self.bench.progress.phase(self.launch, "warm_up")
        timing, deadlines = self.bench.timing, self.launch.deadlines
        seconds: list[float] = []
        verdict = steady.Verdict(None, "")
        while verdict.steady is None:
            done = _steps(gang, 1, "warm_up", deadlines.step if seconds else deadlines.first_step)
            seconds.append(max(_seconds(rank) for rank in done))
            if len(seconds) == 1:
                self.observed = replace(self.observed, loss_first=_mean([rank.loss for rank in done]))
            verdict = steady.judge(seconds, timing.max_warm_up_steps, timing.max_warm_up_seconds)
        self._inspect(gang, "warm_up", deadlines.step + deadlines.stop, types=True)
        empty = min(self._empty_round(gang) for _ in range(EMPTY_ROUNDS))
        round_seconds = max(timing.round_seconds, min(empty / TIMING_COST_LIMIT, MOST_STRETCH * timing.round_seconds))
        self.warm_up = WarmUp(
            seconds=sum(seconds),
            steps=len(seconds),
            first_step_seconds=seconds[0],
            steady=bool(verdict.steady),
            verdict=verdict.words,
            step_seconds=seconds,
            empty_round_seconds=empty,
            round_seconds=round_seconds,
        )
        self._step_seconds = steady_seconds(seconds)
        self._refuse_idleness()
        self._steps = steps_of_round(round_seconds, seconds)

    def _refuse_idleness(self) -> None:
        """GangError where a step takes no longer than no step: the rounds would measure the clock."""
        idle = min(self._idle_seconds, default=0.0)
        if self._step_seconds > NO_WORK * idle:
            return
        name = f"{self.launch.framework.name}'s {self.launch.strategy.name}"
        raise GangError(
            Outcome(
                status="failed",
                phase="warm_up",
                message=f"A step of {name} does no work: once warmed up it takes {self._step_seconds:.3g} s, and a "
                f"round without any step {idle:.3g} s.",
                remedy="See what the strategy's step does after its first calls.",
            )
        )

    def _inspect(self, gang: LocalGang, phase: Phase, deadline_seconds: float, types: bool = False) -> None:
        """Have every rank digest what it holds and, once, tell what it computes in."""
        gang.order(Inspect(types=types))
        found = cast(list[Inspected], gang.gather(phase, deadline_seconds))
        digests = [*(self.observed.moving_digests or []), [rank.digest for rank in found]]
        self.observed = replace(self.observed, moving_digests=digests)
        if types:
            self.observed = replace(
                self.observed,
                parameter_types=_union([rank.parameter_types for rank in found]),
                input_types=_union([rank.input_types for rank in found]),
                product_types=_union([rank.product_types for rank in found]),
                tf32=found[0].tf32 if self.launch.case.device_kind == "gpu" else None,
                cpu_capability=found[0].cpu_capability,
            )

    def _empty_round(self, gang: LocalGang) -> float:
        """What a round without steps takes from order to report, in seconds: more than clock and barrier cost."""
        began = time.monotonic()
        done = _steps(gang, 0, "warm_up", self.launch.deadlines.step)
        seconds = time.monotonic() - began
        self._idle_seconds.append(max(_seconds(rank) for rank in done))
        return seconds

    def round(self, gang: LocalGang) -> None:
        """One timed round: as many steps as fill it, devices idle at both edges, all ranks let go at once."""
        rate = self.rounds[-1].samples / self.rounds[-1].seconds if self.rounds else None
        self.bench.progress.phase(self.launch, "round", rate)
        if not self.rounds:
            self._swap.append(_swapped_bytes())
        elif len(self.rounds) == self.bench.timing.rounds - 1:
            self._inspect(gang, "round", self.launch.deadlines.stop)  # work that stops meanwhile has stopped by now
        self._read_edge()
        self.rounds.append(self._timed(gang))
        self._read_edge()

    def control_round(self, gang: LocalGang) -> None:
        """One more round while nothing is sampled: beside its neighbours it shows what sampling does."""
        sampler = self.bench.sampler
        assert sampler is not None
        sampler.pause()
        try:
            self._control = self._timed(gang)
        finally:
            sampler.resume()

    def _timed(self, gang: LocalGang) -> Round:
        before = self._cpu_groups.throttling()
        step, expected = self.launch.deadlines.step, self._steps * self._step_seconds
        done = _steps(gang, self._steps, "round", min(step * self._steps, step + PATIENCE * expected))
        self._see_that_time_went_on(done)
        throttled = throttled_between(before, self._cpu_groups.throttling())
        return Round(
            index=len(self.rounds),
            start_ns=min(rank.start_ns for rank in done),
            end_ns=max(rank.end_ns for rank in done),
            steps=self._steps,
            samples=sum(rank.samples for rank in done),
            rank_seconds=[_seconds(rank) for rank in done],
            rank_cpu_seconds=[rank.cpu_seconds for rank in done],
            rank_spans_ns=[(rank.start_ns, rank.end_ns) for rank in done],
            cpu_periods=throttled.periods if throttled else None,
            cpu_throttled_periods=throttled.throttled_periods if throttled else None,
            cpu_throttled_seconds=throttled.throttled_seconds if throttled else None,
        )

    def _see_that_time_went_on(self, done: list[RoundDone]) -> None:
        """GangError where a clock stepped back: no time can be taken from it."""
        for index, (rank, before_ns) in enumerate(zip(done, self._ended_ns or [0] * len(done), strict=True)):
            if rank.start_ns < before_ns or rank.end_ns <= rank.start_ns:
                message = f"The monotonic clock of rank {index} stepped back in a round, or stood still."
                remedy = "Such a clock is a fault of the kernel or of a virtual machine's host: measure elsewhere."
                raise GangError(Outcome(status="failed", rank=index, phase="round", message=message, remedy=remedy))
        self._ended_ns = [rank.end_ns for rank in done]

    def _read_edge(self) -> None:
        """Have everything read where a round begins and ends."""
        if self.bench.sampler is not None:
            self.bench.sampler.edge()

    def stop(self, gang: LocalGang) -> None:
        """Hear what the training has come to, and let the ranks end."""
        self._swap.append(_swapped_bytes())
        self.bench.progress.phase(self.launch, "stop")
        gang.order(Finish())
        last = cast(list[Finished], gang.gather("stop", self.launch.deadlines.stop))
        digests = [digest for rank in last for digest in rank.replica_digests]
        peaks = [rank.peak_memory_bytes for rank in last if rank.peak_memory_bytes]
        self.observed = replace(
            self.observed,
            loss_last=_mean([rank.loss_last for rank in last]),
            loss_finite=all(rank.loss_finite is not False for rank in last),
            moving_digests=[*(self.observed.moving_digests or []), [rank.replica_digests[0] for rank in last]],
            replica_digests=digests,
            replicas_equal=len(set(digests)) == 1,
            peak_memory_bytes=max(peaks, default=None),
            peak_memory_of=last[0].peak_memory_of if peaks else None,
        )
        gang.wait(self.launch.deadlines.stop)

    def record(self, schedule: Schedule | None) -> RunRecord:
        sampler = self.bench.sampler
        telemetry = Telemetry(reason="not sampled")
        if sampler is not None:
            telemetry = sampler.telemetry(
                self.launch.devices, self.rounds, self._began_ns, time.monotonic_ns(), self._control
            )
        record = RunRecord(
            record_id=uuid.uuid4().hex,
            run_id=self.bench.run_id,
            started_at=self._started_at,
            launch=self.number,
            case=self.launch.case,
            machine=self.bench.machine,
            software=self.software,
            environment=self.environment,
            environment_kept_away=kept_away(os.environ),
            devices=list(self.launch.devices),
            observed=self.observed,
            warmup=self.warm_up,
            rounds=self.rounds,
            telemetry=telemetry,
            outcome=self.outcome,
            schedule=schedule,
            host=replace(_host(self._swap), stood_still_seconds=clocks.apart_seconds(self._clocks, clocks.now_ns())),
        )
        return replace(record, checks=self.bench.doubts(record))


def _steps(gang: LocalGang, steps: int, phase: Phase, deadline_seconds: float) -> list[RoundDone]:
    """Order a round of all ranks; the order goes out only once all have reported the one before: the barrier."""
    gang.order(RunSteps(steps=steps, phase=phase))
    return cast(list[RoundDone], gang.gather(phase, deadline_seconds))


def _swapped_bytes() -> tuple[int, int]:
    """Into and out of memory since the machine started."""
    swap = psutil.swap_memory()
    return swap.sin, swap.sout


def _host(swap: list[tuple[int, int]]) -> Host:
    if len(swap) < 2:
        return Host()
    return Host(swap_in_bytes=swap[-1][0] - swap[0][0], swap_out_bytes=swap[-1][1] - swap[0][1])


def _seconds(done: RoundDone) -> float:
    return (done.end_ns - done.start_ns) / 1e9


def _union(types: list[list[str] | None]) -> list[str] | None:
    """The types of all ranks; None where no rank knew any."""
    return sorted({name for rank in types for name in rank or ()}) or None


def _mean(losses: list[float | None]) -> float | None:
    """The mean over ranks: each holds as many samples. None as soon as one loss is not a finite number."""
    known = [loss for loss in losses if loss is not None]
    return fmean(known) if known and len(known) == len(losses) else None
