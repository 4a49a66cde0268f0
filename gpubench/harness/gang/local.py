"""A gang of processes on this machine."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

import gpubench
from gpubench.harness import interrupts
from gpubench.harness.gang.launch import GangError, Launch
from gpubench.harness.gang.log import Log, start
from gpubench.harness.gang.surroundings import surroundings
from gpubench.harness.outcomes import TAIL_BYTES, Ending, garbled, judge, oom_kills
from gpubench.harness.scratch import scratch_folder
from gpubench.spec.case import Device
from gpubench.spec.messages import MESSAGE_FD_VARIABLE, Failed, Order, Report, from_line, to_line
from gpubench.spec.record import Phase
from gpubench.telemetry.clocks import TICK_SECONDS, Countdown

WORKER = Path(gpubench.__file__).parent / "worker" / "__main__.py"
SETTLE_SECONDS = 1.0  # after one rank failed: time for the others' last words, which tell who was first
END_SECONDS = 10.0  # after SIGKILL; a process that hangs within a driver may never end
LONGEST_LINE = 1 << 20


def visibility(gpus: Sequence[Device]) -> dict[str, str]:
    """The variables that show a rank the GPUs of its case, in the case's order, and no other, of no other vendor."""
    ids = ",".join(gpu.id for gpu in gpus)
    if gpus[0].vendor == "amd":
        # HIP counts among what ROCm's own variable left, and reads CUDA's where its own is empty.
        numbers = ",".join(map(str, range(len(gpus))))
        return {"ROCR_VISIBLE_DEVICES": ids, "HIP_VISIBLE_DEVICES": numbers, "CUDA_VISIBLE_DEVICES": ""}
    order = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return {"CUDA_DEVICE_ORDER": order, "CUDA_VISIBLE_DEVICES": ids}


def _readable_at_end_of(pid: int) -> int:
    """A descriptor that is at its end once this child has ended. It is not reaped by that: its exit code stays.

    A thread waits for the child, since `pidfd_open` is missing in old kernels and forbidden in many sandboxes.
    """
    reading, writing = os.pipe()

    def wait() -> None:
        with contextlib.suppress(ChildProcessError):  # it was reaped before this thread came to it
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.close(writing)

    start(threading.Thread(target=wait, name=f"wait for {pid}", daemon=True))
    return reading


class Rank:
    """One process: its orders, its messages, and its log."""

    def __init__(self, index: int, launch: Launch, log: Path) -> None:
        self.index = index
        self.buffer = b""
        self.reports: list[Report] = []
        self.last_words: Failed | None = None
        self.log = Log(log)
        self._oom_kills = oom_kills()
        messages, theirs = os.pipe()
        self.messages = messages
        os.set_blocking(messages, False)
        environment = {**surroundings(os.environ), MESSAGE_FD_VARIABLE: str(theirs), "PYTHONUNBUFFERED": "1"}
        if launch.case.device_kind == "gpu":
            environment |= visibility(launch.devices)
        try:
            self.process = subprocess.Popen(
                [launch.python, "-P", WORKER],
                stdin=subprocess.PIPE,
                stdout=self.log.writing,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs],
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            os.close(messages)
            raise
        finally:
            os.close(theirs)
            os.close(self.log.writing)
        try:
            self.end_fd = _readable_at_end_of(self.process.pid)
        except OSError:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise

    def order(self, message: Order) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a dead rank is found by its end, and judged there
            self.process.stdin.write(to_line(message).encode())
            self.process.stdin.flush()

    def read(self) -> bool:
        """Take in what has arrived; False once the rank has closed its end. ValueError where it is no message."""
        try:
            chunk = os.read(self.messages, 1 << 16)
        except BlockingIOError:
            return True
        self.buffer += chunk
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            message = from_line(line)
            if isinstance(message, Failed):
                self.last_words = message
            else:
                self.reports.append(message)  # type: ignore[arg-type]
        if len(self.buffer) > LONGEST_LINE:
            raise ValueError("a worker sent a line without end")
        return bool(chunk)

    def ending(self) -> Ending:
        return Ending(
            rank=self.index,
            exit_code=self.process.poll(),
            last_words=self.last_words,
            log=self.log.path,
            printed=self.log.last(TAIL_BYTES),
            stopped=self._stopped(),
            oom_kills=oom_kills() - self._oom_kills,
        )

    def _stopped(self) -> bool:
        try:
            return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED
        except psutil.Error:
            return False

    def kill(self) -> None:
        """End the rank and whatever it started."""
        descendants: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(self.process.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for process in descendants:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        os.close(self.messages)
        os.close(self.end_fd)
        self.log.close()


class LocalGang:
    """The ranks of one launch on this machine. Use as a context manager: nothing is left running behind it."""

    def __init__(self, launch: Launch, logs: Sequence[Path]) -> None:
        self.launch = launch
        self.logs = logs
        self.ranks: list[Rank] = []
        self.scratch = Path()
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self.scratch = self._closing.enter_context(scratch_folder())
        try:
            orders = self.launch.orders(self.address())
            for index, (order, log) in enumerate(zip(orders, self.logs, strict=True)):
                with interrupts.deferred():
                    self.ranks.append(Rank(index, self.launch, log))
                self.ranks[-1].order(order)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def address(self, training: int = 0) -> str:
        """Where ranks meet for their first, second, … training, as a URL: odd characters are percent-encoded."""
        return (self.scratch / f"rendezvous{training}").as_uri()

    @property
    def pids(self) -> list[int]:
        return [rank.process.pid for rank in self.ranks]

    def order(self, message: Order) -> None:
        """The same order to every rank, as nearly at once as pipes allow: this is the barrier before a round."""
        for rank in self.ranks:
            rank.order(message)

    def gather(self, phase: Phase, deadline_seconds: float) -> list[Report]:
        """The next report of every rank, in rank order. GangError where one fails, ends or is late."""
        deadline = Countdown(deadline_seconds)
        settled: Countdown | None = None
        with selectors.DefaultSelector() as selector:
            for rank in self.ranks:
                selector.register(rank.messages, selectors.EVENT_READ, rank)
                selector.register(rank.end_fd, selectors.EVENT_READ, rank)
            while not all(rank.reports for rank in self.ranks) or settled is not None:
                left = (deadline if settled is None else settled).left()
                if settled is not None and (left <= 0 or self._all_ended()):
                    raise GangError(judge([rank.ending() for rank in self.ranks], phase))
                for key, _ in selector.select(min(max(0.0, left), TICK_SECONDS)):
                    rank = key.data
                    try:
                        open_still = rank.read() if key.fd == rank.messages else True
                    except (ValueError, RecursionError) as error:
                        raise GangError(garbled(rank.ending(), len(self.ranks), phase, error)) from error
                    if key.fd == rank.end_fd or not open_still:
                        selector.unregister(key.fileobj)
                    ended = key.fd == rank.end_fd and not rank.reports
                    if (rank.last_words or ended) and settled is None:
                        settled = Countdown(SETTLE_SECONDS)
                late = [rank.index for rank in self.ranks if not rank.reports]
                if left <= 0 and late:  # asked last: what came while the harness was stopped (Ctrl-Z) is in time
                    raise GangError(judge([rank.ending() for rank in self.ranks], phase, late, deadline_seconds))
        return [rank.reports.pop(0) for rank in self.ranks]

    def _all_ended(self) -> bool:
        return all(rank.process.poll() is not None for rank in self.ranks)

    def wait(self, seconds: float) -> None:
        """Give ranks that have said their last word time to end by themselves."""
        deadline = Countdown(seconds)
        for rank in self.ranks:
            while (left := deadline.left()) > 0 and rank.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    rank.process.wait(min(left, TICK_SECONDS))

    def end(self) -> None:
        """End every process of the gang, and take its scratch folder away."""
        with interrupts.deferred():
            for rank in self.ranks:
                rank.kill()
            for rank in self.ranks:
                rank.close()
            self.ranks = []
            self._closing.close()
