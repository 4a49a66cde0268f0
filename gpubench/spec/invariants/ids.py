"""A record counts once, in however many files it is; two different records of one id are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from gpubench.spec.case import Case
from gpubench.spec.errors import UsageError
from gpubench.spec.invariants.together import hardware
from gpubench.spec.record import RunRecord


class Known(Protocol):
    """A record, or what it was reduced to, whose `whole` then reads it again."""

    @property
    def record_id(self) -> str: ...
    @property
    def case(self) -> Case: ...
    @property
    def launch(self) -> int: ...
    @property
    def started_at(self) -> str: ...


R = TypeVar("R", bound=Known)


def once(records: Iterable[R]) -> list[R]:
    """The first of each record id, in their order. UsageError, which names it, where two of one id differ.

    A redacted copy is the same record: what was measured decides.
    """
    found: dict[str, R] = {}
    for record in records:
        first = found.setdefault(record.record_id, record)
        if first is not record and not same(_whole(first), _whole(record)):
            told = [f"{each.case.id}, launch {each.launch} of {each.started_at}" for each in (first, record)]
            raise UsageError(
                f"Two different records have the id {record.record_id[:64]}: {told[0]}, and {told[1]}. One of them was "
                "changed: take the file as it was written."
            )
    return list(found.values())


def _whole(record: Any) -> RunRecord:
    found: RunRecord = record if isinstance(record, RunRecord) else record.whole()
    return found


def same(one: RunRecord, other: RunRecord) -> bool:
    """Whether they are copies of one record, be it that one is redacted."""
    if one == other:
        return True
    versions = [record.software for record in (one, other)]
    unlike = [name for name in versions[0].keys() & versions[1].keys() if versions[0][name] != versions[1][name]]
    redacted = all("<" in versions[0][name] + versions[1][name] for name in unlike)
    return redacted and _measured(one) == _measured(other)


def _measured(record: RunRecord) -> tuple[Any, ...]:
    """What redaction leaves as it is."""
    seen = record.observed
    sampled = [
        (each.index, each.samples, each.utilization_percent, each.memory_used_bytes, each.power_watts)
        + (each.energy_joules, each.energy_source, each.throttle_ns)
        for device in record.telemetry.devices
        for each in device.rounds
    ]
    return (
        (record.run_id, record.started_at, record.launch, record.case, record.schedule, record.host),
        (record.outcome.status, record.outcome.rank, record.outcome.phase),
        hardware(record),
        (seen.world_size, seen.parameters, seen.flops_per_step, seen.peak_memory_bytes),
        (seen.loss_first, seen.loss_last, seen.loss_finite),
        (seen.replica_digests, seen.replicas_equal, seen.moving_digests),
        (seen.parameter_types, seen.input_types, seen.product_types, seen.tf32),
        (record.warmup, record.rounds, record.telemetry.control, sampled),
    )
