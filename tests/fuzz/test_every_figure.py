"""Whatever number of a record is changed: it is refused or marked, or what is told of the launch is as it was or gone.

What is measured once, and followed by nothing else in the record, can be changed unseen. Each such number stands here
with the reason; any other that can be is a hole, and fails these tests. So does a new field that figures are made of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpubench.analysis.checks import doubts
from gpubench.spec.record import RunRecord
from tests.fuzz.figures import CHANGES, EVERYWHERE, FACTORS, FIRST, LAST, NONE, REMOVED, Launch, Where
from tests.fuzz.honest import honest_launch

NEAR = {0.95, 1.05}
WITHIN = {0.2, 0.5, 0.95, 1.05, 2, 100}  # neither 0 nor nothing at all
# What each may become unseen, and why nothing tells.
MEASURED_ONCE: dict[str, tuple[set[Any], str]] = {
    "Observed.peak_memory_bytes": (WITHIN, "a process counts its own memory; a device's is another figure"),
    "RoundTelemetry.utilization_percent": (WITHIN - {1.05, 2, 100}, "a sensor; a CPU share's holds its rank's time"),
    "RoundTelemetry.memory_used_bytes": (WITHIN - {100}, "a sensor, held only to the device's memory"),
    "RoundTelemetry.sm_clock_mhz": (WITHIN, "a sensor; of a GPU, it is held to the highest clock"),
    "RoundTelemetry.energy_joules": (NEAR, "counter and power may be 10 % apart without a word"),
    "GpuFacts.power_limit_watts": ({*CHANGES}, "a setting, which the power is held to"),
    **dict.fromkeys(
        ("SamplerCost.cpu_seconds", "SamplerCost.sweeps", "SamplerCost.seconds", "SamplerCost.call_seconds"),
        ({*CHANGES}, "what the sampler says of itself"),
    ),
}
# Of two changed together.
PAIRS_MEASURED_ONCE: dict[frozenset[str], tuple[set[Any], str]] = {
    frozenset({"RoundTelemetry.power_watts", "RoundTelemetry.energy_integrated_joules"}): (
        NEAR,
        "the second is made of the first; the counter may be 10 % apart from both",
    ),
}
LAUNCHES = {f"{kind} {n}": (kind, n) for kind in ("gpu", "cpu") for n in (1, 2)}


@pytest.fixture(scope="module", params=LAUNCHES, ids=lambda name: name.replace(" ", "s-"))
def launch(request: pytest.FixtureRequest) -> Launch:
    return Launch(honest_launch(*LAUNCHES[request.param]))


@pytest.fixture(scope="module")
def gpus() -> Launch:
    return Launch(honest_launch("gpu", 2))


def may_be(names: tuple[str, ...], change: Any) -> bool:
    found = [MEASURED_ONCE[name] for name in names if name in MEASURED_ONCE]
    found += [one for pair, one in PAIRS_MEASURED_ONCE.items() if pair <= set(names)]
    return any(change in allowed for allowed, _ in found)


def holes(
    launch: Launch,
    combinations: Iterator[tuple[str, ...]],
    changes: tuple[Any, ...],
    places: tuple[Where, ...] = (FIRST, LAST, EVERYWHERE),
) -> list[str]:
    """What can be changed unseen and is not said to be, in one place of a record or in all."""
    return [
        f"{' and '.join(names)} {change}: {told}"
        for names in combinations
        for change in changes
        if not may_be(names, change)
        for where in places
        if (told := launch.changed(dict.fromkeys(names, change), where)) is not None
    ]


@pytest.mark.parametrize(("kind", "n_devices"), LAUNCHES.values())
def test_an_honest_launch_raises_no_doubt(kind, n_devices):
    assert [check for check in doubts(honest_launch(kind, n_devices)) if check.severity != "note"] == []


def test_no_number_of_a_record_can_be_changed_unseen_but_what_is_measured_once(launch):
    assert len(launch.places) > 40
    assert holes(launch, ((name,) for name in launch.places), CHANGES) == []


@pytest.mark.parametrize("name", MEASURED_ONCE)
def test_what_is_said_to_be_measured_once_is(name):
    launches = [Launch(honest_launch(*each)) for each in (("gpu", 2), ("cpu", 2))]
    assert any(
        launch.changed({name: change}, where) is not None
        for launch in launches
        for change in MEASURED_ONCE[name][0]
        for where in (FIRST, EVERYWHERE)
    )


def pairs(launch: Launch) -> Iterator[tuple[str, ...]]:
    return itertools.combinations([name for name in launch.places if name not in MEASURED_ONCE], 2)


@pytest.mark.parametrize("where", [FIRST, LAST, EVERYWHERE])
def test_no_two_numbers_can_be_changed_together_unseen(gpus, where):
    assert holes(gpus, pairs(gpus), (0.5,), (where,)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("change", CHANGES)
def test_no_two_numbers_can_be_changed_together_unseen_by_any_factor(launch, change):
    assert holes(launch, pairs(launch), (change,)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("gone", [NONE, REMOVED])
@pytest.mark.parametrize("factor", FACTORS)
def test_no_number_can_be_changed_unseen_where_another_is_taken_away(launch, factor, gone):
    found = [
        f"{one} times {factor}, {other} {gone}: {told}"
        for one, other in itertools.permutations(launch.places, 2)
        if not may_be((one,), factor) and not may_be((other,), gone) and not may_be((one, other), factor)
        for where in (FIRST, EVERYWHERE)
        if (told := launch.changed({one: factor, other: gone}, where)) is not None
    ]
    assert found == []


@pytest.mark.parametrize(("kind", "field", "factors"), [
    ("cpu", "RoundTelemetry.utilization_percent", (0.2, 0.5)),  # its rank took more than that
    ("cpu", "RoundTelemetry.memory_used_bytes", (0, 2)),
    ("gpu", "RoundTelemetry.sm_clock_mhz", (0, 2, 100)),
    ("gpu", "RoundTelemetry.utilization_percent", (0, 1.05, 2)),
])  # fmt: skip
def test_a_sensor_is_held_to_what_can_be(kind, field, factors):
    launch = Launch(honest_launch(kind, 2))
    for factor, where in itertools.product(factors, (FIRST, EVERYWHERE)):
        assert launch.changed({field: factor}, where) is None, (factor, where)


ENERGIES = ("energy_joules", "energy_integrated_joules", "energy_error_joules", "energy_source", "power_average_watts")


@pytest.mark.parametrize("where", [FIRST, EVERYWHERE])
@pytest.mark.parametrize("factor", [factor for factor in FACTORS if factor])
def test_a_power_cannot_be_changed_where_all_that_is_made_of_it_is_taken_away(gpus, factor, where):
    gone = {f"RoundTelemetry.{name}": REMOVED for name in ENERGIES}
    assert gpus.changed({"RoundTelemetry.power_watts": factor, **gone}, where) is None


@pytest.mark.parametrize("factor", [0.2, 0.5, 2, 100])
def test_the_work_of_a_launch_cannot_be_changed_with_all_that_is_made_of_it(launch, factor):
    work = dict.fromkeys(("Round.steps", "Round.samples", "WarmUp.round_seconds"), factor)
    assert launch.changed({name: factor for name in work if name != "WarmUp.round_seconds"}) is None
    assert launch.changed(work) is None
    assert launch.changed({"Round.steps": factor, "Round.samples": factor, "WarmUp.round_seconds": REMOVED}) is None
    warm_up = ("step_seconds", "seconds", "first_step_seconds", "round_seconds", "empty_round_seconds")
    assert launch.changed({f"WarmUp.{name}": factor for name in warm_up}) is None


def staggered(record: RunRecord, factor: float, with_spans: bool) -> RunRecord:
    """Ranks that took less time than they did, one at the begin of each round and the other at its end."""
    rounds = []
    for each in record.rounds:
        took_ns = round(factor * (each.end_ns - each.start_ns))
        spans = [(each.start_ns, each.start_ns + took_ns), (each.end_ns - took_ns, each.end_ns)]
        told = spans if with_spans else None
        rounds.append(replace(each, rank_seconds=[took_ns / 1e9] * 2, rank_spans_ns=told))
    return replace(record, rounds=rounds)


@pytest.mark.parametrize("with_spans", [True, False])
@pytest.mark.parametrize("factor", [0.955, 0.985])
def test_ranks_that_are_moved_apart_to_seem_faster_are_doubted(factor, with_spans):
    record = honest_launch("gpu", 2)
    assert {check.name for check in doubts(staggered(record, factor, with_spans))} >= {"ranks_apart"}


def test_figures_of_no_sample_are_a_contradiction():
    record = honest_launch("gpu", 2)
    first, *others = record.telemetry.devices
    few = replace(first, rounds=[replace(each, samples=1) for each in first.rounds])
    changed = replace(record, telemetry=replace(record.telemetry, devices=[few, *others]))
    assert "telemetry_contradiction" in {check.name for check in doubts(changed)}
