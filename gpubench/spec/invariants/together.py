"""What holds between records: a session's launches are on one machine, numbered, and no launch is there twice.

The reader asks it of all that it has, of whatever files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from gpubench.spec.case import Case, Device
from gpubench.spec.record import Machine, Outcome, Schedule

SENTENCES = (
    "All launches of a session are of one machine, in one state.",
    "No launch is there twice, under whatever ids and dates: two of them neither begin at one time, nor take equally "
    "long in every round.",
    "A pair has one baseline and one gang, of one launch of one session, whose rounds were not over when the "
    "other's began.",
)


class Launched(Protocol):
    """A record, or what it was reduced to, as far as it is asked for here."""

    @property
    def record_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def launch(self) -> int: ...
    @property
    def case(self) -> Case: ...
    @property
    def machine(self) -> Machine: ...
    @property
    def devices(self) -> Sequence[Device]: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def schedule(self) -> Schedule | None: ...
    @property
    def windows_ns(self) -> Sequence[tuple[int, int]]: ...
    @property
    def slowest_ns(self) -> tuple[int, ...]: ...


def problems(records: Sequence[Launched]) -> dict[str, str]:
    """What is wrong with the launches that ended well, by record id."""
    sessions: dict[str, list[Launched]] = defaultdict(list)
    for record in records:
        if record.outcome.status == "ok":
            sessions[record.run_id].append(record)
    found: dict[str, str] = {}
    for launches in sessions.values():
        _machines(launches, found)
        _alike(launches, _number, "two launches of one session have one number", found)
    every = [record for launches in sessions.values() for record in launches]
    _pairs(every, found)
    by_machine = {id(record.machine): record for record in every}  # records that were reduced share them
    kinds = {key: hardware(record) for key, record in by_machine.items()}
    for key in (lambda record: _begin(record, kinds[id(record.machine)]), lasted):
        _alike(every, key, "one launch is there twice", found)
    return found


def _machines(launches: Sequence[Launched], found: dict[str, str]) -> None:
    by_machine = {id(record.machine): record for record in launches}
    kinds = {hardware(record): record.machine for record in by_machine.values()}
    if len(kinds) > 1:
        one, other = list(kinds)[:2]
        told = "; ".join(f"{name} {a} and {b}" for name, a, b in zip(_FACTS, one, other, strict=False) if a != b)
        for record in launches:
            found[record.record_id] = f"launches of one session are of {len(kinds)} machines: {told or 'other devices'}"


_FACTS = ("cpu", "cores", "memory_bytes", "os", "driver", "cuda", "cpu_quota_cores", "cpuset")


def hardware(record: Launched) -> tuple[Any, ...]:
    """Of its machine, what a redacted copy of the record has too."""
    machine = record.machine
    gpus = tuple((device.name, device.memory_bytes) for device in machine.devices if device.kind == "gpu")
    return (*(getattr(machine, name) for name in _FACTS), gpus)


def _alike(launches: Sequence[Launched], key: Callable[[Launched], Any], what: str, found: dict[str, str]) -> None:
    """Launches that share what no two can; a key of None is of a launch that has no such thing."""
    same: dict[Any, list[Launched]] = defaultdict(list)
    for record in launches:
        same[key(record)].append(record)
    for known, several in same.items():
        if known is not None and len(several) > 1:
            for record in several:
                found.setdefault(record.record_id, f"{what}: {record.case.id}, launch {record.launch}")


def _number(record: Launched) -> Any:
    pair = record.schedule.pair_id if record.schedule else None
    return record.case, record.machine.name, tuple(device.id for device in record.devices), record.launch, pair


def _begin(record: Launched, kind: tuple[Any, ...]) -> Any:
    """When its first round began and ended, which no two do at the same time on one clock."""
    return (record.case, record.windows_ns[0], kind) if record.windows_ns else None


CLOCK_NS = 1000  # a clock whose times are all of whole microseconds is too coarse for times to differ by chance


def lasted(record: Launched) -> tuple[int, ...] | None:
    """How long its rounds took, in ns: of two launches never the same. None where too little is known to say so."""
    times_ns = record.slowest_ns
    is_fine = any([each % CLOCK_NS for each in times_ns])
    return times_ns if is_fine and len(set(times_ns)) > 1 else None


def _pairs(launches: Iterable[Launched], found: dict[str, str]) -> None:
    halves: dict[str, list[Launched]] = defaultdict(list)
    for record in launches:
        if record.schedule and record.schedule.pair_id:
            halves[record.schedule.pair_id].append(record)
    for several in halves.values():
        if problem := _apart(several):
            for record in several:
                found.setdefault(record.record_id, problem)


def _apart(halves: Sequence[Launched]) -> str | None:
    """Why these are not the halves of a pair."""
    named = [record.schedule.paired_as for record in halves if record.schedule]
    if len(set(named)) < len(named):
        return f"a pair has {len(named)} halves: {', '.join(map(str, named))}"
    if len({(record.run_id, record.launch) for record in halves}) > 1:
        return "the halves of a pair are of two launches"
    if len(halves) == 2 and not _side_by_side(*(record.windows_ns for record in halves)):
        return "the halves of a pair ran one after the other"
    return None


def _side_by_side(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> bool:
    """Whether neither had all its rounds before the other's first. Single rounds have no turns: they are neighbours."""
    if not one or not other:
        return True
    apart_ns = max(one[0][0] - other[-1][1], other[0][0] - one[-1][1])
    return apart_ns < (0 if len(one) > 1 and len(other) > 1 else NEIGHBOURS_NS)


NEIGHBOURS_NS = 60 * 10**9  # two rounds of a pair have nothing between them but what is read at their edges
