"""The case against what ran, and what ran against itself: a sentence where they contradict each other, else None."""

from __future__ import annotations

from gpubench.spec.record import RunRecord
from gpubench.spec.workload import WORKLOADS

FRAMEWORKS = ("torch", "tensorflow", "mxnet", "fake")  # each names its own version


def batch(record: RunRecord) -> str | None:
    case = record.case
    if case.global_batch == case.n_devices * case.per_device_batch:
        return None
    return f"{case.n_devices} x {case.per_device_batch} samples are not a global batch of {case.global_batch}"


def devices(record: RunRecord) -> str | None:
    case, named = record.case, record.devices
    if case.n_devices % case.n_nodes:
        return f"{case.n_devices} devices are not spread over {case.n_nodes} nodes"
    # Of several nodes, a record may name the devices of its own alone.
    if len(named) != case.n_devices and (case.n_nodes == 1 or len(named) * case.n_nodes != case.n_devices):
        return f"the case is on {case.n_devices} device(s), and {len(named)} are named"
    if len({device.id for device in named}) != len(named):
        return "two devices have one id"
    if any(device.kind != case.device_kind for device in named):
        return f"a device is no {case.device_kind}"
    if any(len(device.cores) != case.cores_per_device for device in named):
        return f"a device has not the {case.cores_per_device} core(s) of the case"
    cores = [core for device in named for core in device.cores]
    return "two shares have a core in common" if len(set(cores)) != len(cores) else None


def names(record: RunRecord) -> str | None:
    """A reader takes a figure for that of the device whose name stands beside it."""
    if record.case.device_kind != "cpu":
        return None
    called = [each.name for each in record.devices] + [each.name for each in record.telemetry.devices]
    return next((f"a CPU share is called {name}" for name in called if "CPU" not in name), None)


def machine(record: RunRecord) -> str | None:
    there = record.machine
    if record.case.device_kind == "gpu":
        strangers = [device.id for device in record.devices if device not in there.devices] if there.devices else []
        return f"{', '.join(strangers)} as described is no device of the machine" if strangers else None
    cores = sum(len(device.cores) for device in record.devices)
    return f"its shares have {cores} cores, and the machine has {there.cores}" if cores > there.cores else None


def single(record: RunRecord) -> str | None:
    if record.case.strategy == "single" and record.case.n_devices != 1:
        return f"`single` ran on {record.case.n_devices} devices"
    return None


def ranks(record: RunRecord) -> str | None:
    case = record.case
    counts = {len(each.rank_seconds) for each in record.rounds}
    if len(counts) > 1:
        return f"rounds have {' and '.join(map(str, sorted(counts)))} ranks"
    if counts and counts.isdisjoint({1, case.n_nodes, case.n_devices}):
        return f"{counts.pop()} ranks ran on {case.n_devices} devices"
    if counts and any(len(held) not in counts for held in record.observed.moving_digests or []):
        return "there are digests of another number of ranks than ran"
    return None


def software(record: RunRecord) -> str | None:
    framework, named = record.case.framework, record.software
    if framework not in named and (framework in FRAMEWORKS or any(each in named for each in FRAMEWORKS)):
        return f"the case is of {framework}, which is not in its software"
    return None


def outcome(record: RunRecord) -> str | None:
    ended = record.outcome
    told = (ended.message, ended.remedy, ended.phase, ended.log, *ended.log_tail)
    if ended.rank is None and not any(told):
        return None
    words = next((word for word in told if word), f"rank {ended.rank}")
    return f"it ended well, and tells of a failure: {words[:200]}"


def digests(record: RunRecord) -> str | None:
    seen = record.observed
    found = seen.replica_digests
    if not found:
        return None
    if seen.replicas_equal is not (len(set(found)) == 1):
        return f"replicas_equal is {seen.replicas_equal}, and there are {len(set(found))} digests"
    if len(found) > record.case.n_devices:
        return f"there are {len(found)} replicas on {record.case.n_devices} devices"
    if record.rounds and len(found) < len(record.rounds[0].rank_seconds):
        return f"there are {len(found)} replicas of {len(record.rounds[0].rank_seconds)} ranks"
    if seen.moving_digests and not set(found).issuperset(seen.moving_digests[-1]):
        return "the last digests are not those of the replicas"
    return None


def loss(record: RunRecord) -> str | None:
    seen = record.observed
    if seen.loss_finite is None or seen.loss_finite is (seen.loss_last is not None):
        return None
    return f"the last loss is {seen.loss_last}, and is said to be {'' if seen.loss_finite else 'not '}finite"


def flops(record: RunRecord) -> str | None:
    counted, workload = record.observed.flops_per_step, WORKLOADS.get(record.case.workload)
    if counted is None or workload is None:
        return None
    expected = record.case.global_batch * workload.training_flops_per_sample
    return None if counted == expected else f"a step has {counted} FLOPs, and those of its samples are {expected}"


def pair(record: RunRecord) -> str | None:
    schedule = record.schedule
    if schedule is None or (schedule.pair_id is None and schedule.paired_as is None):
        return None
    if schedule.pair_id is None or schedule.paired_as is None:
        return "it is half of a pair, and the pair or the half is not named"
    is_baseline = record.case.strategy == "single" and record.case.n_devices == 1
    if is_baseline is not (schedule.paired_as == "baseline"):
        return f"{record.case.id} was the {schedule.paired_as} of a pair"
    return None
