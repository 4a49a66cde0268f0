"""The harness's side of the sampler: starts and stops its process, and reads what it wrote."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from gpubench.spec.case import Device
from gpubench.spec.record import METRICS, DeviceTelemetry, Round, Telemetry
from gpubench.telemetry.attribution import HOLE_PERIODS, attribute
from gpubench.telemetry.readings import Readings, Window
from gpubench.telemetry.sampling import GRACE_SECONDS, Settings, settings_to_line
from gpubench.telemetry.source import Header

START_SECONDS = 30.0  # without persistence mode a driver takes seconds for each GPU
SILENCE_SECONDS = 2.0  # a sampler that is later than this is said to be silent


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
                    [sys.executable, "-m", "gpubench.telemetry.sampling"],
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

    def telemetry(self, devices: Sequence[Device], rounds: Sequence[Round], since_ns: int, until_ns: int) -> Telemetry:
        """The series of `devices` from `since_ns` to `until_ns`, and what it comes to in each of `rounds`.

        Waits a few periods at most, for the samples that lie just behind the last edge.
        """
        until_ns = min(until_ns, time.monotonic_ns())
        self._wait_for(devices, until_ns)
        sources = {header.source: header for header in map(self._header, devices) if header}
        reasons = [header.reason for header in sources.values()] + [self._trouble(devices, until_ns)]
        return Telemetry(
            source=" and ".join(sources) or None,
            period_seconds=self._period_seconds,
            reason=next((reason for reason in reasons if reason), None),
            devices=[
                self._device(device, header, rounds, since_ns, until_ns)
                for device in devices
                if (header := self._header(device)) and header.reason is None
            ],
        )

    def latest(self) -> dict[str, dict[str, float | None]]:
        """The newest values, by device id and metric."""
        self._readings.update()
        return self._readings.newest()

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

    def _device(
        self, device: Device, header: Header, rounds: Sequence[Round], since_ns: int, until_ns: int
    ) -> DeviceTelemetry:
        window = self._readings.window(device.id, since_ns, until_ns)
        period_ns = round(self._period_seconds * 1e9)
        average_seconds = header.power_average_seconds.get(device.id, 0.0)
        attributed = []
        for one in rounds:
            around = self._readings.window(device.id, one.start_ns, one.end_ns, margin=HOLE_PERIODS)
            attributed.append(attribute(one, around.time_ns, around.series, period_ns, average_seconds))
        return DeviceTelemetry(
            id=device.id,
            name=device.name,
            rounds=attributed,
            time_ns=window.time_ns,
            series=window.series,
            unavailable=_unavailable(window, header.unavailable.get(device.id, {})),
            methods=dict(header.methods.get(device.id, {})),
        )

    def _header(self, device: Device) -> Header | None:
        source = "nvml" if device.kind == "gpu" else "cpu"
        return next((header for header in self._readings.headers if header.source == source), None)

    def _wait_for(self, devices: Sequence[Device], until_ns: int) -> None:
        """Until each device that is sampled has a sample at `until_ns` or later, or there is no hope of one."""
        patience_ns = round((SILENCE_SECONDS + 3 * self._period_seconds) * 1e9)
        begun_ns = until_ns
        while not self._is_complete(devices, until_ns) and self._process and self._process.poll() is None:
            now_ns = time.monotonic_ns()
            if not self._readings.headers:
                begun_ns, patience_end_ns = now_ns, self._started_ns + START_SECONDS * 1e9
            else:
                patience_end_ns = begun_ns + patience_ns
            if now_ns > patience_end_ns:
                return
            time.sleep(min(0.02, self._period_seconds / 4))
        self._readings.update()  # what it wrote before it ended

    def _is_complete(self, devices: Sequence[Device], until_ns: int) -> bool:
        self._readings.update()
        return bool(self._readings.headers) and all(
            (self._readings.newest_ns(device.id) or 0) >= until_ns for device in devices if self._is_sampled(device)
        )

    def _is_sampled(self, device: Device) -> bool:
        header = self._header(device)
        if header is None or header.reason is not None or device.id not in self._ids:
            return False
        return set(METRICS) > set(header.unavailable.get(device.id, {}))

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
            lines = self._log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return f": {lines[-1]}" if lines else ""


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _unavailable(window: Window, lasting: Mapping[str, str]) -> dict[str, str]:
    """Why values are missing from the window, by metric."""
    reasons = dict(lasting)
    for metric in METRICS:
        values = window.series.get(metric, [])
        n_missing = sum(value is None for value in values)
        if metric in lasting:
            continue
        if not values:
            reasons[metric] = "no sample fell into this time"
        elif n_missing:
            why = window.problems.get(metric, "no reason was given")
            reasons[metric] = f"{n_missing} of {len(values)} samples failed: {why}"
    return reasons
