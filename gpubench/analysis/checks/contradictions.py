"""Whether the record contradicts itself, in any of what `spec/invariants` says of all records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpubench.spec.invariants import OF_LAUNCH, OF_SETTING, OF_TELEMETRY, Invariant, broken, sensors
from gpubench.spec.invariants import rounds as of_rounds
from gpubench.spec.record import Check, RunRecord


def launch(record: RunRecord, invariants: tuple[Invariant, ...] = OF_LAUNCH) -> Iterator[Check]:
    if problems := broken(invariants, record):
        yield Check(
            name="contradiction",
            severity="severe",
            message=f"the record contradicts itself: {'; '.join(problems[:4])}",
            remedy="the record was edited, or is of a fault in gpubench: measure again",
        )


def in_its_setting(record: RunRecord) -> Iterator[Check]:
    """`launch`, where what its setting alone can break was seen to hold."""
    yield from launch(record, _BEYOND_SETTING)


_BEYOND_SETTING = tuple(each for each in OF_LAUNCH if each not in OF_SETTING)


def _time(record: RunRecord) -> Iterator[Check]:
    """Throughput times time is the samples only if the time is that of the round."""
    control = record.telemetry.control
    for each in [*record.rounds, *([] if control is None else [control])]:
        problem = of_rounds.time(each)
        if problem is not None:
            yield Check(
                name="time_does_not_add_up",
                severity="severe",
                message=f"round {each.index} {problem}",
                remedy="throughput times time is not the samples counted: the record was edited, or clocks jumped",
            )
            return


def _telemetry(record: RunRecord) -> Iterator[Check]:
    if not sensors.all_hold(record) and (problems := broken(OF_TELEMETRY, record)):
        yield Check(
            name="telemetry_contradiction",
            severity="warning",
            message=f"the telemetry contradicts itself: {'; '.join(problems[:4])}",
            remedy="this launch's utilisation, memory, power and energy do not count: its throughput does",
        )


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (launch, _time, _telemetry)
