"""What is marked on a launch's traces: its rounds, who disturbed them, and when a clock was held down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from gpubench.analysis.checks.gpu import FAULT_REASONS, FAULTS, rounds_joined
from gpubench.analysis.checks.limits import LOAD_WARNING
from gpubench.analysis.load import round_loads
from gpubench.report.words import short
from gpubench.spec.record import EVENT_REASONS, DeviceTelemetry, Round, RunRecord

# `held` is a clock held down by heat or hardware, `capped` one at the power limit, as is usual for a busy GPU.
Kind = Literal["round", "loaded", "control", "held", "capped"]
POWER_CAP = "power cap"
REASON_BITS = {name: bit for bit, name in EVENT_REASONS.items() if name in {POWER_CAP, *FAULT_REASONS}}
COUNTERS = {"power": POWER_CAP, **{cause: cause.replace("_", " ") for cause in FAULTS}}
NAMED_DEVICES, NAMED_ROUNDS = 4, 10


@dataclass(frozen=True)
class Mark:
    """From one time to another, both on the node's monotonic clock."""

    start_ns: int
    end_ns: int
    kind: Kind
    cause: str = ""


def round_marks(record: RunRecord) -> list[Mark]:
    """The timed rounds, those that others disturbed among them, and the control round."""
    loaded = disturbed_rounds(record)
    marks = [Mark(each.start_ns, each.end_ns, "loaded" if each.index in loaded else "round") for each in record.rounds]
    control = record.telemetry.control
    return marks if control is None else [*marks, Mark(control.start_ns, control.end_ns, "control")]


def disturbed_rounds(record: RunRecord) -> dict[int, str]:
    """By a round's index, who took what the case was to have for itself."""
    found = {i: "another process came to the GPU" for d in record.telemetry.devices for i in rounds_joined(d)}
    for load in round_loads(record):
        for who, share in (("other guests of the host", load.stolen), ("other processes", load.foreign)):
            if (share or 0.0) > LOAD_WARNING:
                found[load.index] = f"{who} took over {100 * LOAD_WARNING:.0f} % of the cores' time"
    return found


def held_marks(device: DeviceTelemetry, rounds: Sequence[Round], control: Round | None) -> list[Mark]:
    """When the device's clock was held down, and by what: where a counter grew, else where the driver gave it.

    A round of which only the summary tells is marked whole. What grew over the control round may have done so there,
    and is left out.
    """
    counted = {cause: f"throttle_{counter}_ns" for counter, cause in COUNTERS.items()}
    spans = {cause: _grown(device, counter) for cause, counter in counted.items() if known(device, counter)}
    reasons = [cause for cause in REASON_BITS if cause not in spans]  # which are read once a second only
    spans |= {cause: _set(device, REASON_BITS[cause]) for cause in reasons}
    bounds = {each.index: (each.start_ns, each.end_ns) for each in rounds}
    for each in device.rounds:
        told = {COUNTERS[counter] for counter, ns in each.throttle_ns.items() if ns > 0 and counter in COUNTERS}
        told |= {*reasons} & {*each.clock_event_reasons}
        start_ns, end_ns = bounds.get(each.index, (0, 0))
        for cause in sorted(told):
            if not any(a < end_ns and b > start_ns for a, b in spans.setdefault(cause, [])):
                spans[cause].append((start_ns, end_ns))
    if control is not None:
        spans = {
            cause: [
                (start_ns, end_ns)
                for start_ns, end_ns in found
                if end_ns <= control.start_ns or start_ns >= control.end_ns
            ]
            for cause, found in spans.items()
        }
    return [
        Mark(start_ns, end_ns, "capped" if cause == POWER_CAP else "held", cause)
        for cause, found in spans.items()
        for start_ns, end_ns in joined(found)
    ]


def held_notes(held: Mapping[str, Sequence[Mark]], rounds: Sequence[Round]) -> Iterable[str]:
    """In words, by cause, what of the marks of each device, by its id, fell into which rounds."""
    found: dict[tuple[str, str], dict[str, list[Mark]]] = {}
    for id, marks in held.items():
        for mark in marks:
            found.setdefault((mark.kind, mark.cause), {}).setdefault(short(id), []).append(mark)
    for (kind, cause), by_device in sorted(found.items(), reverse=True):
        every = [mark for marks in by_device.values() for mark in marks]
        hit = [one.index for one in rounds if any(m.start_ns < one.end_ns and m.end_ns > one.start_ns for m in every)]
        more = f" and {len(by_device) - NAMED_DEVICES} more" if len(by_device) > NAMED_DEVICES else ""
        what = "At the power limit at times" if kind == "capped" else f"Clock held down ({cause})"
        yield f"{what}: {', '.join(list(by_device)[:NAMED_DEVICES])}{more}, {_in_rounds(hit, len(rounds))}."


def load_notes(record: RunRecord) -> Iterable[str]:
    """In words, who disturbed which rounds."""
    by_whom: dict[str, list[int]] = {}
    for index, whom in sorted(disturbed_rounds(record).items()):
        by_whom.setdefault(whom, []).append(index)
    for whom, indices in by_whom.items():
        yield f"{whom[0].upper()}{whom[1:]} {_in_rounds(indices, len(record.rounds))}."


def joined(spans: Iterable[tuple[int, int]], gap_ns: int = 0) -> list[tuple[int, int]]:
    """In order, and one span for all that overlap or lie no further apart than `gap_ns`."""
    found: list[tuple[int, int]] = []
    for start_ns, end_ns in sorted(spans):
        if found and start_ns <= found[-1][1] + gap_ns:
            found[-1] = (found[-1][0], max(found[-1][1], end_ns))
        elif end_ns > start_ns:
            found.append((start_ns, end_ns))
    return found


def known(device: DeviceTelemetry, metric: str) -> list[tuple[int, float]]:
    """(time, value) of the readings that succeeded, in order of time."""
    values = device.series.get(metric, [])
    return sorted((time, value) for time, value in zip(device.time_ns, values, strict=False) if value is not None)


def _grown(device: DeviceTelemetry, counter: str) -> list[tuple[int, int]]:
    return [(t, u) for (t, before), (u, after) in pairwise(known(device, counter)) if after > before]


def _set(device: DeviceTelemetry, bit: int) -> list[tuple[int, int]]:
    """From the readings that have the bit to the next ones."""
    readings = pairwise(known(device, "clock_event_reasons"))
    return [(t, u) for (t, reasons), (u, _) in readings if int(reasons) & bit]


def _in_rounds(indices: Sequence[int], total: int) -> str:
    """Rounds count from 0, as in the record."""
    if not indices:
        return "outside of the timed rounds"
    if len(indices) == total:
        return "in every round"
    some = ", ".join(map(str, indices[:NAMED_ROUNDS])) + (", …" if len(indices) > NAMED_ROUNDS else "")
    return f"in round{'s' if len(indices) > 1 else ''} {some} of 0 to {total - 1}"
