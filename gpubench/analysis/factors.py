"""What differs between two measurements of a case: the work itself, the machine, the software, the conditions.

A difference in the work is why two throughputs may not be compared at all; the others are what is being compared, or
may be why the throughputs differ (Hoefler & Belli 2015, rule 9: document all factors).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, Literal

from gpubench.analysis.reduced import Reduced
from gpubench.analysis.scaling import CaseSummary
from gpubench.spec.case import Case
from gpubench.spec.identity import cpu_limit, identity, label, labels

GIB = 1024**3
CLOCK_MARGIN = 0.02  # mean clocks this close to one another are the same: they move with temperature
ABSENT = "not recorded"
EMPTY = "set to nothing"  # of an environment variable

# What two cases must share to be compared at all. Every other field of a case is a factor.
IDENTITY = ("workload", "framework", "strategy", "device_kind", "n_devices", "n_nodes", "scaling")

Kind = Literal["work", "machine", "software", "condition"]
_NOT_WORK: Mapping[str, Kind] = {"cores_per_device": "machine", "seed": "condition"}
_NAMES = {"cores_per_device": "cores of a CPU share", "per_device_batch": "batch per device"}


@dataclass(frozen=True)
class Factor:
    """One thing that is not the same on both sides, in words; several values where a side's launches differ."""

    kind: Kind
    name: str
    reference: str
    other: str


def factors(reference: CaseSummary, other: CaseSummary) -> tuple[Factor, ...]:
    """All that differs, the work first."""
    one, two = _known(reference), _known(other)
    if identity(reference.machine).host != identity(other.machine).host:
        named = labels([reference.machine, other.machine])
        one["machine", "machine"] = label(reference.machine, named)
        two["machine", "machine"] = label(other.machine, named)
    names = dict.fromkeys([*one, *two])  # in the order of the first
    found = [Factor(*key, one.get(key, ABSENT), two.get(key, ABSENT)) for key in names if one.get(key) != two.get(key)]
    if (clocks := _clocks(reference, other)) is not None:
        found.append(clocks)
    kinds = ("work", "machine", "software", "condition")
    return tuple(sorted(found, key=lambda factor: kinds.index(factor.kind)))


def _known(summary: CaseSummary) -> dict[tuple[Kind, str], str]:
    """Every factor of one side with its value; what no launch recorded is left out."""
    records = [record for record in summary.records if record.outcome.status == "ok"] or list(summary.records)
    known: dict[tuple[Kind, str], str] = {}
    for each in fields(Case):
        if each.name not in IDENTITY:
            key = (_NOT_WORK.get(each.name, "work"), _NAMES.get(each.name, each.name.replace("_", " ")))
            known[key] = str(getattr(summary.case, each.name))
    dates = _joined(record.started_at[:10] for record in records)
    records = list({_setting(record): record for record in records}.values())
    for (kind, name), value in _OF_RECORD.items():
        values = _joined(value(record) for record in records)
        if values:
            known[kind, name] = values
    if dates:
        known["condition", "measured on"] = dates
    for package in sorted({package for record in records for package in record.software}):
        known["software", package] = _joined(record.software.get(package, ABSENT) for record in records)
    for variable in sorted({variable for record in records for variable in record.environment}):
        known["condition", variable] = _joined(record.environment.get(variable, ABSENT) or EMPTY for record in records)
    return known


def _setting(record: Reduced) -> Any:
    """All that factors are made of but the date. Records that were reduced share their parts."""
    parts = (record.machine, record.software, record.environment, record.devices)
    return *map(id, parts), record.parameters, record.cpu_capability, record.power_limits_watts


def _parameters(record: Reduced) -> str | None:
    return None if record.parameters is None else f"{record.parameters:,}"


def _devices(record: Reduced) -> str | None:
    return ", ".join(dict.fromkeys(device.name for device in record.devices))


def _device_memory(record: Reduced) -> str | None:
    sizes = dict.fromkeys(device.memory_bytes for device in record.devices if device.memory_bytes is not None)
    return ", ".join(f"{size / GIB:.1f} GiB" for size in sizes)


def _power_limit(record: Reduced) -> str | None:
    return ", ".join(f"{limit:.0f} W" for limit in dict.fromkeys(record.power_limits_watts) if limit is not None)


_OF_RECORD: Mapping[tuple[Kind, str], Callable[[Reduced], str | None]] = {
    ("work", "parameters"): _parameters,
    ("machine", "devices"): _devices,
    ("machine", "device memory"): _device_memory,
    ("machine", "CPU"): lambda record: record.machine.cpu,
    ("machine", "CPU cores"): lambda record: str(record.machine.cores),
    ("machine", "CPU limit"): lambda record: cpu_limit(record.machine) or (record.machine.name_from and "none"),
    ("machine", "host memory"): lambda record: f"{record.machine.memory_bytes / GIB:.1f} GiB",
    ("software", "operating system"): lambda record: record.machine.os,
    ("software", "driver"): lambda record: record.machine.driver,
    ("software", "CUDA of the driver"): lambda record: record.machine.cuda,
    ("condition", "power limit"): _power_limit,
    ("condition", "CPU instructions used"): lambda record: record.cpu_capability,
}


def _clocks(reference: CaseSummary, other: CaseSummary) -> Factor | None:
    one, two = _clock_mhz(reference), _clock_mhz(other)
    if one is None or two is None or abs(one - two) <= CLOCK_MARGIN * max(one, two):
        return None
    return Factor("condition", "mean clock in rounds", f"{one:.0f} MHz", f"{two:.0f} MHz")


def _clock_mhz(summary: CaseSummary) -> float | None:
    clocks = [clock for record in summary.records for clock in record.used.sm_clock_mhz]
    return median(clocks) if clocks else None


def _joined(values: Iterable[str | None]) -> str:
    return " and ".join(sorted({value for value in values if value}))
