"""The life of a worker, and the one place where time is taken."""

from __future__ import annotations

import math
import os
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from gpubench.spec.framework import Training
from gpubench.spec.messages import (
    Built,
    Failed,
    Finish,
    Finished,
    Inspect,
    RoundDone,
    RunSteps,
    Start,
    Started,
)
from gpubench.worker.__main__ import load_package
from gpubench.worker.channel import Channel, die_with_parent
from gpubench.worker.inspection import Watched, digest, inspect
from gpubench.worker.variables import recorded


def main() -> None:
    """Carry out orders until told to finish. Ends by `os._exit`: a framework's own exit may hang for minutes."""
    die_with_parent()
    channel = Channel()
    worker = Worker(channel)
    try:
        worker.run()
    except BaseException as error:
        traceback.print_exc()
        channel.send(worker.failure(error))
        _exit(1)
    _exit(0)


class Worker:
    """Knows the phase that it is in, so that a failure can name it."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.phase = "start"
        self.device: ModuleType | None = None

    def run(self) -> None:
        start = self.channel.receive()
        if not isinstance(start, Start):
            return
        self.device = device = take_devices(self.channel, start)
        while isinstance(start, Start):
            finish = self.train(start, device)
            start = self.channel.receive() if finish.another else None

    def train(self, start: Start, device: ModuleType) -> Finish:
        """Build one training, run its rounds and tell its end; returns the order that ended it."""
        self.phase = "build"
        strategy = import_module(f"{start.package}.{start.strategy_module}")
        workload: Any = import_module(f"{start.package}.{start.workload_module}")
        if start.given_file is not None:
            workload = _verification(start).Given(workload, start.case, start.given_file)
        watched = Watched(workload)
        with strategy.training(start.case, start.place, watched) as training:
            self.channel.send(
                Built(
                    world_size=training.world_size(),
                    parameters=sum(int(array.size) for array in training.replicas()[0]),
                    samples_per_step=training.samples_per_step,
                    macs=training.macs() if training.macs else None,
                )
            )
            last, finish = self.rounds(training, device, watched)
            self.phase = "stop"
            peak_bytes, peak_of = device.peak_memory()
            loss = None if last is None else training.loss(last)
            if finish.export_folder is not None:
                file = Path(finish.export_folder) / f"rank{start.place.rank}.npz"
                _verification(start).export(training.replicas(), file)
            self.channel.send(
                Finished(
                    loss_last=loss,
                    loss_finite=None if loss is None else math.isfinite(loss),
                    replica_digests=[digest(replica) for replica in training.replicas()],
                    peak_memory_bytes=peak_bytes,
                    peak_memory_of=peak_of,
                    gradient_norm=training.gradient_norm(last) if training.gradient_norm and last is not None else None,
                )
            )
        return finish

    def rounds(self, training: Training, device: ModuleType, watched: Watched) -> tuple[Any, Finish]:
        """Run rounds on order, and return what the last step returned, and the order to finish.

        The clock is read with the devices idle at both edges. The harness sends an order to all ranks only once all
        have reported the round before, so the order is the barrier.
        """
        clock_ns = getattr(device, "monotonic_ns", time.monotonic_ns)
        cpu_seconds = getattr(device, "process_seconds", time.process_time)
        result = None
        first = True
        while not isinstance(order := self.channel.receive(), Finish):
            if order is None:
                _exit(1)  # the harness has gone
            if isinstance(order, Inspect):
                self.channel.send(inspect(training, device, watched, order.types))
                continue
            assert isinstance(order, RunSteps)
            self.phase = order.phase
            start_cpu, start_ns = cpu_seconds(), clock_ns()
            for _ in range(order.steps):
                result = training.step()
            device.wait(result)  # devices run behind Python; without this the loop times the queueing
            end_ns, end_cpu = clock_ns(), cpu_seconds()
            self.channel.send(
                RoundDone(
                    start_ns=start_ns,
                    end_ns=end_ns,
                    cpu_seconds=end_cpu - start_cpu,
                    steps=order.steps,
                    samples=order.steps * training.samples_per_step,
                    loss=training.loss(result) if first and order.steps else None,
                )
            )
            first = first and not order.steps
        return result, order

    def failure(self, error: BaseException) -> Failed:
        out_of_memory = isinstance(error, MemoryError) or (
            self.device is not None and self.device.is_out_of_memory(error)
        )
        return Failed(
            phase=self.phase,
            status="oom" if out_of_memory else "failed",
            message=f"{type(error).__name__}: {error}"[:2000],
        )


def take_devices(channel: Channel, start: Start) -> ModuleType:
    """Bind this process to its place, import the framework, and tell the harness what was found."""
    place = start.place
    if place.cores:
        os.sched_setaffinity(0, place.cores)
    load_package(start.package, Path(start.folder))
    os.environ.update(import_module(start.package).FRAMEWORK.environment(place))
    before = time.monotonic()
    device = import_module(f"{start.package}.device")
    device.take(start.case, place)
    channel.send(
        Started(
            pid=os.getpid(),
            python=sys.version.split()[0] + (" (debug build)" if hasattr(sys, "gettotalrefcount") else ""),
            versions=device.versions(),
            environment=recorded(os.environ),
            devices=device.observed(place),
            import_seconds=time.monotonic() - before,
        )
    )
    return device


def _verification(start: Start) -> ModuleType:
    return import_module(f"{start.package}.verification")


def _exit(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
