"""The driver's own record of utilisation: every window of it, where polling would see only some.

The stamps of nvmlDeviceGetSamples are microseconds of a clock that nvml.h does not name; it is found out.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from gpubench.telemetry.nvml import binding, explain

UTILIZATION = 1  # NVML_GPU_UTILIZATION_SAMPLES
SECOND_NS = 10**9
CLOCKS = (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)
NOT_FOUND = 6  # the buffer holds nothing: an idle GPU's, or one that the driver does not fill
OLDEST_NS = 30 * SECOND_NS  # older than this, the newest stamp is of another clock


class History:
    """One GPU's buffer. Where it cannot be read, or its clock is unknown, `reason` says why."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._last_us = 0
        self._last_ns = time.monotonic_ns()
        self._clock: int | None = None
        self.reason: str | None = None
        try:
            stamps = [sample.timeStamp for sample in binding().nvmlDeviceGetSamples(handle, UTILIZATION, 0)[1]]
        except Exception as error:
            if getattr(error, "value", None) != NOT_FOUND:
                self.reason = explain(error)
            return
        self._find_clock(max(stamps, default=0))

    def look(self) -> None:
        """Read the buffer as `drain` does, to see how long that takes."""
        with suppress(Exception):
            binding().nvmlDeviceGetSamples(self._handle, UTILIZATION, self._last_us)

    def drain(self, snapshot: float | None) -> list[tuple[int, float]]:
        """What is new: (time in ns, percent since the time before). An idle GPU has nothing new: then `snapshot`.

        Nothing where the buffer has always been empty, or has stamps of an unknown clock.
        """
        try:
            samples = binding().nvmlDeviceGetSamples(self._handle, UTILIZATION, self._last_us)[1]
        except Exception:
            samples = []
        if self._clock is None and samples:
            self._find_clock(max(sample.timeStamp for sample in samples))
        if self._clock is None:
            return []
        if not samples:
            return self._stand_in(snapshot)
        ahead_ns = time.clock_gettime_ns(self._clock) - time.monotonic_ns()
        new = [sample for sample in samples if sample.timeStamp > self._last_us]
        self._last_us = max(sample.timeStamp for sample in samples)
        points = sorted((s.timeStamp * 1000 - ahead_ns, float(s.sampleValue.uiVal)) for s in new)
        points = [(time_ns, percent) for time_ns, percent in points if percent <= 100]  # more is no utilisation
        if points:
            self._last_ns = points[-1][0]
        return points

    def _stand_in(self, snapshot: float | None) -> list[tuple[int, float]]:
        now_ns = time.monotonic_ns()
        if snapshot is None or now_ns - self._last_ns < SECOND_NS:
            return []
        self._last_ns = now_ns
        return [(now_ns, snapshot)]

    def _find_clock(self, newest_us: int) -> None:
        """The clock that the newest stamp is the closest behind of."""
        ages = {clock: time.clock_gettime_ns(clock) - newest_us * 1000 for clock in CLOCKS}
        near = {clock: age for clock, age in ages.items() if -SECOND_NS // 10 <= age <= OLDEST_NS}
        self._clock = min(near, key=lambda clock: near[clock]) if near else None
