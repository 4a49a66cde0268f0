"""Whether the launch did what its case says: the same devices, samples, model and training. Severe unless said."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from gpubench.analysis.checks.limits import BUSY_MARGIN, LOAD_WARNING
from gpubench.analysis.load import mean_load, round_loads
from gpubench.spec.record import Check, RunRecord
from gpubench.spec.workload import WORKLOADS


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
    if asked and seen and _differ(seen, asked):
        yield Check(
            name="wrong_devices",
            severity="severe",
            message=f"ran on {_names(seen)}, asked for {_names(asked)}",
            remedy="check CUDA_VISIBLE_DEVICES and core affinity (cgroups, taskset) of the shell that started the run",
        )
    sampled = {device.id for device in record.telemetry.devices}
    if asked and sampled and _differ(sampled, asked):
        yield Check(
            name="sampled_other_devices",
            severity="warning",
            message=f"telemetry is of {_names(sampled)}, the run was on {_names(asked)}",
            remedy="do not read utilisation, memory or power of this case",
        )


def _samples(record: RunRecord) -> Iterator[Check]:
    control = record.telemetry.control
    for each in [*record.rounds, *([] if control is None else [control])]:
        expected = each.steps * record.case.global_batch
        if each.samples != expected:
            yield Check(
                name="samples_counted",
                severity="severe",
                message=f"{each.samples} samples were counted in round {each.index} where steps times global batch "
                f"gives {expected}",
                remedy="the batch is not split as the case says; check how the strategy shards its input",
            )
            return


def _replicas(record: RunRecord) -> Iterator[Check]:
    if record.observed.replicas_equal is False:
        yield Check(
            name="replicas_differ",
            severity="severe",
            message="the replicas hold different parameters at the end",
            remedy="gradients were not exchanged, so this is not data-parallel training; check the all-reduce",
        )


def _movement(record: RunRecord) -> Iterator[Check]:
    """Training moves parameters, in the last round too. A step that stops to train goes on at a price that is not."""
    held = record.observed.moving_digests or []
    for index, (before, after) in enumerate(pairwise(held)):
        still = [str(rank) for rank, (one, two) in enumerate(zip(before, after, strict=False)) if one == two]
        if still:
            when = "over the rounds before the last" if index < len(held) - 2 else "in the last round"
            yield Check(
                name="parameters_did_not_move",
                severity="severe",
                message=f"{record.case.strategy} left the parameters of rank {', '.join(still)} as they were {when}",
                remedy="the strategy stopped working: see what its step does, and when the optimizer updates",
            )
            return


def _loss(record: RunRecord) -> Iterator[Check]:
    first, last = record.observed.loss_first, record.observed.loss_last
    if record.observed.loss_finite is False or any(x is not None and not math.isfinite(x) for x in (first, last)):
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
    if workload is None:
        yield Check(
            name="parameters",
            severity="warning",
            message=f"{record.case.workload} is no workload that this gpubench knows: it may be another model",
            remedy="read it with the gpubench that wrote it",
        )
    if seen is not None and workload is not None and seen != workload.parameters:
        yield Check(
            name="parameters",
            severity="severe",
            message=f"the model has {seen:,} parameters, {workload.name} has {workload.parameters:,}",
            remedy="this is another model; compare its layers with the workload's",
        )


def _busy_cores(record: RunRecord) -> Iterator[Check]:
    """CPU time over wall time must fit the cores that each process was given: neither more, nor one share of many."""
    case = record.case
    if case.device_kind != "cpu" or not case.cores_per_device:
        return
    seconds, cpu_seconds = by_rank(record, "rank_seconds"), by_rank(record, "rank_cpu_seconds")
    if not seconds or len(seconds) != len(cpu_seconds):
        return
    shares = case.n_devices / len(seconds)  # of each process
    busy = max((cpu / wall for cpu, wall in zip(cpu_seconds, seconds, strict=True) if wall > 0), default=None)
    cores = case.cores_per_device
    if busy is None:
        return
    if busy > BUSY_MARGIN * shares * cores:
        yield Check(
            name="too_many_cores",
            severity="severe",
            message=f"a process kept {busy:.2f} cores busy and was given {shares * cores:g}",
            remedy="a CPU share must be held to its cores: check that affinity can be set here, and thread counts",
        )
    if shares > 1 and busy <= BUSY_MARGIN * cores:
        yield _shares_not_used(record, busy)


def _shares_not_used(record: RunRecord, busy: float) -> Check:
    """Only quiet cores tell: where others had them, a strategy that uses all of its shares looks the same."""
    n, cores = record.case.n_devices, record.case.cores_per_device
    seen = f"{n} shares of {cores} core(s) were asked for, {busy:.2f} cores were busy"
    loads = round_loads(record)
    foreign, stolen = mean_load(loads, "foreign"), mean_load(loads, "stolen")
    if foreign is not None and foreign <= LOAD_WARNING and (stolen or 0.0) <= LOAD_WARNING:
        return Check(
            name="shares_not_used",
            severity="severe",
            message=seen,
            remedy="the framework ran the replicas one after another; check its thread settings and workspaces",
        )
    others = "not known" if foreign is None else f"{100 * (foreign + (stolen or 0.0)):.0f} %"
    return Check(
        name="shares_not_used",
        severity="warning",
        message=f"{seen}; whether the strategy uses its shares cannot be told (load from others: {others})",
        remedy="stop other work on the machine and measure again",
    )


def by_rank(record: RunRecord, name: str) -> list[float]:
    """Seconds of each rank, added up over the rounds; empty where rounds disagree on how many ranks there are."""
    rounds: list[list[float]] = [getattr(each, name) for each in record.rounds]
    if len(set(map(len, rounds))) != 1:
        return []
    return list(map(sum, zip(*rounds, strict=True)))


def _differ(found: set[str], asked: set[str]) -> bool:
    """Against a UUID, a framework that names GPUs by PCI address says no more than how many there are.

    One that names them as MXNet does, by their place among those that its process sees, sees those of the case alone.
    CUDA does not say whether a UUID is a GPU's or a MIG instance's, so that a framework may call both GPU.
    """
    if found == asked or {_uuid(name) for name in found} == {_uuid(name) for name in asked}:
        return False
    if all(map(_PCI.fullmatch, found)):
        return len(found) != len(asked) or not all(map(_is_gpu, asked))
    return found != {f"gpu({place})" for place in range(len(asked))} or not all(map(_is_gpu, asked))


_PCI = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")


def _uuid(name: str) -> str:
    return name.removeprefix("GPU-").removeprefix("MIG-")


def _is_gpu(name: str) -> bool:
    return name.startswith(("GPU-", "MIG-"))


def _names(ids: Iterable[str]) -> str:
    return ", ".join(sorted(ids))


DOUBTS: tuple[Callable[[RunRecord], Iterator[Check]], ...] = (
    _world_size,
    _devices,
    _samples,
    _replicas,
    _movement,
    _loss,
    _parameters,
    _busy_cores,
)
