"""What a record must keep to for figures to be made of it. Files come from anywhere: nothing in one is taken on trust.

Types are checked before this, on decoding. Here it is sense: no negative time, no round that ends before it begins,
no series of another length than its clock, and nothing so large that arithmetic on it would overflow. `strict` has
the limits of values by themselves for msgspec, which is many times as fast; here they are walked through to say why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from gpubench.spec.case import Case, Device
from gpubench.spec.record import Check, DeviceTelemetry, Machine, Round, RunRecord

LONGEST_WORD = 64  # characters; the words of a case make the names of its plots and logs
LONGEST_NAME = 200  # a name stands in table cells and plot legends
LONGEST_TEXT = 10_000
LONGEST_LIST = 1_000_000
MOST_VARIABLES = 10_000  # each that differs is a row of a comparison
LARGEST_FLOAT = 1e24  # byte counters of fast links pass 1e18 in a month
LARGEST_INTEGER = 2**63 - 1
LARGEST_COUNT = 10**15  # of samples or steps
LARGEST_SIZE = 10**6  # of devices, nodes, cores, launches
SHORTEST_SECONDS, LONGEST_SECONDS = 1e-9, 1e9  # of a round: one tick of the clock, and 31 years

# Every other number counts from 0. The kernel's counters of busy and stolen time may step back a little, and a NUMA
# node of -1 is its word for a machine that has only one.
SIGNED = {
    "utilization_percent",
    "steal_percent",
    "loss_first",
    "loss_last",
    "temperature_celsius",
    "memory_temperature_celsius",
    "late_seconds_p99",
    "numa_node",
    "seed",
}
NAMES: dict[tuple[type, str], int] = {
    **{(Case, word): LONGEST_WORD for word in ("workload", "framework", "strategy", "precision")},
    **{(kind, word): LONGEST_NAME for kind in (Device, DeviceTelemetry) for word in ("id", "name")},
    (Machine, "name"): LONGEST_NAME,
    (Check, "name"): LONGEST_NAME,
}


def validate(record: RunRecord) -> None:
    """ValueError with one plain sentence where a record makes no sense."""
    for problem in _sizes(record):
        raise ValueError(problem)
    see_that_it_fits_together(record)
    _walk(record, "")


def see_that_it_fits_together(record: RunRecord) -> None:
    """ValueError with one plain sentence where values do not fit one another: all that `strict` types cannot say."""
    for problem in (*_date(record), *_variables(record), *_rounds(record), *_telemetry(record)):
        raise ValueError(problem)


def _sizes(record: RunRecord) -> Iterator[str]:
    case = record.case
    for name, value, least, most in (
        ("launch", record.launch, 0, LARGEST_SIZE),
        ("case.n_devices", case.n_devices, 1, LARGEST_SIZE),
        ("case.n_nodes", case.n_nodes, 1, LARGEST_SIZE),
        ("case.cores_per_device", case.cores_per_device, 0, LARGEST_SIZE),
        ("case.per_device_batch", case.per_device_batch, 1, LARGEST_COUNT),
        ("case.global_batch", case.global_batch, 1, LARGEST_COUNT),
    ):
        if not least <= value <= most:
            yield f"{name} is {_figure(value)}; it must be {least} to {most}"


def _date(record: RunRecord) -> Iterator[str]:
    try:
        dated = datetime.fromisoformat(record.started_at)
    except ValueError:
        dated = None
    if dated is None or dated.tzinfo is None:
        yield "started_at is no date and time of ISO 8601 with its offset"


def _variables(record: RunRecord) -> Iterator[str]:
    for name in ("environment", "environment_kept_away", "software"):
        count = len(getattr(record, name) or ())
        if count > MOST_VARIABLES:
            yield f"{name} has {count:,} entries; it may have {MOST_VARIABLES:,}"


def _rounds(record: RunRecord) -> Iterator[str]:
    if len({each.index for each in record.rounds}) != len(record.rounds):
        yield "two rounds have the same index"
    control = record.telemetry.control
    for each in [*record.rounds, *([] if control is None else [control])]:
        for problem in _round(each):
            yield f"round {_figure(each.index)} {problem}"


def _round(each: Round) -> Iterator[str]:
    if each.end_ns < each.start_ns:
        yield "ends before it begins"
    if not 1 <= each.steps <= LARGEST_COUNT:
        yield f"has {_figure(each.steps)} steps; it must be 1 to {LARGEST_COUNT}"
    if not 0 <= each.samples <= LARGEST_COUNT:
        yield f"has {_figure(each.samples)} samples; it must be 0 to {LARGEST_COUNT}"
    if not each.rank_seconds:
        yield "has no rank's time"
    if len(each.rank_cpu_seconds) != len(each.rank_seconds):
        yield f"has {len(each.rank_seconds)} wall times and {len(each.rank_cpu_seconds)} CPU times"
    for seconds in each.rank_seconds:
        if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
            yield f"took a rank no time that can be: it must be {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g} s"
            return


def _telemetry(record: RunRecord) -> Iterator[str]:
    file = record.telemetry.series_file
    if file is not None and (file.startswith("/") or ".." in file.split("/") or not file.isprintable()):
        yield "telemetry.series_file is no file beside the journal"
    for device in record.telemetry.devices:
        for metric, values in device.series.items():
            if len(values) != len(device.time_ns):
                yield f"telemetry has {len(values)} values of {metric[:LONGEST_NAME]} at {len(device.time_ns)} times"


def _walk(value: Any, where: str) -> None:
    """ValueError at the first value that is wrong by itself, wherever in the record it stands."""
    if value is None:
        return
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"{where} is {len(value)} characters long, over {LONGEST_TEXT}")
    elif isinstance(value, (int, float)):
        _see_number(value, where)
    elif isinstance(value, (list, tuple)):
        _walk_list(value, where)
    elif isinstance(value, dict):
        for key, item in value.items():
            if len(key) > LONGEST_NAME:
                raise ValueError(f"{where} has a name of {len(key)} characters, over {LONGEST_NAME}")
            _walk(item, f"{where}.{key}")
    else:
        for name, longest in _named(type(value)):  # type: ignore[arg-type]  # a type can be hashed
            item = getattr(value, name)
            if longest is not None and len(item) > longest:
                raise ValueError(f"{where}.{name} is {len(item)} characters long, over {longest}".lstrip("."))
            if item is not None and item != []:
                _walk(item, f"{where}.{name}" if where else name)


@cache
def _named(kind: type) -> list[tuple[str, int | None]]:
    """The fields of a dataclass, and how long each may be where that is a name."""
    assert dataclasses.is_dataclass(kind)
    return [(field.name, NAMES.get((kind, field.name))) for field in dataclasses.fields(kind)]


def _walk_list(values: list[Any] | tuple[Any, ...], where: str) -> None:
    """Numbers by their extremes, as series are long; anything else item by item."""
    if len(values) > LONGEST_LIST:
        raise ValueError(f"{where} has {len(values)} entries, over {LONGEST_LIST}")
    numbers = [value for value in values if isinstance(value, (int, float))]
    if numbers:
        _see_number(min(numbers), where)
        _see_number(max(numbers), where)
    else:
        for index, item in enumerate(values):
            _walk(item, f"{where}[{index}]")


def _see_number(number: int | float, where: str) -> None:
    largest = LARGEST_INTEGER if isinstance(number, int) else LARGEST_FLOAT
    if not -largest <= number <= largest:  # also where it is not a number
        raise ValueError(f"{where} is {_figure(number)}, beyond {_figure(largest)}")
    if number < 0 and where.rpartition(".")[2] not in SIGNED:
        raise ValueError(f"{where} is negative ({_figure(number)})")


def _figure(number: int | float) -> str:
    """A number of any size in a few characters; an integer may have more digits than a float can hold."""
    if isinstance(number, float):
        return f"{number:g}"
    digits = number.bit_length() * 3 // 10  # not by printing it: Python refuses to print very long ones
    return str(number) if digits < 20 else f"an integer of about {digits} digits"
