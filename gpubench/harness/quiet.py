"""Waiting until nobody else uses the devices."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol

BUSY_PERCENT = 5.0  # a device is quiet below this
QUIET_SECONDS = 1.5  # for so long
POLL_SECONDS = 0.1


class Readings(Protocol):
    """The sampler's newest values, by device id and metric."""

    def latest(self) -> dict[str, dict[str, float | None]]: ...


def wait(readings: Readings, device_ids: Iterable[str], limit_seconds: float) -> tuple[bool, float]:
    """Wait until all devices have been quiet for a while; returns whether they were, and the seconds waited.

    Called while nothing of ours runs, so that all load is somebody else's. A device whose load cannot be read is
    taken to be quiet: there is nothing to wait for.
    """
    ids = list(device_ids)
    began = quiet_since = time.monotonic()
    while True:
        now = time.monotonic()
        newest = readings.latest()
        loads = [newest.get(device, {}).get("utilization_percent") for device in ids]
        if any(load is not None and load > BUSY_PERCENT for load in loads):
            quiet_since = now
        if now - quiet_since >= QUIET_SECONDS:
            return True, now - began
        if now - began >= limit_seconds:
            return False, now - began
        time.sleep(POLL_SECONDS)
