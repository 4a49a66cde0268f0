"""What one launch of a case left behind: raw, written once, never edited. Derived values are worked out on reading.

Not measured is None, with a reason beside it where one is known; never 0, never -1. Times named `_ns` are of the
node's monotonic clock. The JSON has the same names, one record a line.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from gpubench.spec.case import Case, Device

SCHEMA = 1

Status = Literal["ok", "oom", "timeout", "rank_died", "failed", "interrupted", "skipped"]
Phase = Literal["start", "build", "warm_up", "round", "stop"]
Severity = Literal["severe", "warning", "note"]

# What the sampler reads of a device, with the unit in the name. Each is a number, or None with a reason in
# `DeviceTelemetry.unavailable`.
METRICS = (
    "utilization_percent",  # GPU: share of time in which any kernel ran. CPU share: busy share of its cores.
    "memory_used_bytes",  # GPU: in use on the device. CPU: in use on the host.
    "power_watts",
    "energy_joules",  # a counter in the series; the energy of the round in a round
    "sm_clock_mhz",  # CPU share: mean frequency of its cores
    "temperature_celsius",
)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What the workers really did, as they counted it."""

    world_size: int | None = None
    device_ids: list[str] = field(default_factory=list)
    parameters: int | None = None
    flops_per_step: int | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    loss_finite: bool | None = None  # a loss that is no finite number is None here, since JSON has no word for it
    replica_digests: list[str] = field(default_factory=list)
    replicas_equal: bool | None = None
    peak_memory_bytes: int | None = None
    peak_memory_of: str | None = None


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """The untimed steps. `step_seconds` is each one's time on its slowest rank; the first one compiles."""

    seconds: float
    steps: int
    first_step_seconds: float | None
    steady: bool
    verdict: str
    step_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Round:
    """`steps` steps timed as one, devices idle at both edges. It takes as long as its slowest rank."""

    index: int
    start_ns: int
    end_ns: int
    steps: int
    samples: int
    rank_seconds: list[float]
    rank_cpu_seconds: list[float]

    @property
    def seconds(self) -> float:
        return max(self.rank_seconds)


@dataclass(frozen=True, kw_only=True)
class RoundTelemetry:
    """One device over one round: means, but the maximum for memory and temperature, and the energy spent."""

    index: int
    samples: int
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    power_watts: float | None = None
    energy_joules: float | None = None
    energy_source: str | None = None  # "counter" or "integrated power"
    sm_clock_mhz: float | None = None
    temperature_celsius: float | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceTelemetry:
    """One device as the sampler saw it. `series` maps a metric to its values at `time_ns`."""

    id: str
    name: str
    rounds: list[RoundTelemetry] = field(default_factory=list)
    time_ns: list[int] = field(default_factory=list)
    series: dict[str, list[float | None]] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)  # what a metric really reads, where that differs by device


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What was sampled during a launch. Where nothing could be, `reason` says why and `devices` is empty."""

    source: str | None = None  # "nvml", "cpu"
    period_seconds: float | None = None
    reason: str | None = None
    devices: list[DeviceTelemetry] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How the launch ended, and what to do about it where it ended badly."""

    status: Status
    rank: int | None = None
    phase: Phase | None = None
    message: str = ""
    remedy: str = ""
    log: str | None = None
    log_tail: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One doubt about a record, and what to do about it. A severe one takes the headline number away."""

    name: str
    severity: Severity
    message: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine, as far as a reader must know it to judge a number."""

    name: str
    os: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: list[Device] = field(default_factory=list)
    driver: str | None = None
    cuda: str | None = None
    nvml_reason: str | None = None  # why NVML could not be read, where it could not


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One launch of one case."""

    schema: int = SCHEMA
    record_id: str
    run_id: str
    started_at: str  # ISO 8601, UTC
    launch: int
    case: Case
    machine: Machine
    software: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    observed: Observed = field(default_factory=Observed)
    warmup: WarmUp | None = None
    rounds: list[Round] = field(default_factory=list)
    telemetry: Telemetry = field(default_factory=Telemetry)
    outcome: Outcome
    checks: list[Check] = field(default_factory=list)


def to_json(record: RunRecord) -> str:
    """The record as one line of JSON, without a newline."""
    return json.dumps(dataclasses.asdict(record), allow_nan=False, separators=(",", ":"))


def as_dict(record: RunRecord) -> dict[str, Any]:
    return dataclasses.asdict(record)
