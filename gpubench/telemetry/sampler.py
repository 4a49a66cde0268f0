"""The harness's side of the sampler: starts and stops its process, and reads what it wrote."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gpubench.spec.case import Device
from gpubench.spec.record import GPU_METRICS, METRICS, DeviceTelemetry, Round, Telemetry
from gpubench.telemetry.attribution import attribute
from gpubench.telemetry.clocks import Countdown
from gpubench.telemetry.cost import cost_of
from gpubench.telemetry.nvml import system_from_dict
from gpubench.telemetry.readings import Readings, Window
from gpubench.telemetry.sampling import EDGE, GRACE_SECONDS, PAUSE, RESUME, Settings, settings_to_line
from gpubench.telemetry.source import Header, source_of

START_SECONDS = 30.0  # without persistence mode a driver takes seconds for each GPU
SILENCE_SECONDS = 2.0  # a sampler that is later than this is said to be silent
EDGE_SECONDS = 0.25
LONGEST_EDGE_SECONDS = 10.0  # what a slow driver is waited for at most; its edges may take a third of that
HISTORY_SECONDS = 1.5  # the driver's utilisation comes that late: a window of up to 1 s
HISTORY_CHECK_SECONDS = 0.2
IN_SERIES = {*METRICS, *GPU_METRICS}
LARGEST_SWEPT_SHARE = 0.02  # of a control round; above, it was not one
MARGIN_SECONDS = 1.2  # on each side of a round: counters are read once a second at least
LAST_BYTES = 1 << 16  # of what the sampler has said


class Sampler:
    """One process that samples `devices` into a file in `folder`, for as long as the run lasts.

    Nothing here raises because of a device or a driver: what could not be sampled has its reason in the telemetry.
    """

    def __init__(self, devices: Sequence[Device], folder: Path, period_seconds: float = 0.1) -> None:
        self._devices = tuple({device.id: device for device in devices}.values())
        self._ids = {device.id for device in devices}
        self._period_seconds = period_seconds
        self._path = folder / f"samples-{time.monotonic_ns()}.jsonl"
        self._log = self._path.with_suffix(".log")
        self._readings = Readings(self._path)
        self._process: subprocess.Popen[str] | None = None
        self._started_ns = 0
        self._stopped = False
        self._unanswered_ns: int | None = None  # when an edge was asked for that did not come in time
        self._paused_ns: int | None = None
        self._pauses: list[tuple[int, int]] = []
        self._reason: str | None = "the sampler was not started"

    def __enter__(self) -> Sampler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Returns at once; the first sample comes when the driver has answered."""
        settings = Settings(
            devices=self._devices,
            path=str(self._path),
            period_ns=round(self._period_seconds * 1e9),
            parent_pid=os.getpid(),
        )
        self._started_ns = time.monotonic_ns()
        try:
            with self._log.open("w") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "gpubench.telemetry.sampling"],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for the harness, which stops it when the ranks have ended
                )
        except OSError as error:
            self._reason = f"the sampler could not be started: {error}"
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; the telemetry will say with what
            self._process.stdin.write(settings_to_line(settings))
            self._process.stdin.flush()
        os.set_blocking(self._process.stdin.fileno(), False)

    def wait_until_ready(self) -> None:
        """Until the driver has answered, or there is no hope of it: rounds before that would have no samples."""
        self._wait_for(self._devices, self._started_ns)

    def edge(self) -> None:
        """Have everything read at once: to be called just before a round starts and as soon as it has ended.

        Returns when that was done, or after a quarter of a second, or three times what it took at the start where that
        is longer. A sampler that did not answer is not waited for again until it has.
        """
        if self._paused_ns is not None:
            return
        asked_ns = time.monotonic_ns()
        self._order(EDGE)
        if self._unanswered_ns is not None and not self._is_complete(self._devices, self._unanswered_ns):
            return
        self._unanswered_ns = None
        patience = Countdown(min(max(EDGE_SECONDS, 3e-9 * self._readings.edge_ns), LONGEST_EDGE_SECONDS))
        while not self._is_complete(self._devices, asked_ns):
            has_ended = self._process is None or self._process.poll() is not None
            if has_ended or patience.left() < 0:
                self._unanswered_ns = asked_ns
                return
            time.sleep(0.002)

    def pause(self) -> None:
        """Read nothing until `resume`: for a round that shows what sampling costs."""
        self._paused_ns = time.monotonic_ns()
        self._order(PAUSE)

    def resume(self) -> None:
        if self._paused_ns is not None:
            self._pauses.append((self._paused_ns, time.monotonic_ns()))
        self._paused_ns = None
        self._order(RESUME)

    def telemetry(
        self,
        devices: Sequence[Device],
        rounds: Sequence[Round],
        since_ns: int,
        until_ns: int,
        control: Round | None = None,
    ) -> Telemetry:
        """The series of `devices` from `since_ns` to `until_ns`, and what it comes to in each of `rounds`.

        `control` is a round that was run while sampling was paused. Waits for the samples that lie just behind the
        last edge, and for the driver's utilisation, which comes up to 1.5 s late.
        """
        until_ns = min(until_ns, time.monotonic_ns())
        self._order(EDGE)
        self._wait_for(devices, until_ns)
        self._wait_for_history(devices, max((one.end_ns for one in rounds), default=0))
        sources = {header.source: header for header in map(self._header, devices) if header}
        reasons = [header.reason for header in sources.values()] + [self._trouble(devices, until_ns)]
        return Telemetry(
            source=" and ".join(sources) or None,
            period_seconds=self._sampled_period_ns / 1e9,
            reason=next((reason for reason in reasons if reason), None),
            devices=[
                self._device(device, header, rounds, since_ns, until_ns)
                for device in devices
                if (header := self._header(device)) and header.reason is None
            ],
            system=next((system_from_dict(header.system) for header in sources.values() if header.system), None),
            cost=cost_of(
                self._readings,
                list(sources.values()),
                since_ns,
                until_ns,
                round(self._period_seconds * 1e9),
                self._pauses,
            ),
            other_xids=self._readings.xids_but_of({device.id for device in devices}, since_ns, until_ns),
            control=control if self._was_left_alone(control) else None,
        )

    def latest(self, since_ns: int = 0) -> dict[str, dict[str, float | None]]:
        """The newest values, by device id and metric; of devices that were read since then."""
        self._readings.update()
        newest = self._readings.newest()
        return {id: values for id, values in newest.items() if (self._readings.newest_ns(id) or 0) >= since_ns}

    def methods(self) -> dict[str, dict[str, str]]:
        """What is read for each metric, by device id: a power may be an average, a memory hold the driver's own."""
        self._readings.update()
        return {id: dict(methods) for header in self._readings.headers for id, methods in header.methods.items()}

    def stop(self) -> None:
        """Ask the process to end, and kill it only if it does not: within the driver that can do harm."""
        if self._process is None or self._stopped:
            return
        self._stopped = self._process.poll() is None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it was gone already
            self._process.stdin.close()
        for deadline_seconds in (GRACE_SECONDS + 1, 1):
            try:
                self._process.wait(deadline_seconds)
                return
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _was_left_alone(self, control: Round | None) -> bool:
        """Whether no sweep, as a slow driver may make one long, reached far into the control round."""
        if control is None:
            return True
        start_ns, end_ns = control.start_ns, control.end_ns
        inside = (min(end_ns, s.time_ns + s.took_ns) - max(start_ns, s.time_ns) for s in self._readings.sweeps)
        return sum(max(0, ns) for ns in inside) <= LARGEST_SWEPT_SHARE * (end_ns - start_ns)

    def _device(
        self, device: Device, header: Header, rounds: Sequence[Round], since_ns: int, until_ns: int
    ) -> DeviceTelemetry:
        window = self._readings.window(device.id, since_ns, until_ns)
        margin = math.ceil(MARGIN_SECONDS * 1e9 / self._sampled_period_ns)
        lasting, methods = header.unavailable.get(device.id, {}), header.methods.get(device.id, {})
        promised = set(methods) - set(lasting)
        attributed = []
        for one in rounds:
            around = self._readings.window(device.id, one.start_ns, one.end_ns, margin=margin)
            attributed.append(
                attribute(
                    one,
                    around.time_ns,
                    around.series,
                    self._sampled_period_ns,
                    power_average_seconds=header.power_average_seconds.get(device.id, 0.0),
                    power_limit_watts=header.power_limit_watts.get(device.id),
                    history=around.history,
                    gpm=around.gpm,
                    xids=around.xids,
                    promised=promised,
                    problems=around.problems,
                )
            )
        return DeviceTelemetry(
            id=device.id,
            name=device.name,
            rounds=attributed,
            time_ns=window.time_ns,
            series=with_history(window),
            xids=window.xids,
            unavailable=_unavailable(window, lasting, promised),
            methods=dict(methods),
        )

    @property
    def _sampled_period_ns(self) -> int:
        """As asked for, or longer where the driver is too slow for it."""
        return self._readings.period_ns or round(self._period_seconds * 1e9)

    def _order(self, command: str) -> None:
        if self._process is None or self._process.stdin is None or self._stopped:
            return
        # One that has ended, or hangs for so long that the pipe is full: the telemetry will say with what.
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._process.stdin.fileno(), f"{command}\n".encode())

    def _header(self, device: Device) -> Header | None:
        return next((header for header in self._readings.headers if header.source == source_of(device)), None)

    def _wait_for(self, devices: Sequence[Device], until_ns: int) -> None:
        """Until each device that is sampled has a sample at `until_ns` or later, or there is no hope of one."""
        for_answer = Countdown(START_SECONDS - _seconds_since(self._started_ns))
        for_samples, waited = None, _seconds_since(until_ns) if self._readings.headers else 0.0
        while not self._is_complete(devices, until_ns) and self._process and self._process.poll() is None:
            if self._readings.headers and for_samples is None:
                slow_ns = 3 * max(self._sampled_period_ns, self._readings.edge_ns)
                for_samples = Countdown(SILENCE_SECONDS + slow_ns / 1e9 - waited)
            if (for_samples or for_answer).left() < 0:
                return
            time.sleep(min(0.02, self._period_seconds / 4))
        self._readings.update()  # what it wrote before it ended

    def _wait_for_history(self, devices: Sequence[Device], until_ns: int) -> None:
        """Until the driver has told about the utilisation up to `until_ns`, where it tells at all."""
        patience = Countdown(HISTORY_SECONDS - _seconds_since(until_ns))
        while self._process and self._process.poll() is None and patience.left() > 0:
            newest = [self._readings.newest_history_ns(device.id) for device in devices]
            if all(time_ns is None or time_ns >= until_ns for time_ns in newest):
                return
            self._order(EDGE)
            time.sleep(HISTORY_CHECK_SECONDS)
            self._readings.update()

    def _is_complete(self, devices: Sequence[Device], until_ns: int) -> bool:
        self._readings.update()
        return bool(self._readings.headers) and all(
            (self._readings.newest_ns(device.id) or 0) >= until_ns for device in devices if self._is_sampled(device)
        )

    def _is_sampled(self, device: Device) -> bool:
        """Whether every sweep gives a sample of it, whatever the driver refuses of it."""
        header = self._header(device)
        return header is not None and header.reason is None and device.id in header.devices

    def _trouble(self, devices: Sequence[Device], until_ns: int) -> str | None:
        """Why samples up to `until_ns` are missing, if they are and no device is to blame."""
        if self._process is None:
            return self._reason
        if unknown := [device.id for device in devices if device.id not in self._ids]:
            return f"the sampler was not told of {', '.join(unknown)}"
        code = self._process.poll()
        if self._is_complete(devices, until_ns) or (self._stopped and code == 0):
            return None
        if code is not None:
            return f"the sampler ended with {_ending(code)}{self._last_words()}"
        if not self._readings.headers:
            return f"the sampler has not answered; a call into the driver may hang{self._last_words()}"
        return "the sampler fell silent before the end; a call into the driver may hang"

    def _last_words(self) -> str:
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - LAST_BYTES))
                lines = file.read(LAST_BYTES).decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""


def _seconds_since(time_ns: int) -> float:
    """0 where the clock has stepped back meanwhile."""
    return max(0.0, (time.monotonic_ns() - time_ns) / 1e9)


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def with_history(window: Window) -> dict[str, list[float | None]]:
    """The series, with the utilisation that the driver's buffer gives for each time, where it does."""
    if not window.history:
        return window.series
    stamps = [time_ns for time_ns, _ in window.history]
    polled = window.series.get("utilization_percent", [None] * len(window.time_ns))
    busy: list[float | None] = []
    for time_ns, value in zip(window.time_ns, polled, strict=True):
        place = bisect_left(stamps, time_ns)  # each tells about the time since the one before
        known = 0 < place < len(stamps)
        busy.append(window.history[place][1] if known else value)
    return {**window.series, "utilization_percent": busy}


def _unavailable(window: Window, lasting: Mapping[str, str], promised: Set[str]) -> dict[str, str]:
    """Why values are missing from the window, by metric."""
    reasons = dict(lasting)
    for metric in sorted(promised & IN_SERIES):
        if not window.series.get(metric):
            reasons[metric] = "no sample fell into this time"
    for metric, n_failed in window.failed.items():
        n_held = sum(value is None for value in window.series.get(metric, []))
        reasons[metric] = f"{n_failed} readings failed, {n_held} samples are without it: {window.problems[metric]}"
    return reasons
