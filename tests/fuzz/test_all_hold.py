"""That telemetry keeps to its invariants is seen at once; whatever is seen so, no invariant has anything against."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import replace

import pytest

from gpubench.spec.invariants import OF_TELEMETRY, broken, sensors
from gpubench.spec.record import DeviceTelemetry, RunRecord, Telemetry
from tests.fuzz.figures import variants
from tests.fuzz.honest import honest_launch

LAUNCHES = [("gpu", 1), ("gpu", 2), ("cpu", 1), ("cpu", 2)]


@pytest.fixture(params=LAUNCHES, ids=lambda kind: f"{kind[1]} {kind[0]}")
def honest(request: pytest.FixtureRequest) -> RunRecord:
    return honest_launch(*request.param)


def test_an_honest_launch_needs_no_closer_look(honest):
    assert sensors.all_hold(honest)


def test_what_is_seen_at_once_breaks_no_invariant(honest):
    seen, found = [0, 0], set[str]()
    for record in [*variants(honest), *lacking(honest), *shifted(honest)]:
        holds, problems = sensors.all_hold(record), broken(OF_TELEMETRY, record)
        assert not (holds and problems), problems
        seen[holds] += 1
        found.update(each.sentence for each in OF_TELEMETRY if each.problem(record))
    assert min(seen) > 50
    assert len(found) >= 9, "the changes break too few of the invariants to show anything"


def lacking(record: RunRecord) -> Iterator[RunRecord]:
    """Without a device, a round of it or a reason; with one twice; with a stranger."""
    telemetry = record.telemetry
    first, *others = telemetry.devices
    for devices in (
        [],
        others,
        [first, first, *others],
        [replace(first, id="another"), *others],
        [*telemetry.devices, replace(first, id="another")],
    ):
        yield _with(record, devices)
    for rounds in ([], first.rounds[1:], first.rounds[::-1], [*first.rounds, first.rounds[0]]):
        yield _with(record, [replace(first, rounds=rounds), *others])
    for field in dataclasses.fields(first.rounds[0]):
        if field.default is None:
            for number in range(len(first.rounds)):
                rounds = list(first.rounds)
                rounds[number] = replace(rounds[number], **{field.name: None})
                yield _with(record, [replace(first, rounds=rounds), *others])
    yield replace(record, telemetry=Telemetry())
    yield replace(record, telemetry=replace(telemetry, system=None))


def shifted(record: RunRecord) -> Iterator[RunRecord]:
    """With fewer samples, stolen time, and a clock that was held down for part of the causes or for too long."""
    first, *others = record.telemetry.devices
    for changes in (
        {"samples": 1},
        {"samples": 0},
        {"steal_percent": -9.0},
        {"steal_percent": 50.0},
        {"throttle_ns": {"power": 10**12}},
        {"throttle_ns": {"power": 0}},
        {"throttle_ns": {"thermal": 5}},
    ):
        for count in (1, len(first.rounds)):
            rounds = [replace(each, **changes) for each in first.rounds[:count]] + first.rounds[count:]
            yield _with(record, [replace(first, rounds=rounds), *others])


def _with(record: RunRecord, devices: list[DeviceTelemetry]) -> RunRecord:
    return replace(record, telemetry=replace(record.telemetry, devices=devices))
