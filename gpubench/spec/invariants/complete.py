"""What is there of every launch that ended well: a doubt must not end where the figure that raised it is left out."""

from __future__ import annotations

from collections.abc import Callable

from gpubench.spec.record import RunRecord

Has = Callable[[RunRecord], bool]

# What every schema has.
FIRST: dict[str, Has] = {
    "a warm-up": lambda record: record.warmup is not None,
    "its devices as the framework saw them": lambda record: bool(record.observed.device_ids),
    "how many they were": lambda record: record.observed.world_size is not None,
    "its parameters": lambda record: record.observed.parameters is not None,
}
# What each launch has since schema 2. One more figure takes a schema of its own, or older records would lack it.
ALWAYS: dict[str, Has] = FIRST | {
    "rounds": lambda record: bool(record.rounds),
    "the spans of its ranks": lambda record: all(each.rank_spans_ns is not None for each in record.rounds),
    "the times of its warm-up's steps": lambda record: record.warmup is None or bool(record.warmup.step_seconds),
    "the time of a round without steps": lambda record: (
        record.warmup is None or record.warmup.empty_round_seconds is not None
    ),
    "the length that its rounds were to have": lambda record: record.warmup is None or _has_length(record),
    "digests of what it trained": lambda record: bool(record.observed.moving_digests),
    "the types of its parameters": lambda record: bool(record.observed.parameter_types),
    "whether the machine stood still": lambda record: record.host.stood_still_seconds is not None,
    "variables": lambda record: bool(record.environment),
    "the variables that were kept away": lambda record: record.environment_kept_away is not None,
    "the FLOPs of a step": lambda record: record.observed.flops_per_step is not None,
    "whether its loss was finite": lambda record: record.observed.loss_finite is not None,
    "its first loss": lambda record: record.observed.loss_first is not None or record.observed.loss_finite is False,
    "digests of its replicas": lambda record: bool(record.observed.replica_digests),
    "what the machine swapped": lambda record: None not in (record.host.swap_in_bytes, record.host.swap_out_bytes),
}


def is_current(record: RunRecord) -> bool:
    """Whether it is of a schema in which all of `ALWAYS` is written of every launch."""
    return record.schema >= 2


def launch(record: RunRecord) -> str | None:
    if not is_current(record) and _has_length(record):
        return "it has the length that its rounds were to have, which schema 1 did not know"
    wanted = ALWAYS if is_current(record) else FIRST
    lacking = [what for what, has in wanted.items() if not has(record)]
    return f"it lacks {', '.join(lacking)}" if lacking else None


def sampled(record: RunRecord) -> str | None:
    telemetry = record.telemetry
    if telemetry.reason or not is_current(record):
        return None
    if not telemetry.devices:
        return "nothing was sampled, and no reason is given"
    unsampled = [device.id for device in telemetry.devices if not device.rounds]
    return f"{', '.join(unsampled)} was sampled in no round, and no reason is given" if unsampled else None


def _has_length(record: RunRecord) -> bool:
    return record.warmup is not None and record.warmup.round_seconds is not None
