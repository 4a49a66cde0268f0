"""What a source of samples is: a kind of device, and how to read it. A new vendor is one more file like `cpu.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gpubench.spec.case import Device


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a source will read, said once, before its first sweep.

    Where nothing can be read, `reason` says why. `devices` are the ids of those that could be opened: every sweep gives
    a sample of each, even where all of its readings fail. `unavailable` and `methods` map a device's id and a metric to
    why it cannot be read, and to what is read. `period_ns` is the time between two readings of power where the driver
    is too slow for the period that was asked for; 0 where it is not. `power_average_seconds` names the devices whose
    power reading is an average over the time before it; `power_limit_watts` what a device cannot exceed for long.
    `system` is a `GpuSystem` as a dict. `call_seconds` says what calls took, `slowed_calls` which were too slow for
    every sweep.
    """

    source: str
    reason: str | None = None
    devices: Sequence[str] = ()
    unavailable: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    period_ns: int = 0
    power_average_seconds: Mapping[str, float] = field(default_factory=dict)
    power_limit_watts: Mapping[str, float] = field(default_factory=dict)
    system: dict[str, Any] | None = None
    call_seconds: Mapping[str, float] = field(default_factory=dict)
    slowed_calls: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Gpm:
    """Means between two times, by the GPU's own counters (GPU performance monitoring)."""

    start_ns: int
    end_ns: int
    values: Mapping[str, float]


class Sample(NamedTuple):  # made many times a second; a frozen dataclass takes several times as long
    """One device at one time of the node's monotonic clock. A value is None for this once, and `problems` says why.

    A metric that is not in `values` was not due. `history` has utilisation at earlier times, each in percent of the
    time since the one before; `xids` are errors that the driver told since the last sample, with when.
    """

    time_ns: int
    id: str
    values: Mapping[str, float | None]
    problems: Mapping[str, str] = {}
    history: Sequence[tuple[int, float]] = ()
    gpm: Gpm | None = None
    xids: Sequence[tuple[int, int]] = ()


def source_of(device: Device) -> str:
    """The name of the source that reads the device: "nvml", "amdsmi" or "cpu"."""
    if device.kind == "cpu":
        return "cpu"
    return "amdsmi" if device.vendor == "amd" else "nvml"


class Source(Protocol):
    """Reads the devices that it was made with; lives in the sampler process only. Its first two methods never raise."""

    def header(self) -> Header: ...

    def sweep(self, edge: bool = False) -> list[Sample]:
        """Read what is due; everything at the `edge` of a round."""
        ...

    def close(self) -> None: ...
