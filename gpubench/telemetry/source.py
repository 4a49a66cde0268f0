"""What a source of samples is: a kind of device, and how to read it. A new vendor is one more file like `nvml.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a source will read, said once, before its first sweep.

    Where nothing can be read, `reason` says why. `unavailable` and `methods` map a device's id and a metric to why it
    cannot be read, and to what is read. `power_average_seconds` names the devices whose power reading is an average
    over the time before it.
    """

    source: str
    reason: str | None = None
    unavailable: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    power_average_seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One device at one time of the node's monotonic clock. A value is None for this once, and `problems` says why."""

    time_ns: int
    id: str
    values: Mapping[str, float | None]
    problems: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """Reads the devices that it was made with; lives in the sampler process only. Its first two methods never raise."""

    def header(self) -> Header: ...

    def sweep(self) -> list[Sample]: ...

    def close(self) -> None: ...
