"""Records made by hand, for tests of what only reads them. Their devices are called "Test GPU" and "Test CPU"."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any
from zlib import crc32

from gpubench.spec.case import Case, Device, DeviceKind, Scaling, share_id
from gpubench.spec.record import (
    Check,
    DeviceTelemetry,
    Machine,
    Observed,
    Outcome,
    Round,
    RoundTelemetry,
    RunRecord,
    Telemetry,
    WarmUp,
)
from gpubench.spec.verification import Finding, must_compare, tolerances
from gpubench.spec.workload import WORKLOADS

SECOND_NS = 10**9
ROUND_SECONDS = 2.0


def make_case(
    strategy: str = "single",
    n_devices: int = 1,
    *,
    workload: str = "resnet20",
    framework: str = "torch",
    device_kind: DeviceKind = "cpu",
    batch: int = 32,
    scaling: Scaling = "weak",
    **changes: Any,
) -> Case:
    """Weak: `batch` samples a device. Strong: `batch` samples over all devices."""
    per_device = batch if scaling == "weak" else batch // n_devices
    return Case(
        workload=workload,
        framework=framework,
        strategy=strategy,
        device_kind=device_kind,
        n_devices=n_devices,
        per_device_batch=per_device,
        global_batch=per_device * n_devices,
        cores_per_device=1 if device_kind == "cpu" else 0,
        scaling=scaling,
        **changes,
    )


def make_devices(kind: DeviceKind, n: int, cores: int = 1) -> list[Device]:
    if kind == "cpu":
        shares = [tuple(range(i * cores, (i + 1) * cores)) for i in range(n)]
        return [Device(kind="cpu", id=share_id(each), name="Test CPU", cores=each) for each in shares]
    ids = [f"GPU-{i:08d}-0000-0000-0000-000000000000" for i in range(n)]
    return [Device(kind="gpu", id=each, name="Test GPU", memory_bytes=80 * 1024**3) for each in ids]


def make_machine(kind: DeviceKind = "cpu", n_devices: int = 2, name: str = "test-machine") -> Machine:
    devices = make_devices(kind, n_devices)
    cpu = {"name": name, "os": "Test OS 1", "cpu": "Test CPU", "cores": 16, "memory_bytes": 8 * 1024**3}
    if kind == "cpu":
        return Machine(**cpu, devices=devices, nvml_reason="libnvidia-ml.so.1 was not found")
    return Machine(**cpu, devices=devices, driver="999.00", cuda="99.0")


def make_record(
    case: Case | None = None,
    *,
    samples_per_second: float = 100.0,
    launch: int = 0,
    rounds: int = 3,
    ranks: int | None = None,
    utilization_percent: float | None = 95.0,
    power_watts: float | None = None,
    machine: Machine | None = None,
    checks: Sequence[Check] = (),
    **changes: Any,
) -> RunRecord:
    """A launch that ended well: rounds of about 2 s each at exactly `samples_per_second`, half a second apart.

    `ranks` processes share the devices, by default one each. `changes` replace fields of the record. Launches of
    another run are at other times.
    """
    run_id = changes.get("run_id", f"0001_test_{case.device_kind if case else 'cpu'}")
    case = case or make_case()
    ranks = ranks or case.n_devices
    devices = machine.devices[: case.n_devices] if machine and case.device_kind == "gpu" else []
    devices = devices or make_devices(case.device_kind, case.n_devices, max(1, case.cores_per_device))
    steps = max(1, round(ROUND_SECONDS * samples_per_second / case.global_batch))
    seconds = steps * case.global_batch / samples_per_second
    start_ns = (100 + 1000 * launch) * SECOND_NS + crc32(run_id.encode())
    made = []
    for index in range(rounds):
        end_ns = start_ns + round(seconds * SECOND_NS)
        cpu_seconds = seconds * max(1, case.cores_per_device) * case.n_devices / ranks
        made.append(
            Round(
                index=index,
                start_ns=start_ns,
                end_ns=end_ns,
                steps=steps,
                samples=steps * case.global_batch,
                rank_seconds=[seconds] * ranks,
                rank_cpu_seconds=[0.98 * cpu_seconds] * ranks,
            )
        )
        start_ns = end_ns + SECOND_NS // 2
    workload = WORKLOADS.get(case.workload)
    record = RunRecord(
        schema=1,  # which asks for less: what a test is about is given in `changes`
        record_id="",
        run_id=run_id,
        started_at=f"2026-01-01T00:{launch:02d}:00+00:00",
        launch=launch,
        case=case,
        machine=machine or make_machine(case.device_kind, max(2, case.n_devices)),
        software={case.framework: "1.2.3", "python": "3.11.0", "source": "a1b2c3d4e5f6a7b8"},
        devices=devices,
        observed=Observed(
            world_size=case.n_devices,
            device_ids=[device.id for device in devices],
            parameters=workload.parameters if workload else 1000,
            loss_first=2.3,
            loss_last=1.9,
            replicas_equal=True,
            peak_memory_bytes=400 * 1024**2,
            peak_memory_of="process",
        ),
        warmup=WarmUp(seconds=3.0, steps=20, first_step_seconds=0.8, steady=True, verdict="steady after 12 steps"),
        rounds=made,
        telemetry=make_telemetry(devices, made, utilization_percent, power_watts),
        outcome=Outcome(status="ok"),
        checks=list(checks),
    )
    record = replace(record, **changes)
    return record if record.record_id else replace(record, record_id=id_of(record))


def id_of(record: RunRecord) -> str:
    """The same of equal launches alone: two that differ in anything are two launches."""
    return f"{record.case.id}-{record.launch}-{sha256(repr(record).encode()).hexdigest()[:12]}"


def make_telemetry(
    devices: Sequence[Device], rounds: Sequence[Round], utilization_percent: float | None, power_watts: float | None
) -> Telemetry:
    """A device is as busy as said in rounds, and idle between them; sampled every 100 ms with a little noise."""
    noise = random.Random(0)
    begin, end = rounds[0].start_ns - SECOND_NS, rounds[-1].end_ns + SECOND_NS // 2
    times = list(range(begin, end, SECOND_NS // 10))
    sampled = []
    for device in devices:
        in_round = [any(each.start_ns <= time < each.end_ns for each in rounds) for time in times]
        busy = [_busy(utilization_percent, on, noise) for on in in_round]
        sampled.append(
            DeviceTelemetry(
                id=device.id,
                name=device.name,
                rounds=[
                    RoundTelemetry(
                        index=each.index,
                        samples=round(each.seconds * 10),
                        utilization_percent=utilization_percent,
                        memory_used_bytes=30 * 1024**3 if device.kind == "gpu" else 3 * 1024**3,
                        power_watts=power_watts,
                        energy_joules=None if power_watts is None else power_watts * each.seconds,
                        energy_source=None if power_watts is None else "counter",
                    )
                    for each in rounds
                ],
                time_ns=times,
                series={"utilization_percent": busy},
                unavailable={} if power_watts is not None else {"power_watts": "the test has no power meter"},
            )
        )
    source = "nvml" if devices[0].kind == "gpu" else "cpu"
    return Telemetry(source=source, period_seconds=0.1, devices=sampled)


def _busy(percent: float | None, in_round: bool, noise: random.Random) -> float | None:
    if percent is None:
        return None
    return max(0.0, percent - noise.expovariate(0.4)) if in_round else 2.0


def make_lost(case: Case, status: str, message: str, *, launch: int = 0, **outcome: Any) -> RunRecord:
    """A launch without rounds."""
    return replace(
        make_record(case, launch=launch),
        observed=Observed(),
        warmup=None,
        rounds=[],
        telemetry=Telemetry(),
        outcome=Outcome(status=status, message=message, **outcome),  # type: ignore[arg-type]
    )


def make_launches(case: Case, rates: Sequence[float], **changes: Any) -> list[RunRecord]:
    """One launch for each throughput."""
    return [make_record(case, samples_per_second=rate, launch=i, **changes) for i, rate in enumerate(rates)]


def make_run(kind: DeviceKind = "cpu", launches: int = 3, seed: int = 0) -> list[RunRecord]:
    """A whole run as a reader would get it: three frameworks, good and bad strategies, and what went wrong."""
    noise = random.Random(seed)
    counts = (1, 2) if kind == "cpu" else (1, 2, 4, 8)
    batch, base = (32, 60.0) if kind == "cpu" else (256, 2900.0)
    curves = {
        ("torch", "ddp"): (0.99, 0.95),
        ("tensorflow", "mirrored"): (0.93, 0.90),
        ("tensorflow", "mirrored_fit"): (0.94, 0.85),
        ("tensorflow", "in_graph"): (0.96, 0.62),
        ("mxnet", "trainer"): (0.98, 0.52),
    }
    if kind == "gpu":
        curves["torch", "data_parallel"] = (0.98, 0.60)
    speed = {"torch": 1.0, "tensorflow": 1.22, "mxnet": 0.78}
    machine = make_machine(kind, counts[-1])
    workload = "resnet20" if kind == "cpu" else "resnet50"
    power = None if kind == "cpu" else 640.0
    records = []

    def add(case: Case, rate: float, **changes: Any) -> None:
        rates = [rate * noise.gauss(1.0, 0.012) for _ in range(launches)]
        records.extend(make_launches(case, rates, machine=machine, power_watts=power, **changes))

    def case_of(framework: str, strategy: str, n: int) -> Case:
        kind_words: dict[str, Any] = {"device_kind": kind, "workload": workload, "batch": batch}
        return make_case(strategy, n, framework=framework, **kind_words)

    for framework, factor in speed.items():
        add(case_of(framework, "single", 1), base * factor)
    for (framework, strategy), (fixed_cost, per_doubling) in curves.items():
        for doublings, n in enumerate(counts):
            ranks = n if strategy == "ddp" else 1
            rate = base * speed[framework] * n * fixed_cost * per_doubling**doublings
            add(case_of(framework, strategy, n), rate, ranks=ranks)
    if kind == "cpu":
        refused = "nn.DataParallel silently uses one device on a CPU; it needs GPUs"
        records.append(make_lost(case_of("torch", "data_parallel", 2), "skipped", refused))
    died = case_of("mxnet", "trainer", counts[-1])
    last = max(index for index, record in enumerate(records) if record.case == died)
    records[last] = make_lost(
        died,
        "rank_died",
        "rank 0 of 1 ended with exit code -9 in round 2",
        launch=launches - 1,
        rank=0,
        phase="round",
        remedy="the kernel ended it, most likely for memory: try --per-device-batch with a smaller number",
        log_tail=["[12:00:01] round 1 of 3", "[12:00:03] round 2 of 3", "Killed"],
    )
    return records


def make_findings(strategy: str | None) -> list[Finding]:
    """All that must be compared of a framework's model, or of a strategy, and is equal."""
    within = tolerances("resnet20") if strategy else {}  # of a model, there is none to compare it with
    return [
        Finding(
            name=name, passed=True, message="equal", error=0.0 if name in within else None, tolerance=within.get(name)
        )
        for name in sorted(must_compare("resnet20", strategy, []))
    ]
