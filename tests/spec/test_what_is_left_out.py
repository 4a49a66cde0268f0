"""A figure that is left out of a record takes no doubt away with it."""

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpubench.analysis.checks import doubts
from gpubench.files import store
from gpubench.harness import runner
from gpubench.spec.record import DeviceTelemetry, RoundTelemetry, RunRecord, Telemetry, to_json
from tests.builders import make_case, make_record
from tests.harness.test_contradictions import changed_at, gpus, measured

LAST = 2


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> RunRecord:
    """As the harness writes it, of two devices of the fake framework; sampled by hand, for telemetry's doubts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "TIMING_COST_LIMIT", 1e9)
        [record] = measured(Path(tmp_path_factory.mktemp("logs")), "ranks", 2, 1)
    return replace(record, telemetry=telemetry(record), checks=[])


def telemetry(record: RunRecord, **changes: Any) -> Telemetry:
    figures = {"utilization_percent": 100.0, "memory_used_bytes": 2**30, "steal_percent": 0.0} | changes
    rounds = [RoundTelemetry(index=each.index, samples=10, **figures) for each in record.rounds]
    devices = [DeviceTelemetry(id=device.id, name=device.name, rounds=rounds) for device in record.devices]
    return Telemetry(source="cpu", period_seconds=0.1, devices=devices)


def observed(record: RunRecord, **changes: Any) -> RunRecord:
    return replace(record, observed=replace(record.observed, **changes))


def warmed_up(record: RunRecord, **changes: Any) -> RunRecord:
    return replace(record, warmup=replace(record.warmup, **changes))


def of_rounds(record: RunRecord, **changes: Any) -> RunRecord:
    return replace(record, rounds=[replace(each, **changes) for each in record.rounds])


def apart(record: RunRecord) -> RunRecord:
    """Its second rank runs when its first one is done."""
    late = []
    for each in record.rounds:
        by_ns = 3 * (each.end_ns - each.start_ns) * (each.index + 1)
        (a, b), (c, d) = each.rank_spans_ns
        spans = [(a + by_ns, b + by_ns), (c + by_ns + b - a, d + by_ns + b - a)]
        late.append(replace(each, rank_spans_ns=spans, start_ns=spans[0][0], end_ns=spans[1][1]))
    return replace(record, rounds=late)


SPOILT = {
    "no_steady_state": lambda r: warmed_up(r, steady=False, verdict="steps were still getting faster"),
    "timing_cost": lambda r: warmed_up(r, empty_round_seconds=0.5),
    "stood_still": lambda r: replace(r, host=replace(r.host, stood_still_seconds=9.0)),
    "swap": lambda r: replace(r, host=replace(r.host, swap_in_bytes=2**30)),
    "world_size": lambda r: observed(r, world_size=1),
    "wrong_devices": lambda r: observed(r, device_ids=["core 0"]),
    "parameters": lambda r: observed(r, parameters=7),
    "precision": lambda r: observed(r, product_types=["bfloat16"]),
    "loss_not_finite": lambda r: observed(r, loss_finite=False, loss_last=None),
    "loss_did_not_fall": lambda r: observed(r, loss_last=9.0),
    "parameters_did_not_move": lambda r: observed(r, moving_digests=[r.observed.moving_digests[-1]] * 3),
    "replicas_differ": lambda r: observed(
        r,
        replicas_equal=False,
        replica_digests=["a", "b"],
        moving_digests=[*r.observed.moving_digests[:-1], ["a", "b"]],
    ),
    "ranks_apart": apart,
    "cpu_throttled": lambda r: of_rounds(r, cpu_periods=10, cpu_throttled_periods=9, cpu_throttled_seconds=1.5),
    "debug_environment": lambda r: replace(r, environment=r.environment | {"MKL_VERBOSE": "1"}),
    "foreign_load": lambda r: of_rounds(r, rank_cpu_seconds=[0.1, 0.1]),
    "stolen_time": lambda r: replace(r, telemetry=telemetry(r, steal_percent=60.0)),
    "telemetry_incomplete": lambda r: replace(r, telemetry=Telemetry(reason="the sampler hung")),
}
CONTRADICTIONS = {"contradiction", "telemetry_contradiction", "time_does_not_add_up", "samples_counted"}


def left_out(value: Any, name: str = "") -> list[tuple[tuple[Any, ...], Any]]:
    """Where something is that could be left out, and what then stands there: None, or nothing in a list or mapping."""
    found: list[tuple[tuple[Any, ...], Any]] = []
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            inner = getattr(value, each.name)
            if "None" in str(each.type) and inner is not None:
                found.append(((each.name,), None))
            elif isinstance(inner, (list, dict)) and inner:
                found.append(((each.name,), type(inner)()))
            found += [((each.name, *place), empty) for place, empty in left_out(inner)]
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += [((index, *place), empty) for place, empty in left_out(item)]
    return found


def names(record: RunRecord) -> set[str]:
    return {check.name for check in doubts(record)}


def assert_still_doubted(record: RunRecord, place: tuple[Any, ...], empty: Any) -> None:
    """It is refused, has the doubts that it had, or contradicts itself."""
    try:
        read = store.decode(to_json(changed_at(record, place, lambda _: empty)))
    except ValueError:
        return
    after = names(read)
    assert names(record) <= after or after & CONTRADICTIONS, place


def test_an_honest_launch_is_not_doubted(honest):
    assert names(honest) == set()


@pytest.mark.parametrize("doubt", SPOILT)
def test_nothing_that_is_left_out_takes_a_doubt_away(honest, doubt):
    record = SPOILT[doubt](honest)
    before = names(record)
    assert doubt in before
    places = left_out(record)
    assert len(places) > 40
    for place, empty in places:
        assert_still_doubted(record, place, empty)


@pytest.mark.parametrize("metric", ["processes", "ecc_uncorrected"])
def test_nothing_that_is_left_out_takes_a_doubt_about_a_gpu_away(metric):
    record = gpus()[0]
    counts = {"processes": (2, 2, 3), "ecc_uncorrected": (0, 0, 1)}[metric]
    sampled = [
        replace(device, rounds=[replace(r, **{metric: n}) for r, n in zip(device.rounds, counts, strict=True)])
        for device in record.telemetry.devices
    ]
    record = replace(record, telemetry=replace(record.telemetry, devices=sampled[:1] + record.telemetry.devices[1:]))
    before = names(record)
    assert before & {"device_joined", "device_errors"}
    for place, empty in left_out(record.telemetry.devices[0].rounds[LAST]):
        assert_still_doubted(record, ("telemetry", "devices", 0, "rounds", LAST, *place), empty)


@pytest.mark.parametrize("doubt", ["no_steady_state", "world_size", "wrong_devices", "parameters"])
def test_what_every_version_has_written_takes_no_doubt_away_from_an_older_record(doubt):
    record = SPOILT[doubt](make_record(make_case("ddp", 2)))
    assert doubt in names(record)
    for place in (("warmup",), ("observed", "world_size"), ("observed", "parameters")):
        assert_still_doubted(record, place, None)
    assert_still_doubted(record, ("observed", "device_ids"), [])
