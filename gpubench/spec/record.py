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
from gpubench.spec.until import Quantity

SCHEMA = 2  # since 2, a launch that ended well has all that `invariants/complete.py` names

Status = Literal["ok", "oom", "timeout", "rank_died", "failed", "interrupted", "skipped"]
Phase = Literal["start", "build", "warm_up", "round", "stop"]
Severity = Literal["severe", "warning", "note"]
NameFrom = Literal["host", "container", "given"]

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
# What only GPUs have. Counters count from an unknown start; `clock_event_reasons` is NVML's bit mask.
GPU_METRICS = (
    "memory_reserved_bytes",
    "power_average_watts",
    "memory_clock_mhz",
    "memory_temperature_celsius",
    "throttle_power_ns",
    "throttle_thermal_ns",
    "throttle_sync_boost_ns",
    "throttle_board_limit_ns",
    "throttle_reliability_ns",
    "clock_event_reasons",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
    "pcie_replays",
    "pcie_link_generation",
    "pcie_link_width",
    "nvlink_tx_bytes",
    "nvlink_rx_bytes",
    "ecc_corrected",
    "ecc_uncorrected",
    "remapped_rows",
    "processes",
)
# What holds a clock down, by the bits of NVML's mask (nvml.h, nvmlClocksEventReason*); being idle is none of them.
EVENT_REASONS = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "sync boost",
    0x20: "thermal (software)", 0x40: "thermal (hardware)", 0x80: "power brake", 0x100: "display clocks",
}  # fmt: skip


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
    # Floating-point types, as "float32", of whatever had one: parameters, what the batch holds, and what matrix
    # products and convolutions took in one untimed step. None: the framework was not asked.
    parameter_types: list[str] | None = None
    input_types: list[str] | None = None
    product_types: list[str] | None = None
    tf32: bool | None = None  # whether a GPU may round float32 to TF32 where it multiplies
    cpu_capability: str | None = None  # the highest set of CPU instructions that the framework's own kernels use
    # Of each rank's first replica: before the first timed round, before the last one, and at the end.
    moving_digests: list[list[str]] | None = None


# The clock and the barrier may take this share of a round. Rounds are lengthened for it, up to a limit.
TIMING_COST_LIMIT = 0.001

# Between an energy counter and the power over time, beyond the counter's own error, above which a reader is told.
ENERGY_DISAGREEMENT = 0.10  # power is read to 5 % at best, and a counter has an error of its own


def energies_disagree(counted: float, integrated: float, error: float | None) -> bool:
    """Whether two energies of a round, in joules, are further apart than a reader need not know."""
    return abs(counted - integrated) > ENERGY_DISAGREEMENT * max(counted, integrated) + (error or 0.0)


@dataclass(frozen=True, kw_only=True)
class WarmUp:
    """The untimed steps. `step_seconds` is each one's time on its slowest rank; the first one compiles."""

    seconds: float
    steps: int
    first_step_seconds: float | None
    steady: bool
    verdict: str
    step_seconds: list[float] = field(default_factory=list)
    empty_round_seconds: float | None = None  # from order to report, without steps: what timing a round costs
    round_seconds: float | None = None  # that a round was to last, of which its steps were made; None in older records


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
    # What a CPU quota did meanwhile; None where there is none. A period is mostly 100 ms; the time is summed over CPUs.
    cpu_periods: int | None = None
    cpu_throttled_periods: int | None = None
    cpu_throttled_seconds: float | None = None
    rank_spans_ns: list[tuple[int, int]] | None = None  # from when to when each rank was at it; None in older records

    @property
    def seconds(self) -> float:
        return max(self.rank_seconds)


@dataclass(frozen=True, kw_only=True)
class RoundTelemetry:
    """One device over one round: means, but the maximum for memory and temperature, and what counters grew by."""

    index: int
    samples: int
    utilization_percent: float | None = None
    utilization_source: str | None = None  # "driver's buffer" or "snapshots"
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None  # by the driver, where it tells that apart
    power_watts: float | None = None
    power_average_watts: float | None = None  # as the driver averages it over a second; after the first 1.2 s
    energy_joules: float | None = None
    energy_source: str | None = None  # "counter" or "integrated power"
    energy_error_joules: float | None = None  # at most, from the counter's refresh and the time between its readings
    energy_integrated_joules: float | None = None  # power over time, beside the counter
    energy_problem: str | None = None  # why the counter was not taken, or that it and the power disagree
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    throttle_ns: dict[str, int] = field(default_factory=dict)  # by cause: "power", "thermal", …
    clock_event_reasons: list[str] = field(default_factory=list)  # those seen at any time in the round
    pcie_tx_bytes: int | None = None
    pcie_rx_bytes: int | None = None
    pcie_replays: int | None = None
    pcie_link_generation: int | None = None  # the highest seen, as the link is slower when idle
    pcie_link_width: int | None = None
    nvlink_tx_bytes: int | None = None
    nvlink_rx_bytes: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_rows: int | None = None
    processes: int | None = None  # the most that held a context on the device at once
    xids: list[int] = field(default_factory=list)
    # Means between the round's edges: GPM's on Hopper and newer; of a CPU share of several cores, each core's.
    gpm: dict[str, float] = field(default_factory=dict)
    steal_percent: float | None = None  # CPU share: time that the hypervisor gave to others
    unavailable: dict[str, str] = field(default_factory=dict)  # why a metric that was sampled has no figure here


@dataclass(frozen=True, kw_only=True)
class GpuProcess:
    """A process with a context on a GPU. In a container the number may be the host's."""

    pid: int
    memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """What one GPU is and is set to, read once. None has its reason in `unavailable` where the driver gave one."""

    id: str
    name: str
    index: int  # NVML's
    bus_id: str | None = None
    architecture: str | None = None
    capability: str | None = None
    numa_node: int | None = None  # of the host, near it
    cpus: str | None = None  # those near it
    power_limit_watts: float | None = None  # enforced
    power_default_limit_watts: float | None = None
    power_most_watts: float | None = None  # the highest limit that can be set
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    boost_sm_clock_max_mhz: int | None = None  # the highest that the owner allows; the driver tells no locked clocks
    application_sm_clock_mhz: int | None = None
    default_application_sm_clock_mhz: int | None = None
    clock_event_reasons: list[str] = field(default_factory=list)  # what held the clock down when it was looked at
    ecc: bool | None = None
    mig: bool | None = None
    mig_instances: list[str] = field(default_factory=list)
    persistence: bool | None = None
    compute_mode: str | None = None
    pcie_generation_max: int | None = None  # of the GPU and its slot
    pcie_gpu_generation_max: int | None = None  # of the GPU alone
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    nvlinks: int | None = None  # active
    nvlink_version: int | None = None
    nvswitch: bool | None = None
    fabric: str | None = None  # of NVSwitches: "completed" is ready for use
    fabric_clique: int | None = None  # GPUs of one clique reach each other over NVLink, also of other machines
    fabric_degraded: bool | None = None  # its bandwidth
    gpm: bool | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    utilization_percent: int | None = None
    ecc_corrected: int | None = None  # since the driver was loaded
    ecc_uncorrected: int | None = None
    remap_pending: bool | None = None
    processes: list[GpuProcess] = field(default_factory=list)
    mps_processes: list[GpuProcess] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GpuSystem:
    """What the GPUs share. `links` and `p2p` have a row and a column for each of `gpus`, "X" on the diagonal.

    `links` speaks as `nvidia-smi topo -m` does: NV#, PIX, PXB, PHB, NODE, SYS; `p2p` is "OK" or why not.
    """

    driver: str | None = None
    cuda: str | None = None
    nvml: str | None = None
    binding: str | None = None  # the version of nvidia-ml-py
    cuda_device_order: str | None = None  # as the variables were set by the user; None is not set
    cuda_visible_devices: str | None = None
    mps_device_enumeration: str | None = None
    gpus: list[GpuFacts] = field(default_factory=list)
    links: list[list[str]] = field(default_factory=list)
    p2p: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SamplerCost:
    """What the sampler itself took during a launch; `call_seconds` was timed at its start, the median by call."""

    cpu_seconds: float
    sweeps: int
    seconds: float | None = None  # over which it took that CPU time, without pauses
    sweep_seconds_p50: float | None = None
    sweep_seconds_p99: float | None = None
    late_seconds_p99: float | None = None
    dropped_ticks: int = 0
    call_seconds: dict[str, float] = field(default_factory=dict)
    slowed_calls: list[str] = field(default_factory=list)  # too slow for every sweep


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
    xids: list[tuple[int, int]] = field(default_factory=list)  # (time in ns, Xid) during the launch


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What was sampled during a launch. Where nothing could be, `reason` says why and `devices` is empty."""

    source: str | None = None  # "nvml", "amdsmi", "cpu"
    period_seconds: float | None = None
    reason: str | None = None
    devices: list[DeviceTelemetry] = field(default_factory=list)
    system: GpuSystem | None = None
    cost: SamplerCost | None = None
    # (device, time in ns, Xid) during the launch, of GPUs of this machine that it did not use
    other_xids: list[tuple[str, int, int]] = field(default_factory=list)
    control: Round | None = None  # one more round, with the sampler paused; it counts for nothing else
    series_file: str | None = None  # where the series are when they are not in `devices`; relative to the journal
    series_inside: str | None = None  # why they could not be written to a file of their own


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the machine did meanwhile, from the first timed round's start to the last one's end."""

    swap_in_bytes: int | None = None
    swap_out_bytes: int | None = None
    # from the launch's start to its end: suspended, or a clock that was set
    stood_still_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the launches of the run were ordered, so that a reader can judge what drift may have done to them.

    `position` is this launch's among all of the run. `waited_for_quiet_seconds` is None where nothing was waited for.
    `until` is the half-width that intervals were to reach, as a fraction, and `until_of` says of which figure; None
    beside an `until` is the efficiency where there is one, else the throughput (older runs). `pair_id` is shared by the
    baseline's and the gang's launch whose rounds alternated; `paired_as` says which of the two this one is.
    """

    order: Literal["interleaved", "case by case"]
    seed: int
    launches: int
    position: int
    until: float | None = None
    until_of: Quantity | None = None
    waited_for_quiet_seconds: float | None = None
    quiet: bool | None = None
    batch_from: Literal["asked or default", "auto", "knee"] = "asked or default"
    pair_id: str | None = None
    paired_as: Literal["baseline", "gang"] | None = None


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
    """The machine, as far as a reader must know it to judge a number. `spec.identity` says which two are the same."""

    name: str
    os: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: list[Device] = field(default_factory=list)
    driver: str | None = None
    cuda: str | None = None
    nvml_reason: str | None = None  # why NVML could not be read, where it could not
    amd_reason: str | None = None  # the same of AMD SMI, or what shows that there are GPUs which it is not here to read
    gpu_refusal: str | None = None  # what must be done to GPUs that are there before anything can run on them
    name_from: NameFrom | None = None  # "container": a host name that the container's engine made up
    cpu_quota_cores: float | None = None  # CPU time that the control group may use, in cores; None is no limit
    cpu_quota_source: str | None = None  # the file that states it
    cpuset: str | None = None  # the logical CPUs that the control group may use, where these are not all


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
    environment_kept_away: list[str] | None = None  # names of a launcher's variables that the workers did not see
    devices: list[Device] = field(default_factory=list)
    observed: Observed = field(default_factory=Observed)
    warmup: WarmUp | None = None
    rounds: list[Round] = field(default_factory=list)
    telemetry: Telemetry = field(default_factory=Telemetry)
    outcome: Outcome
    checks: list[Check] = field(default_factory=list)
    schedule: Schedule | None = None
    host: Host = field(default_factory=Host)

    @property
    def windows_ns(self) -> tuple[tuple[int, int], ...]:
        """From when to when its first round lasted and, where there are more, its last one."""
        edges = [self.rounds[0], self.rounds[-1]] if len(self.rounds) > 1 else self.rounds
        return tuple((each.start_ns, each.end_ns) for each in edges)

    @property
    def slowest_ns(self) -> tuple[int, ...]:
        """How long each round took its slowest rank."""
        return tuple(round(each.seconds * 1e9) for each in self.rounds if each.rank_seconds)


def to_json(record: RunRecord) -> str:
    """The record as one line of JSON, without a newline."""
    return json.dumps(dataclasses.asdict(record), allow_nan=False, separators=(",", ":"))


def as_dict(record: RunRecord) -> dict[str, Any]:
    return dataclasses.asdict(record)
