"""A launch as figures need it: its record, read once and doubted, without what no summary of many launches is made of.

A hundred thousand records fit into memory so. What is left out, such as telemetry by round, series and logs, is read
again for the few launches that are shown one by one: `whole` gives the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from gpubench.analysis import sampling
from gpubench.analysis.checks import doubts
from gpubench.analysis.checks.merge import unique
from gpubench.analysis.stats import Launch
from gpubench.analysis.usage import Used, used_by
from gpubench.spec.case import Case, Device
from gpubench.spec.identity import Identity, identity
from gpubench.spec.record import Check, Machine, Outcome, RunRecord, SamplerCost, Schedule

MOST_TRACES = 200  # of cases that one page draws


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reduced:
    """What one record comes to. Names that a record has too mean the same here; the outcome is without its log.

    `checks` are those of a launch that ended well: what is found now, then what was written with it. `timed` has its
    rounds; None where there is no time or no sample to divide. `slowdown` is `sampling.with_over_without`.
    """

    record_id: str
    run_id: str
    started_at: str
    launch: int
    case: Case
    machine: Machine
    identity: Identity
    software: dict[str, str]
    environment: dict[str, str]
    devices: list[Device]
    outcome: Outcome
    schedule: Schedule | None
    checks: tuple[Check, ...]
    timed: Launch | None
    windows_ns: tuple[tuple[int, int], ...]
    used: Used
    first_step_seconds: float | None
    parameters: int | None
    cpu_capability: str | None
    power_limits_watts: tuple[float | None, ...]
    cost: SamplerCost | None
    slowdown: float | None
    has_system: bool
    may_have_trace: bool
    whole: Callable[[], RunRecord]

    @property
    def slowest_ns(self) -> tuple[int, ...]:
        """How long each round took its slowest rank; empty where it has no time."""
        return tuple([round(seconds * 1e9) for seconds in self.timed.seconds]) if self.timed else ()


def reduced(record: RunRecord, whole: Callable[[], RunRecord] | None = None, known: Identity | None = None) -> Reduced:
    """`whole` reads the record again where it is not to be kept; `known` is its machine's identity, once worked out."""
    found = doubts(record)
    checks = unique([*found, *record.checks]) if record.outcome.status == "ok" else []
    return Reduced(
        record_id=record.record_id,
        run_id=record.run_id,
        started_at=record.started_at,
        launch=record.launch,
        case=record.case,
        machine=record.machine,
        identity=known or identity(record.machine),
        software=record.software,
        environment=record.environment,
        devices=record.devices,
        outcome=replace(record.outcome, log_tail=[]) if record.outcome.log_tail else record.outcome,
        schedule=record.schedule,
        checks=tuple(checks),
        timed=_timed(record),
        used=used_by(record, any(check.name == "telemetry_contradiction" for check in found)),
        windows_ns=record.windows_ns,
        first_step_seconds=record.warmup.first_step_seconds if record.warmup else None,
        parameters=record.observed.parameters,
        cpu_capability=record.observed.cpu_capability,
        power_limits_watts=_shared(_power_limits_watts(record)),
        cost=record.telemetry.cost,
        slowdown=sampling.with_over_without(record),
        has_system=record.telemetry.system is not None,
        may_have_trace=bool(record.rounds)
        and (record.telemetry.series_file is not None or any(device.series for device in record.telemetry.devices)),
        whole=whole or (lambda: record),
    )


def as_reduced(record: RunRecord | Reduced) -> Reduced:
    return record if isinstance(record, Reduced) else reduced(record)


def _timed(record: RunRecord) -> Launch | None:
    samples = tuple([each.samples for each in record.rounds])
    seconds = tuple([max(of_ranks) for each in record.rounds if (of_ranks := each.rank_seconds)])
    if not samples or len(seconds) != len(samples) or min(samples) <= 0 or min(seconds) <= 0:
        return None
    return Launch(_shared(samples), seconds)


def _power_limits_watts(record: RunRecord) -> tuple[float | None, ...]:
    system = record.telemetry.system
    if system is None:
        return ()
    used = {device.id for device in record.devices}
    return tuple(gpu.power_limit_watts for gpu in system.gpus if gpu.id in used)


@lru_cache(maxsize=10_000)
def _shared(values: Any) -> Any:
    """One tuple for all that are equal: most launches of a case have the same counts."""
    return values
