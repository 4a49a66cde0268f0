"""How often calls into a driver are made, and what they take: alike for GPUs of every vendor."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

SLOW_NS = 1_000_000_000
RARE_NS = 5_000_000_000
SLOW_CALL_SECONDS = 0.001  # a call that takes longer is not made at every sweep
TIMED_CALLS = 3


class Due:
    """What is due at a sweep: slow calls every second, rare ones every five, and both at the edge of a round."""

    def __init__(self) -> None:
        self._next_slow_ns = self._next_rare_ns = 0

    def take(self, edge: bool) -> tuple[bool, bool]:
        """Whether slow and whether rare calls are due now; they are taken to be made."""
        now_ns = time.monotonic_ns()
        slow, rare = edge or now_ns >= self._next_slow_ns, edge or now_ns >= self._next_rare_ns
        self._next_slow_ns = now_ns + SLOW_NS if slow else self._next_slow_ns
        self._next_rare_ns = now_ns + RARE_NS if rare else self._next_rare_ns
        return slow, rare


def timed(known: dict[str, float], name: str, call: Callable[[], object]) -> float:
    """What a call takes, in seconds, the median of a few; timed once for each name, and kept in `known`."""
    if name not in known:
        took_ns = []
        for _ in range(TIMED_CALLS):
            start_ns = time.perf_counter_ns()
            call()
            took_ns.append(time.perf_counter_ns() - start_ns)
        known[name] = median(took_ns) / 1e9
    return known[name]


def medians(of_gpus: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By call, the median over the GPUs that make it."""
    names = {name for seconds in of_gpus for name in seconds}
    return {name: median(seconds[name] for seconds in of_gpus if name in seconds) for name in sorted(names)}
