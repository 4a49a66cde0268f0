"""How often calls into a driver are made, and what they take: alike for GPUs of every vendor.

Calls are in three tiers: at every tick, every second, every five seconds. A tier may take a fifth of its period, over
all GPUs. Where a driver is so slow that the calls of one take longer, those at the end of its list move to the next
one, and out of the last one they are not made at all: each is named with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

SLOW_NS = 1_000_000_000
RARE_NS = 5_000_000_000
SLOW_CALL_SECONDS = 0.001  # a call that takes longer is not made at every sweep
TIMED_CALLS = 3
VERY_SLOW_CALL_SECONDS = 0.02  # one of these is timed once
LARGEST_SHARE = 0.2  # of its period that a sweep, or a tier of calls, may take
EARLY_NS = 50_000_000  # a tick that comes so little before what is due makes it
T = TypeVar("T")


@dataclass(frozen=True)
class Tiers(Generic[T]):
    """What is read at every tick, every second, every five seconds, and not at all.

    `rare_seconds` is what those of every five seconds take, over all GPUs.
    """

    fast: list[T]
    slow: list[T]
    rare: list[T]
    left_out: list[T]
    rare_seconds: float

    @property
    def rare_ns(self) -> int:
        """Between two readings of the last tier: longer than five seconds where even its first call is too slow."""
        return max(RARE_NS, round(self.rare_seconds / LARGEST_SHARE * 1e9))

    @property
    def period_ns(self) -> int:
        """Between two readings of the first call; 0 where that is read at every tick."""
        return 0 if self.fast else SLOW_NS if self.slow else self.rare_ns


def tiers(fast: Sequence[T], slow: Sequence[T], rare: Sequence[T], seconds: Callable[[T], float], n: int) -> Tiers[T]:
    """The calls of one of `n` GPUs, by what each takes. The first of all is always made, however slow."""
    kept = [one for one in fast if seconds(one) <= SLOW_CALL_SECONDS]
    every_second: list[T] = []
    later: list[T] = []
    used = 0.0
    for one in [*(one for one in fast if one not in kept), *slow]:
        used += n * seconds(one)
        (every_second if used <= LARGEST_SHARE * SLOW_NS / 1e9 else later).append(one)
    seldom: list[T] = []
    left_out: list[T] = []
    used = 0.0
    for one in [*later, *rare]:
        fits = used + n * seconds(one) <= LARGEST_SHARE * RARE_NS / 1e9
        if fits or not (kept or every_second or seldom):
            used += n * seconds(one)
            seldom.append(one)
        else:
            left_out.append(one)
    return Tiers(kept, every_second, seldom, left_out, used)


def too_slow(seconds: float) -> str:
    """Why a call is left out that takes so long."""
    return f"one call takes {1e3 * seconds:.0f} ms with this driver: it is left out, so that the others can be read"


class Due:
    """What is due at a sweep: slow calls every second, rare ones every five, and both at the edge of a round.

    `of` are the tiers of each GPU, which may be longer apart where the driver is slow.
    """

    def __init__(self, of: Sequence[Tiers[T]] = ()) -> None:
        self._next_slow_ns = self._next_rare_ns = 0
        self._rare_ns = max((one.rare_ns for one in of), default=RARE_NS)
        self._slow_ns = SLOW_NS if not of or any(one.fast or one.slow for one in of) else self._rare_ns

    def take(self, edge: bool) -> tuple[bool, bool]:
        """Whether slow and whether rare calls are due now; they are taken to be made."""
        now_ns = time.monotonic_ns()
        rare = edge or now_ns + EARLY_NS >= self._next_rare_ns
        slow = rare or now_ns + EARLY_NS >= self._next_slow_ns
        self._next_slow_ns = now_ns + self._slow_ns if slow else self._next_slow_ns
        self._next_rare_ns = now_ns + self._rare_ns if rare else self._next_rare_ns
        return slow, rare


def timed(known: dict[str, float], name: str, call: Callable[[], object]) -> float:
    """What a call takes, in seconds, the median of a few; timed once for each name, and kept in `known`."""
    if name not in known:
        took_ns = []
        for _ in range(TIMED_CALLS):
            start_ns = time.perf_counter_ns()
            call()
            took_ns.append(time.perf_counter_ns() - start_ns)
            if took_ns[-1] > VERY_SLOW_CALL_SECONDS * 1e9:
                break
        known[name] = median(took_ns) / 1e9
    return known[name]


def medians(of_gpus: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """By call, the median over the GPUs that make it."""
    names = {name for seconds in of_gpus for name in seconds}
    return {name: median(seconds[name] for seconds in of_gpus if name in seconds) for name in sorted(names)}
