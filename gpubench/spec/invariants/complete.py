"""What is there of every launch that ended well: a doubt must not end where the figure that raised it is left out."""

from __future__ import annotations

from collections.abc import Callable

from gpubench.spec.asked import once_for_a_record
from gpubench.spec.record import RunRecord

Has = Callable[[RunRecord], bool]

# What every version has written, all of it or, of a launch that nothing was heard of, nothing.
FIRST: dict[str, Has] = {
    "a warm-up": lambda record: record.warmup is not None,
    "its devices as the framework saw them": lambda record: bool(record.observed.device_ids),
    "how many they were": lambda record: record.observed.world_size is not None,
    "its parameters": lambda record: record.observed.parameters is not None,
}
# What the first versions did not write. A record that has two of these is of a version that writes all of `ALWAYS`.
LATER: dict[str, Has] = {
    "the spans of its ranks": lambda record: all(each.rank_spans_ns is not None for each in record.rounds),
    "digests of what it trained": lambda record: bool(record.observed.moving_digests),
    "the types of its parameters": lambda record: bool(record.observed.parameter_types),
    "the time of a round without steps": lambda record: (
        record.warmup is not None and record.warmup.empty_round_seconds is not None
    ),
    "the length that its rounds were to have": lambda record: (
        record.warmup is not None and record.warmup.round_seconds is not None
    ),
    "whether the machine stood still": lambda record: record.host.stood_still_seconds is not None,
    "the variables that were kept away": lambda record: record.environment_kept_away is not None,
}
ALWAYS: dict[str, Has] = (
    FIRST
    | LATER
    | {
        "rounds": lambda record: bool(record.rounds),
        "the times of its warm-up's steps": lambda record: record.warmup is None or bool(record.warmup.step_seconds),
        "variables": lambda record: bool(record.environment),
        "the FLOPs of a step": lambda record: record.observed.flops_per_step is not None,
        "whether its loss was finite": lambda record: record.observed.loss_finite is not None,
        "its first loss": lambda record: record.observed.loss_first is not None or record.observed.loss_finite is False,
        "digests of its replicas": lambda record: bool(record.observed.replica_digests),
        "what the machine swapped": lambda record: None not in (record.host.swap_in_bytes, record.host.swap_out_bytes),
    }
)


@once_for_a_record
def is_current(record: RunRecord) -> bool:
    """Whether it was written by a version that writes all of `ALWAYS`."""
    return sum(has(record) for has in LATER.values()) >= 2


def launch(record: RunRecord) -> str | None:
    wanted = ALWAYS if is_current(record) else FIRST
    lacking = [what for what, has in wanted.items() if not has(record)]
    if wanted is FIRST and len(lacking) == len(FIRST):
        return None
    return f"it lacks {', '.join(lacking)}" if lacking else None


def sampled(record: RunRecord) -> str | None:
    telemetry = record.telemetry
    if telemetry.reason or not is_current(record):
        return None
    if not telemetry.devices:
        return "nothing was sampled, and no reason is given"
    unsampled = [device.id for device in telemetry.devices if not device.rounds]
    return f"{', '.join(unsampled)} was sampled in no round, and no reason is given" if unsampled else None
