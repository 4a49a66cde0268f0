"""Waiting until nobody else uses the devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol

BUSY_PERCENT = 5.0  # a device is quiet below this
QUIET_SECONDS = 1.5  # for so long
POLL_SECONDS = 0.1


class Readings(Protocol):
    """The sampler's newest values, by device id and metric, of devices that were read since then."""

    def latest(self, since_ns: int) -> dict[str, dict[str, float | None]]: ...


def wait(
    readings: Readings,
    device_ids: Iterable[str],
    limit_seconds: float,
    tell: Callable[[str], None] = lambda text: None,
) -> tuple[bool | None, float]:
    """Wait until all devices have been quiet for a while; returns whether they were, and the seconds waited.

    None where the load of a device could not be read, so that nobody knows; the others are waited for all the same.
    Called while nothing of ours runs, so that all load is somebody else's. `tell` is told once, where there is a wait.
    """
    ids = list(device_ids)
    began_ns = time.monotonic_ns()  # what was read before may be our own load
    began = quiet_since = time.monotonic()
    read: set[str] = set()
    told = False
    while True:
        now = time.monotonic()
        newest = readings.latest(began_ns)
        loads = {id: load for id in ids if (load := newest.get(id, {}).get("utilization_percent")) is not None}
        read |= loads.keys()
        busy = {id: load for id, load in loads.items() if load > BUSY_PERCENT}
        if busy:
            quiet_since = now
        if now - quiet_since >= QUIET_SECONDS:
            return True if read == set(ids) else None, now - began
        if now - began >= limit_seconds:
            return False, now - began
        if busy and not told:
            told = True
            id, load = max(busy.items(), key=lambda item: item[1])
            tell(f"Waiting up to {limit_seconds:.0f} s for quiet devices: {id} is {load:.0f} % busy.")
        time.sleep(POLL_SECONDS)
