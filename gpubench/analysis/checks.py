"""Every record is doubted. Each doubt has a severity and a remedy; a severe one takes the headline number away.

What was not observed is not doubted: an absent value raises no alarm. Standard library only, so that the harness can
ask while it runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from gpubench.spec.record import Check, RunRecord
from gpubench.spec.workload import WORKLOADS

if TYPE_CHECKING:
    from gpubench.analysis.scaling import CaseSummary

# Busy cores over wall time may stray this far from whole cores before it is a finding: timer and system time.
BUSY_MARGIN = 1.15
IMBALANCE_LIMIT = 0.10
EFFICIENCY_LIMIT = 1.05
NOISE_LIMIT = 0.05


def doubts(record: RunRecord) -> list[Check]:
    """The doubts about one launch that ended well; one that did not has no number to doubt."""
    if record.outcome.status != "ok":
        return []
    return [check for doubt in _DOUBTS for check in doubt(record)]


def series_doubts(summaries: Sequence[CaseSummary]) -> list[tuple[CaseSummary, Check]]:
    """The doubts that only show when launches and cases are seen together, each with the case that it is about."""
    found = [(summary, check) for summary in summaries for check in _case_doubts(summary)]
    series: dict[object, list[CaseSummary]] = defaultdict(list)
    for summary in summaries:
        series[summary.series].append(summary)
    for members in series.values():
        found.extend(_falling(sorted(members, key=lambda member: member.case.n_devices)))
    return found


def worst(checks: Iterable[Check]) -> Check | None:
    """The first severe check, if any."""
    return next((check for check in checks if check.severity == "severe"), None)


def _world_size(record: RunRecord) -> Iterator[Check]:
    seen, asked = record.observed.world_size, record.case.n_devices
    if seen is not None and seen != asked:
        yield Check(
            name="world_size",
            severity="severe",
            message=f"the framework counted {seen} device(s), {asked} were asked for",
            remedy="the strategy did not spread over the devices; see the log for what it fell back to",
        )


def _devices(record: RunRecord) -> Iterator[Check]:
    asked = {device.id for device in record.devices}
    seen = set(record.observed.device_ids)
    if asked and seen and _comparable(seen, asked) and seen != asked:
        yield Check(
            name="wrong_devices",
            severity="severe",
            message=f"ran on {_names(seen)}, asked for {_names(asked)}",
            remedy="check CUDA_VISIBLE_DEVICES and core affinity (cgroups, taskset) of the shell that started the run",
        )
    sampled = {device.id for device in record.telemetry.devices}
    if asked and sampled and _comparable(sampled, asked) and sampled != asked:
        yield Check(
            name="sampled_other_devices",
            severity="warning",
            message=f"telemetry is of {_names(sampled)}, the run was on {_names(asked)}",
            remedy="do not read utilisation, memory or power of this case",
        )


def _samples(record: RunRecord) -> Iterator[Check]:
    counted = sum(each.samples for each in record.rounds)
    expected = sum(each.steps for each in record.rounds) * record.case.global_batch
    if counted != expected:
        yield Check(
            name="samples_counted",
            severity="severe",
            message=f"{counted} samples were counted where steps times global batch gives {expected}",
            remedy="the batch is not split as the case says; check how the strategy shards its input",
        )


def _replicas(record: RunRecord) -> Iterator[Check]:
    if record.observed.replicas_equal is False:
        yield Check(
            name="replicas_differ",
            severity="severe",
            message="the replicas hold different parameters at the end",
            remedy="gradients were not exchanged, so this is not data-parallel training; check the all-reduce",
        )


def _loss(record: RunRecord) -> Iterator[Check]:
    first, last = record.observed.loss_first, record.observed.loss_last
    lost = first is not None and last is None  # a number that is not finite travels as null
    if lost or any(loss is not None and not math.isfinite(loss) for loss in (first, last)):
        yield Check(
            name="loss_not_finite",
            severity="severe",
            message="the loss is not a finite number",
            remedy="training diverged; lower the learning rate, or check the precision and how the loss is averaged",
        )
    elif first is not None and last is not None and last >= first:
        yield Check(
            name="loss_did_not_fall",
            severity="warning",
            message=f"the loss went from {first:.4g} to {last:.4g}",
            remedy="check that the optimizer updates the parameters; a very short run may also not show it yet",
        )


def _parameters(record: RunRecord) -> Iterator[Check]:
    seen, workload = record.observed.parameters, WORKLOADS.get(record.case.workload)
    if seen is not None and workload is not None and seen != workload.parameters:
        yield Check(
            name="parameters",
            severity="severe",
            message=f"the model has {seen:,} parameters, {workload.name} has {workload.parameters:,}",
            remedy="this is another model; compare its layers with the workload's",
        )


def _steady_state(record: RunRecord) -> Iterator[Check]:
    if record.warmup is not None and not record.warmup.steady:
        yield Check(
            name="no_steady_state",
            severity="severe",
            message=record.warmup.verdict or f"step times did not settle in {record.warmup.steps} warm-up steps",
            remedy="stop other work on the machine, or allow a longer warm-up",
        )


def _busy_cores(record: RunRecord) -> Iterator[Check]:
    """CPU time over wall time must fit the cores that each process was given."""
    case = record.case
    seconds = _by_rank(record, "rank_seconds")
    cpu_seconds = _by_rank(record, "rank_cpu_seconds")
    if case.device_kind != "cpu" or not case.cores_per_device or not seconds or len(seconds) != len(cpu_seconds):
        return
    shares = case.n_devices / len(seconds)  # of each process
    busy = [cpu / wall for cpu, wall in zip(cpu_seconds, seconds, strict=True) if wall > 0]
    cores = case.cores_per_device
    if busy and max(busy) > BUSY_MARGIN * shares * cores:
        yield Check(
            name="too_many_cores",
            severity="severe",
            message=f"a process kept {max(busy):.2f} cores busy and was given {shares * cores:g}",
            remedy="a CPU share must be held to its cores: check that affinity can be set here, and thread counts",
        )
    if busy and shares > 1 and max(busy) <= BUSY_MARGIN * cores:
        yield Check(
            name="shares_not_used",
            severity="severe",
            message=f"{case.n_devices} shares of {cores} core(s) were asked for, {max(busy):.2f} cores were busy",
            remedy="the framework ran the replicas one after another; check its thread settings and workspaces",
        )


def _idle_devices(record: RunRecord) -> Iterator[Check]:
    for device in record.telemetry.devices:
        values = [each.utilization_percent for each in device.rounds if each.utilization_percent is not None]
        if values and not any(values):
            yield Check(
                name="utilization_zero",
                severity="warning",
                message=f"{device.id} read 0 % busy in every round",
                remedy="either the device did no work, or its driver does not report utilisation; compare its power",
            )


def _imbalance(record: RunRecord) -> Iterator[Check]:
    seconds = _by_rank(record, "rank_seconds")
    if len(seconds) < 2 or max(seconds) <= 0:
        return
    waste = 1 - min(seconds) / max(seconds)
    if waste > IMBALANCE_LIMIT:
        slow = seconds.index(max(seconds))
        yield Check(
            name="imbalance",
            severity="warning",
            message=f"rank {slow} took {seconds[slow]:.3g} s, the fastest rank {100 * waste:.0f} % less",
            remedy=f"look at the clocks, temperature and other processes of rank {slow}'s device",
        )


def _case_doubts(summary: CaseSummary) -> Iterator[Check]:
    efficiency, interval = summary.scaling_efficiency, summary.scaling_efficiency_interval
    if efficiency is not None and efficiency > EFFICIENCY_LIMIT:
        sure = interval is None or interval.low > EFFICIENCY_LIMIT
        yield Check(
            name="efficiency_above_one",
            severity="severe" if sure else "warning",
            message=f"scaling efficiency {efficiency:.2f}: more than the devices can give",
            remedy="the baseline is too slow (other load, clocks, cold start) or the work differs: measure both again",
        )
    if summary.launch_noise is not None and summary.launch_noise > NOISE_LIMIT:
        yield Check(
            name="noisy_launches",
            severity="warning",
            message=f"launches differ by {100 * summary.launch_noise:.0f} % (standard deviation)",
            remedy="stop other work on the machine, or run more launches",
        )
    for package, versions in _mixed_versions(summary).items():
        yield Check(
            name="mixed_software",
            severity="severe",
            message=f"{package} {' and '.join(versions)} are compared in one series",
            remedy="measure the whole series again in one environment",
        )


def _mixed_versions(summary: CaseSummary) -> dict[str, list[str]]:
    """Packages that were not the same in all launches of the case and of the baseline that it is compared with."""
    versions: dict[str, set[str]] = defaultdict(set)
    for record in summary.records + (summary.baseline.records if summary.baseline else ()):
        if record.outcome.status == "ok":
            for package, version in record.software.items():
                versions[package].add(version)
    return {package: sorted(found) for package, found in sorted(versions.items()) if len(found) > 1}


def _falling(series: Sequence[CaseSummary]) -> Iterator[tuple[CaseSummary, Check]]:
    """Real systems do this, so the number stays; what is doubted is that more devices were of any use."""
    measured = [summary for summary in series if summary.samples_per_second is not None]
    for fewer, more in pairwise(measured):
        was, now = fewer.samples_per_second, more.samples_per_second
        if was is not None and now is not None and now < was:
            check = Check(
                name="throughput_falls",
                severity="warning",
                message=f"{now:.4g} samples/s on {more.case.n_devices} devices, {was:.4g} on {fewer.case.n_devices}",
                remedy="the exchange between devices costs more than they add; try a larger per-device batch",
            )
            yield more, check


def _by_rank(record: RunRecord, name: str) -> list[float]:
    """Seconds of each rank, added up over the rounds; empty where rounds disagree on how many ranks there are."""
    rounds: list[list[float]] = [getattr(each, name) for each in record.rounds]
    if not rounds or len({len(each) for each in rounds}) != 1:
        return []
    return [sum(column) for column in zip(*rounds, strict=True)]


def _comparable(found: set[str], asked: set[str]) -> bool:
    """A framework that names GPUs by PCI address, or a hand-made record, says nothing against a UUID."""
    return {_grammar(name) for name in found} == {_grammar(name) for name in asked}


def _grammar(name: str) -> str:
    return "cores" if name.startswith("core") else "uuid" if name.startswith(("GPU-", "MIG-")) else "other"


def _names(ids: Iterable[str]) -> str:
    return ", ".join(sorted(ids))


_DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (
    _world_size,
    _devices,
    _samples,
    _replicas,
    _loss,
    _parameters,
    _steady_state,
    _busy_cores,
    _idle_devices,
    _imbalance,
)
