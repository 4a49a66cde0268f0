"""Launches as the harness writes them: telemetry is attributed to rounds by the sampler's own code."""

from __future__ import annotations

import random
from dataclasses import replace

from gpubench.spec.case import Device, DeviceKind
from gpubench.spec.record import (
    METRICS,
    SCHEMA,
    DeviceTelemetry,
    GpuFacts,
    GpuSystem,
    Host,
    Round,
    RunRecord,
    SamplerCost,
    Telemetry,
    WarmUp,
)
from gpubench.spec.workload import WORKLOADS
from gpubench.telemetry.attribution import attribute
from tests.builders import make_case, make_record

PERIOD_NS = 100_000_000
EDGE_NS = 2_000_000  # from a sweep at an edge to the round
GAUGES = {
    "utilization_percent": (96.0, 2.0),
    "memory_used_bytes": (30.0 * 2**30, 0.0),
    "power_watts": (480.0, 6.0),
    "power_average_watts": (480.0, 2.0),
    "sm_clock_mhz": (1750.0, 15.0),
    "memory_clock_mhz": (2619.0, 0.0),
    "temperature_celsius": (60.0, 1.0),
    "pcie_link_generation": (5.0, 0.0),
    "pcie_link_width": (16.0, 0.0),
    "processes": (1.0, 0.0),
}
COUNTERS = {  # by how much each grows in a second
    "energy_joules": 480.0,
    "throttle_power_ns": 2e7,
    "throttle_thermal_ns": 0.0,
    "pcie_tx_bytes": 1e9,
    "pcie_rx_bytes": 2e9,
    "ecc_corrected": 0.0,
    "ecc_uncorrected": 0.0,
}


OF_CPU = {
    "utilization_percent": (98.5, 0.5),
    "memory_used_bytes": (3.0 * 2**30, 0.0),
    "sm_clock_mhz": (3000.0, 20.0),
    "temperature_celsius": (60.0, 1.0),
    "steal_percent": (0.5, 0.2),
}


def honest_launch(kind: DeviceKind, n_devices: int, launch: int = 0, rounds: int = 3) -> RunRecord:
    """A launch of `ddp` that ended well, with all that is sampled, a control round and a warm-up."""
    noise = random.Random(launch)
    strategy, workload = "ddp" if n_devices > 1 else "single", "resnet50" if kind == "gpu" else "resnet20"
    case = make_case(strategy, n_devices, workload=workload, device_kind=kind)
    rate = 100.0 * n_devices * noise.gauss(1, 0.003)
    record = make_record(case, samples_per_second=rate, launch=launch, rounds=rounds + 1)
    *timed, control = [_spanned(each, noise) for each in record.rounds]
    each = timed[0].seconds / timed[0].steps
    step_seconds = [8 * each, *(each * noise.gauss(1, 0.01) for _ in range(11))]
    steady = sorted(step_seconds[-5:])[2]
    warm_up = WarmUp(
        seconds=sum(step_seconds),
        steps=len(step_seconds),
        first_step_seconds=step_seconds[0],
        steady=True,
        verdict="steady",
        step_seconds=step_seconds,
        empty_round_seconds=0.0004,
        round_seconds=(timed[0].steps - 0.5) * steady,
    )
    edges = [edge for one in timed for edge in (one.start_ns - EDGE_NS, one.end_ns + EDGE_NS)]
    times = sorted({*range(timed[0].start_ns - 10**9, timed[-1].end_ns + 10**9, PERIOD_NS), *edges})
    telemetry = Telemetry(
        source="nvml" if kind == "gpu" else "cpu",
        period_seconds=PERIOD_NS / 1e9,
        devices=[_sampled(device, timed, times, noise) for device in record.devices],
        system=_system(record.devices) if kind == "gpu" else None,
        cost=SamplerCost(cpu_seconds=0.1, sweeps=90, seconds=9.0, call_seconds={"power": 1e-4}),
        control=replace(control, index=rounds),
    )
    digests = [[f"{name}{rank}" for rank in range(n_devices)] for name in ("before", "between")]
    observed = replace(
        record.observed,
        flops_per_step=case.global_batch * WORKLOADS[workload].training_flops_per_sample,
        loss_finite=True,
        replica_digests=["after"] * n_devices,
        moving_digests=[*digests, ["after"] * n_devices],
        parameter_types=["float32"],
        input_types=["float32"],
        product_types=["float32"],
        tf32=False if kind == "gpu" else None,
    )
    return replace(
        record,
        schema=SCHEMA,
        observed=observed,
        warmup=warm_up,
        rounds=timed,
        telemetry=telemetry,
        environment={"OMP_NUM_THREADS": "1"},
        environment_kept_away=[],
        host=Host(swap_in_bytes=0, swap_out_bytes=0, stood_still_seconds=1e-6),
    )


def _spanned(each: Round, noise: random.Random) -> Round:
    """Its ranks began within a millisecond."""
    ends = [each.end_ns, *(each.end_ns - noise.randrange(10**6) for _ in each.rank_seconds[1:])]
    spans = [(each.start_ns, end_ns) for end_ns in ends]
    return replace(each, rank_spans_ns=spans, rank_seconds=[(b - a) / 1e9 for a, b in spans])


def _system(devices: list[Device]) -> GpuSystem:
    facts = [
        GpuFacts(id=d.id, name=d.name, index=i, power_limit_watts=700.0, sm_clock_max_mhz=1980, pcie_generation_max=5,
                 pcie_width_max=16, memory_bytes=d.memory_bytes)
        for i, d in enumerate(devices)
    ]  # fmt: skip
    return GpuSystem(driver="999.00", gpus=facts)


def _sampled(device: Device, rounds: list[Round], times: list[int], noise: random.Random) -> DeviceTelemetry:
    gauges, counters = (GAUGES, COUNTERS) if device.kind == "gpu" else (OF_CPU, {})
    series: dict[str, list[float | None]] = {
        metric: [max(0.0, mean + noise.uniform(-spread, spread)) for _ in times]
        for metric, (mean, spread) in gauges.items()
    }
    series |= {metric: [growth * (t - times[0]) / 1e9 for t in times] for metric, growth in counters.items()}
    return DeviceTelemetry(
        id=device.id,
        name=device.name,
        rounds=[
            attribute(one, times, series, PERIOD_NS, power_limit_watts=700.0, promised=set(series)) for one in rounds
        ],
        unavailable={metric: "it cannot be read here" for metric in METRICS if metric not in series},
        methods=dict.fromkeys(series, "as read"),
    )
