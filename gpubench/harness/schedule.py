"""In which order launches run, and which of them are still to run where a run is continued."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from gpubench.spec.record import RunRecord

if TYPE_CHECKING:
    from gpubench.harness.plan import Runnable

T = TypeVar("T")


def interleaved(cases: Sequence[T], launches: int, seed: int) -> Iterator[tuple[T, int]]:
    """Each case once in a shuffled order, then all again, `launches` times; the order comes from the seed alone.

    So a machine that drifts falls on all cases alike.
    """
    shuffle = random.Random(seed).shuffle
    for launch in range(1, launches + 1):
        block = list(cases)
        shuffle(block)
        for case in block:
            yield case, launch


def missing(
    runnable: Sequence[Runnable], launches: int, seed: int, records: Iterable[RunRecord]
) -> list[tuple[Runnable, int]]:
    """What a continued run still has to do, in the order in which the whole run would have done it.

    A launch is done once a record says that the same case ended well on the same devices: it is not repeated. One that
    failed runs again, as with `make`: whoever continues a run has seen it fail, and may have mended the cause. Its
    earlier record stays. A launch of a pair does not count: it ran beside another.
    """
    alone = (record for record in records if record.schedule is None or record.schedule.pair_id is None)
    done = {(record.case, tuple(record.devices), record.launch) for record in alone if record.outcome.status == "ok"}
    return [
        (one, launch)
        for one, launch in interleaved(runnable, launches, seed)
        if (one.case, one.devices, launch) not in done
    ]


def missing_pairs(
    paired: Sequence[Runnable], numbers: Iterable[int], records: Iterable[RunRecord]
) -> list[tuple[Runnable, int]]:
    """The pairs of launches, each named by its gang, that are still to run."""
    gangs = (record for record in records if record.schedule and record.schedule.paired_as == "gang")
    done = {(record.case, tuple(record.devices), record.launch) for record in gangs if record.outcome.status == "ok"}
    return [(one, number) for number in numbers for one in paired if (one.case, one.devices, number) not in done]
