"""What the harness and a worker say to each other: one JSON line each, on a channel of their own.

The harness sends orders on the worker's standard input. The worker answers on a file descriptor of its own, so that
whatever a framework prints can never be mistaken for a message.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gpubench.spec.case import Case, Device, Place

MESSAGE_FD_VARIABLE = "GPUBENCH_MESSAGE_FD"


@dataclass(frozen=True, kw_only=True)
class Start:
    """The first order: what to run, and as whom.

    `given_file` names weights and samples to train with, where the strategy is being verified; else the workload makes
    its own.
    """

    kind: ClassVar[str] = "start"
    case: Case
    place: Place
    package: str
    folder: str
    strategy_module: str
    workload_module: str
    given_file: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunSteps:
    """Run one round of `steps` steps, from idle to idle, and say how long it took."""

    kind: ClassVar[str] = "run_steps"
    phase: str
    steps: int


@dataclass(frozen=True, kw_only=True)
class Inspect:
    """Show what the training holds now; with `types`, also what it computes in, for which it may take a step."""

    kind: ClassVar[str] = "inspect"
    types: bool = False


@dataclass(frozen=True, kw_only=True)
class Finish:
    """Show what the training has come to, and end.

    With `export_folder`, each rank writes its replicas' parameters there as `rank0.npz`, `rank1.npz`, …
    With `another`, the process stays, and takes another `Start` of the same place.
    """

    kind: ClassVar[str] = "finish"
    export_folder: str | None = None
    another: bool = False


@dataclass(frozen=True, kw_only=True)
class Started:
    """The framework is imported and its devices are taken."""

    kind: ClassVar[str] = "started"
    pid: int
    python: str
    versions: dict[str, str]
    environment: dict[str, str]
    devices: list[str]
    import_seconds: float


@dataclass(frozen=True, kw_only=True)
class Built:
    """The model stands on its devices. `parameters` counts the trainable ones of one replica.

    `macs` are the multiply-adds of one forward pass over one sample, where the strategy counts them.
    """

    kind: ClassVar[str] = "built"
    world_size: int
    parameters: int
    samples_per_step: int
    macs: int | None = None


@dataclass(frozen=True, kw_only=True)
class RoundDone:
    """One round on one rank. Times are of the node's monotonic clock, in nanoseconds."""

    kind: ClassVar[str] = "round_done"
    start_ns: int
    end_ns: int
    cpu_seconds: float
    steps: int
    samples: int
    loss: float | None = None


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What a rank holds between rounds: a digest of its first replica's parameters.

    The types are floating-point types by name, "float32", sorted; None where they were not asked for, or where the
    framework tells none. `tf32` is whether a GPU may round float32 to TF32 where it multiplies.
    """

    kind: ClassVar[str] = "inspected"
    digest: str
    parameter_types: list[str] | None = None
    input_types: list[str] | None = None
    product_types: list[str] | None = None
    tf32: bool | None = None
    cpu_capability: str | None = None


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The last word of a healthy rank. A digest is of all trainable parameters of one replica, bit for bit."""

    kind: ClassVar[str] = "finished"
    loss_last: float | None
    loss_finite: bool | None
    replica_digests: list[str]
    peak_memory_bytes: int | None
    peak_memory_of: str
    gradient_norm: float | None = None


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The last word of a rank that cannot go on."""

    kind: ClassVar[str] = "failed"
    phase: str
    status: str  # "oom" or "failed"
    message: str
    details: dict[str, Any] = field(default_factory=dict)


Order = Start | RunSteps | Inspect | Finish
Report = Started | Built | RoundDone | Inspected | Finished | Failed
_KINDS: dict[str, type[Any]] = {
    c.kind: c for c in (Start, RunSteps, Inspect, Finish, Started, Built, RoundDone, Inspected, Finished, Failed)
}


def to_line(message: Order | Report) -> str:
    """One JSON line. A number that is not finite becomes null: JSON has no word for it."""
    body = {"kind": message.kind, **dataclasses.asdict(message)}
    return json.dumps(_finite(body), allow_nan=False, separators=(",", ":")) + "\n"


def from_line(line: str | bytes) -> Order | Report:
    """The message of a line; ValueError where it is none."""
    try:
        body = json.loads(line)
        kind = _KINDS[body.pop("kind")]
        if kind is Start:
            body["case"] = Case(**body["case"])
            body["place"] = _place(body["place"])
        message: Order | Report = kind(**body)
        return message
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a message: {line[:200]!r} ({error})") from error


def _place(body: dict[str, Any]) -> Place:
    devices = [tuple(_device(d) for d in body.pop(key)) for key in ("devices", "all_devices")]
    return Place(devices=devices[0], all_devices=devices[1], **body)


def _device(body: dict[str, Any]) -> Device:
    return Device(**{**body, "cores": tuple(body["cores"])})


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
