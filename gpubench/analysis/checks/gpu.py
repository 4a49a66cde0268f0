"""Whether the devices were ours alone, at full clock and link, and whether their sensors can be believed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpubench.analysis.checks.limits import (
    BUSY_PERCENT,
    CLOCK_HELD,
    FOREIGN_MEMORY_BYTES,
    FOREIGN_UTILIZATION_PERCENT,
    THROTTLE_SEVERE,
    THROTTLE_WARNING,
)
from gpubench.spec.record import (
    Check,
    DeviceTelemetry,
    GpuFacts,
    RoundTelemetry,
    RunRecord,
    Severity,
    energies_disagree,
)

UNTOUCHED_NS = 1_200_000_000  # a framework takes longer to import; and the driver's mean over 1 s forgets by then
# What holds a clock down and is no fault: a power limit is how a loaded data-centre GPU is meant to run.
FAULTS = ("thermal", "board_limit", "reliability")
SETTINGS = {"application clocks", "display clocks"}
FAULT_REASONS = {"hardware slowdown", "thermal (software)", "thermal (hardware)", "power brake"}


def _device_shared(record: RunRecord) -> Iterator[Check]:
    """In use before the launch had touched it. Process numbers say little in a container; use says it anywhere."""
    told: list[str] = []
    severity: Severity = "warning"
    for device in _gpus(record):
        facts = _facts(record, device)
        busy = _lowest_at_start(device, "utilization_percent")
        memory = _lowest_at_start(device, "memory_used_bytes")
        if busy is not None and busy > FOREIGN_UTILIZATION_PERCENT:
            severity = "severe"
            told.append(f"{device.id} was {busy:.0f} % busy before the launch used it")
        if memory is not None and memory > FOREIGN_MEMORY_BYTES and "memory_reserved_bytes" in device.series:
            told.append(f"{device.id} had {memory / 2**30:.1f} GiB in use before the launch used it")
        if facts is not None and (others := [*facts.processes, *facts.mps_processes]):
            told.append(f"{device.id} was held by process {', '.join(str(one.pid) for one in others)} before the run")
    if told:
        yield Check(
            name="device_shared",
            severity=severity,
            message="; ".join(told),
            remedy="stop the other processes (`nvidia-smi` lists them), or choose devices that nobody else uses",
        )


def _joined(record: RunRecord) -> Iterator[Check]:
    """Another process came while the rounds ran: ours are all there before the first one."""
    told = []
    for device in _gpus(record):
        if rounds_joined(device):
            counts = [each.processes for each in device.rounds if each.processes is not None]
            told.append(f"{device.id}: {max(counts)} processes held it, {counts[0]} in the first round")
    if told:
        yield Check(
            name="device_joined",
            severity="severe",
            message="; ".join(told),
            remedy="stop the other processes (`nvidia-smi` lists them), or choose devices that nobody else uses",
        )


def rounds_joined(device: DeviceTelemetry) -> list[int]:
    """The rounds, by index, in which more processes held the device than in the first one."""
    counts = [(each.index, each.processes) for each in device.rounds if each.processes is not None]
    return [index for index, count in counts if count > counts[0][1]]


def _throttled(record: RunRecord) -> Iterator[Check]:
    worst: tuple[float, str, str] | None = None
    for device in _gpus(record):
        for cause in FAULTS:
            share = _throttled_share(record, device, cause)
            if share is not None and (worst is None or share > worst[0]):
                worst = (share, cause.replace("_", " "), device.id)
    remedy = "look at cooling, fans and power supply (`nvidia-smi -q -d PERFORMANCE`), and let the device cool first"
    if worst is not None and worst[0] > THROTTLE_WARNING:
        share, cause, id = worst
        yield Check(
            name="throttled",
            severity="severe" if share > THROTTLE_SEVERE else "warning",
            message=f"the clock of {id} was held down in {100 * share:.0f} % of the timed rounds ({cause})",
            remedy=remedy,
        )
    elif worst is None:  # this driver counts no time; it may still say why the clock was down
        for device in _gpus(record):
            reasons = {reason for each in device.rounds for reason in each.clock_event_reasons} & FAULT_REASONS
            if reasons:
                message = f"the clock of {device.id} was held down at times: {', '.join(sorted(reasons))}"
                yield Check(name="throttled", severity="warning", message=message, remedy=remedy)
                return


def _power_limited(record: RunRecord) -> Iterator[Check]:
    shares = {device.id: _throttled_share(record, device, "power") for device in _gpus(record)}
    limited = {id: share for id, share in shares.items() if share is not None and share > THROTTLE_WARNING}
    if limited:
        id, share = max(limited.items(), key=lambda item: item[1])
        whose = f"the GPU of {id}" if id.startswith("MIG-") else id
        yield Check(
            name="power_limited",
            severity="note",
            message=f"{whose} ran at its power limit in {100 * share:.0f} % of the timed rounds",
            remedy="compare only with devices of the same power limit",
        )


def _clock_held(record: RunRecord) -> Iterator[Check]:
    """A locked clock (`nvidia-smi -lgc`) shows in nothing that the driver tells but in the clock itself."""
    for device in _gpus(record):
        facts = _facts(record, device)
        busy = [each for each in device.rounds if (each.utilization_percent or 0) > BUSY_PERCENT]
        clocks = [each.sm_clock_mhz for each in busy if each.sm_clock_mhz is not None]
        held = any(set(each.clock_event_reasons) - SETTINGS or any(each.throttle_ns.values()) for each in busy)
        if facts is None or not facts.sm_clock_max_mhz or not clocks or held:
            continue
        if max(clocks) < CLOCK_HELD * facts.sm_clock_max_mhz:
            yield Check(
                name="clock_held_down",
                severity="warning",
                message=f"the clock of {device.id} was {max(clocks):.0f} MHz of {facts.sm_clock_max_mhz}, and the "
                "driver tells of neither power nor heat that held it down: it may be locked, or set lower",
                remedy=f"`sudo nvidia-smi -i {facts.index} -rgc` unlocks it, `-rac` undoes application clocks",
            )
            return


def _link(record: RunRecord) -> Iterator[Check]:
    """In a busy round: an idle link is slow by design."""
    for device in _gpus(record):
        facts = _facts(record, device)
        generation = _highest([each.pcie_link_generation for each in device.rounds if each.utilization_percent])
        width = _highest([each.pcie_link_width for each in device.rounds if each.utilization_percent])
        if facts is None:
            continue
        slow = generation is not None and generation < (facts.pcie_generation_max or 0)
        narrow = width is not None and width < (facts.pcie_width_max or 0)
        if slow or narrow:
            yield Check(
                name="link_below_maximum",
                severity="warning",
                message=f"the PCIe link of {device.id} was generation {generation}, x{width} while busy; it can do "
                f"generation {facts.pcie_generation_max}, x{facts.pcie_width_max}",
                remedy="seat the card anew, look at riser and slot, and at the firmware's setting for the slot",
            )
            return


def _device_errors(record: RunRecord) -> Iterator[Check]:
    for device in _gpus(record):
        uncorrected = sum(each.ecc_uncorrected or 0 for each in device.rounds)
        if uncorrected or device.xids:
            codes = sorted({code for _, code in device.xids})
            xids = f"Xid {', '.join(map(str, codes))}" if codes else "no Xid"
            yield Check(
                name="device_errors",
                severity="severe" if uncorrected else "warning",
                message=f"{device.id} reported {uncorrected} uncorrected memory error(s) and {xids}",
                remedy="look the code up in NVIDIA's list of Xid errors; a device with memory errors needs a reset",
            )
            return


def _other_errors(record: RunRecord) -> Iterator[Check]:
    """GPUs share links, power and a driver: one that fails may be felt by the launch on the others."""
    codes: dict[str, set[int]] = {}
    for id, _, code in record.telemetry.other_xids:
        codes.setdefault(id, set()).add(code)
    if codes:
        told = [f"{id} reported Xid {', '.join(map(str, sorted(found)))}" for id, found in sorted(codes.items())]
        yield Check(
            name="other_device_errors",
            severity="note",
            message=f"{'; '.join(told)}, while this launch ran on other devices",
            remedy="look the code up in NVIDIA's list of Xid errors, and see whether the case repeats without it",
        )


def _utilization(record: RunRecord) -> Iterator[Check]:
    for device in record.telemetry.devices:
        idle = [each.index for each in device.rounds if each.utilization_percent == 0]
        if idle:
            where = "every round" if len(idle) == len(device.rounds) else f"round {', '.join(map(str, idle))}"
            yield Check(
                name="utilization_zero",
                severity="warning",
                message=f"{device.id} read 0 % busy in {where}",
                remedy="either the device did no work, or its driver does not report utilisation; compare its power",
            )
        elif record.case.device_kind == "gpu" and _always_busy(device):
            yield Check(
                name="utilization_constant",
                severity="warning",
                message=f"{device.id} read 100 % busy all the time, also before the launch used it and between rounds",
                remedy="a process hangs on the device, or the reading is stuck; do not read its utilisation",
            )


def _always_busy(device: DeviceTelemetry) -> bool:
    readings = [value for value in device.series.get("utilization_percent", []) if value is not None]
    return len(readings) > 1 and min(readings) >= 100


def _energy(record: RunRecord) -> Iterator[Check]:
    seconds: dict[int, float] = {}
    for device in record.telemetry.devices:
        for each in device.rounds:
            if each.energy_joules is None and not each.energy_problem:
                continue
            seconds = seconds or {one.index: (one.end_ns - one.start_ns) / 1e9 for one in record.rounds}
            problem = each.energy_problem or _contradiction(each, seconds.get(each.index))
            if problem:
                yield Check(
                    name="energy_doubtful",
                    severity="warning",
                    message=f"{device.id}, round {each.index}: {problem}",
                    remedy="do not quote power or energy of this case; measure with longer rounds, or at the wall",
                )
                return


def _contradiction(each: RoundTelemetry, seconds: float | None) -> str | None:
    if each.energy_source != "counter" or each.energy_joules is None or each.power_watts is None or not seconds:
        return None
    integrated = each.power_watts * seconds
    if not energies_disagree(each.energy_joules, integrated, each.energy_error_joules):
        return None
    return f"the counter says {each.energy_joules:.0f} J and the power over time {integrated:.0f} J"


def _throttled_share(record: RunRecord, device: DeviceTelemetry, cause: str) -> float | None:
    """Of the time of all timed rounds; None where a round's is not known."""
    held_ns = [each.throttle_ns.get(cause) for each in device.rounds]
    total_ns = sum(each.end_ns - each.start_ns for each in record.rounds)
    if not held_ns or None in held_ns or total_ns <= 0:
        return None
    return sum(ns for ns in held_ns if ns is not None) / total_ns


def _lowest_at_start(device: DeviceTelemetry, metric: str) -> float | None:
    """The lowest reading in the first moments, so that what the launch before left behind is no finding."""
    samples = zip(device.time_ns, device.series.get(metric, []), strict=False)
    early = [value for t, value in samples if value is not None and t < device.time_ns[0] + UNTOUCHED_NS]
    return min(early, default=None)


def _gpus(record: RunRecord) -> list[DeviceTelemetry]:
    return record.telemetry.devices if record.case.device_kind == "gpu" else []


def _facts(record: RunRecord, device: DeviceTelemetry) -> GpuFacts | None:
    system = record.telemetry.system
    return next((gpu for gpu in system.gpus if gpu.id == device.id), None) if system else None


def _highest(values: list[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


OF_GPUS = (_device_shared, _joined, _throttled, _power_limited, _clock_held, _link, _device_errors)
DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (
    *OF_GPUS,
    _other_errors,
    _utilization,
    _energy,
)
