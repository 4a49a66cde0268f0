"""Clocks that may be wrong: waiting that ends although one steps back, and signs that the machine stood still."""

from __future__ import annotations

import time

TICK_SECONDS = 5.0


class Countdown:
    """So many seconds of waiting, counted in ticks by `left`, which is to be asked at least every TICK_SECONDS.

    Time in which nobody asked counts as one tick at most: the process was stopped (Ctrl-Z), the machine suspended, or
    the clock jumped. A clock that steps back counts as nothing.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._before = time.monotonic()

    def left(self) -> float:
        """Seconds that are left; 0 or less once they are over."""
        now = time.monotonic()
        self._left -= min(max(0.0, now - self._before), TICK_SECONDS)
        self._before = now
        return self._left


def now_ns() -> tuple[int, int]:
    """Nanoseconds by the clock that all is timed with, and by one that goes on while the machine is suspended."""
    return time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def apart_seconds(before: tuple[int, int], after: tuple[int, int]) -> float:
    """By how much the two clocks went apart in between; 0 but for a suspended machine or a clock that was set."""
    return abs((after[1] - before[1]) - (after[0] - before[0])) / 1e9
