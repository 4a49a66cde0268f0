"""What a run's file lacks, as the records that are there tell of it: launches that were planned, and earlier records.

What nobody can read may be what nobody was to see: a run that lacks anything, for whatever reason, is not a whole one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, islice
from typing import Any

from gpubench.spec.invariants.together import Launched

TOLD = 5


def was_launched(record: Launched) -> bool:
    """Whether a launch was started. Of a case that could not run there is a record without a launch, and no round."""
    skipped = record.outcome.status == "skipped"
    return not skipped or bool(record.windows_ns) or record.schedule is not None


def missing_launches(records: Sequence[Launched]) -> dict[str, str]:
    """Which launches were planned and have no record, in words, by the id of each record that is there of such a case.

    `records` are those of one run, of all its sessions. Where intervals were to become narrow, there are as many
    launches as that took, so that of those beyond the plan only the ones before the last can be told to be missing.
    Launches of a pair are numbered by themselves.
    """
    groups: dict[Any, list[Launched]] = defaultdict(list)
    gangs: dict[str | None, Launched] = {}
    baselines = set()
    for record in records:
        schedule = record.schedule
        if schedule is None:
            continue
        if schedule.paired_as == "baseline":  # numbered as its gang is, with which it was written
            baselines.add(schedule.pair_id)
            continue
        if schedule.paired_as == "gang":
            gangs[schedule.pair_id] = record
        groups[record.case, tuple(device.id for device in record.devices), schedule.paired_as].append(record)
    found = {
        gang.record_id: "the baseline of its pair is missing" for pair, gang in gangs.items() if pair not in baselines
    }
    for several in groups.values():
        numbers = {record.launch for record in several}
        planned = max(record.schedule.launches for record in several if record.schedule)
        if words := _missing(numbers, planned):
            found |= {record.record_id: words for record in several}
    return found


def _missing(numbers: set[int], planned: int) -> str:
    first = min(1, *numbers, 1)
    last = max(first + planned - 1, *numbers, 0)
    lacking = last - first + 1 - len(numbers)
    if lacking <= 0:
        return ""
    some = list(islice((number for number in count(first) if number not in numbers), min(lacking, TOLD)))
    more = f" and {lacking - len(some)} more" if lacking > len(some) else ""
    many = "launches" if lacking > 1 else "launch"
    return f"{many} {', '.join(map(str, some))}{more} of {last - first + 1} {'are' if lacking > 1 else 'is'} missing"


def absent(records: Sequence[Launched]) -> int:
    """How many records of a run are not among these, of all that were written before the last one that is.

    Each launch says how many records there were before it; the two of a pair say the same.
    """
    written = [
        record.schedule.position + (1 if record.schedule.paired_as is None else 2)
        for record in records
        if record.schedule is not None
    ]
    return max(0, max(written, default=0) - len(records))
